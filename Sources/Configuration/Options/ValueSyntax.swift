internal import Platform

/// How the text of an option becomes a value, and how a value is written.
///
/// `parse(render(value)!) == value` for every value that `render` can write.
struct ValueSyntax<Value: Sendable>: Sendable {
    /// How a value is described in a table of the options: `true|false`, `0 to 65535`, `PATH`.
    let shape: String
    /// The values that are expected, to follow "expected" in a message.
    let expected: String
    var extent = ValueExtent.word
    /// What there is to say of a text that is taken for another value than it names, as a sentence; nil for all others.
    var remark: @Sendable (String) -> String? = { _ in nil }
    /// The value, or nil when the text is not one.
    let parse: @Sendable (String) -> Value?
    /// The text of a value, or nil for one that stands for "not given".
    let render: @Sendable (Value) -> String?
}

extension ValueSyntax where Value == Bool {
    /// Exactly `true`, `1`, `false` or `0`.
    static var boolean: ValueSyntax {
        ValueSyntax(
            shape: "true|false", expected: "true or false",
            parse: { text in
                switch text {
                case "true", "1": true
                case "false", "0": false
                default: nil
                }
            },
            render: { $0 ? "true" : "false" })
    }
}

extension ValueSyntax where Value: FixedWidthInteger {
    /// A decimal number in `range`.
    static func integer(_ range: ClosedRange<Value>) -> ValueSyntax {
        ValueSyntax(
            shape: "\(range.lowerBound) to \(range.upperBound)", expected: expectation(range),
            parse: { text in Value(text).flatMap { range.contains($0) ? $0 : nil } },
            render: { "\($0)" })
    }

    /// A decimal number; one below `range` is taken for its least number, as mosquitto does.
    static func integer(atLeast range: ClosedRange<Value>) -> ValueSyntax {
        var syntax = ValueSyntax(
            shape: "\(range.lowerBound) to \(range.upperBound)", expected: expectation(range),
            parse: { text in
                guard let number = Value(text), number <= range.upperBound else { return nil }
                return max(number, range.lowerBound)
            },
            render: { "\($0)" })
        syntax.remark = { text in
            guard let number = Value(text), number < range.lowerBound else { return nil }
            return "\(number) is too low; \(range.lowerBound) is used."
        }
        return syntax
    }

    private static func expectation(_ range: ClosedRange<Value>) -> String {
        if range.upperBound == range.lowerBound + 1 { return "\(range.lowerBound) or \(range.upperBound)" }
        if range.upperBound == range.lowerBound + 2 {
            return "\(range.lowerBound), \(range.lowerBound + 1) or \(range.upperBound)"
        }
        return "a number from \(range.lowerBound) to \(range.upperBound)"
    }
}

extension ValueSyntax where Value == Int? {
    /// A number up to `largest`; 0 stands for "no limit", "off" or "automatic".
    static func limit(_ largest: Int = Limits.countMax) -> ValueSyntax {
        ValueSyntax(
            shape: "0 to \(largest)", expected: "a number from 0 to \(largest)",
            parse: { text in
                guard let number = Int(text), (0...largest).contains(number) else { return nil }
                return .some(number == 0 ? nil : number)
            },
            render: { $0.map { "\($0)" } ?? "0" })
    }

    /// A number up to `largest`; -1 (and, as with mosquitto, 0) stands for "no limit".
    static var count: ValueSyntax {
        let largest = Limits.countMax
        return ValueSyntax(
            shape: "-1 to \(largest)", expected: "a number from -1 to \(largest)",
            parse: { text in
                guard let number = Int(text), (-1...largest).contains(number) else { return nil }
                return .some(number > 0 ? number : nil)
            },
            render: { $0.map { "\($0)" } ?? "-1" })
    }
}

extension ValueSyntax where Value == String {
    /// The rest of the line.
    static func text(_ shape: String) -> ValueSyntax {
        ValueSyntax(shape: shape, expected: "a text", extent: .line, parse: { $0 }, render: { $0 })
    }
}

extension ValueSyntax where Value: CaseIterable & RawRepresentable<String> {
    /// One of the names of `Value`'s cases.
    static var choice: ValueSyntax { choice(unmentioned: []) }

    /// One of the names of `Value`'s cases, of which some are understood without being offered: the broker would refuse
    /// them.
    static func choice(unmentioned: [Value]) -> ValueSyntax {
        let names = Value.allCases.map(\.rawValue).filter { name in !unmentioned.contains { $0.rawValue == name } }
        return ValueSyntax(
            shape: names.joined(separator: "|"), expected: enumeration(names), parse: { Value(rawValue: $0) },
            render: { $0.rawValue })
    }
}

extension ValueSyntax {
    /// One of a few words, each with its value.
    static func oneOf(_ values: KeyValuePairs<String, Value>) -> ValueSyntax where Value: Equatable {
        let names = values.map(\.key)
        let pairs = values.map { $0 }
        return ValueSyntax(
            shape: names.joined(separator: "|"), expected: enumeration(names),
            parse: { text in pairs.first { $0.key == text }?.value },
            render: { value in pairs.first { $0.value == value }?.key })
    }

    /// These texts for a property that may be nil, which no text stands for.
    var optional: ValueSyntax<Value?> {
        ValueSyntax<Value?>(
            shape: shape, expected: expected, extent: extent, remark: remark,
            parse: { [parse] text in parse(text).map { .some($0) } },
            render: { [render] value in value.flatMap(render) })
    }

    /// These texts as far as `condition` holds for their value.
    func with(expected: String, _ condition: @escaping @Sendable (Value) -> Bool) -> ValueSyntax {
        ValueSyntax(
            shape: shape, expected: expected, extent: extent, remark: remark,
            parse: { [parse] text in parse(text).flatMap { condition($0) ? $0 : nil } }, render: render)
    }
}

/// "a, b or c".
private func enumeration(_ names: [String]) -> String {
    guard let last = names.last, names.count > 1 else { return names.first ?? "" }
    return names.dropLast().joined(separator: ", ") + " or " + last
}

extension Int {
    /// The largest time that a line may ask for in seconds or milliseconds: about 68 years of seconds.
    static let largestTime = Int(Int32.max)
}

/// Why a value was refused.
enum Expectation: Sendable, Equatable {
    /// The value is not `what`.
    case expected(String)
    /// A sentence of its own.
    case sentence(String)
    /// It was taken all the same, and this is to be said of it: a sentence.
    case remark(String)
}

extension ValueSyntax where Value == Int? {
    /// A number and its unit, as in `14d`: seconds, hours, days, weeks, months of 30 days, years of 365 days.
    static var duration: ValueSyntax {
        ValueSyntax(
            shape: "NUMBER[s|h|d|w|m|y]", expected: "a number from 1 on and one of the units s, h, d, w, m and y, such as 14d",
            parse: { text in
                guard let unit = text.last, let seconds = seconds(of: unit), let number = Int(text.dropLast()), number > 0
                else { return nil }
                let (product, overflow) = number.multipliedReportingOverflow(by: seconds)
                return overflow || product > .largestTime ? nil : .some(product)
            },
            render: { $0.map { "\($0)s" } })
    }

    private static func seconds(of unit: Character) -> Int? {
        switch unit {
        case "s": 1
        case "h": 3600
        case "d": 86400
        case "w": 7 * 86400
        case "m": 30 * 86400
        case "y": 365 * 86400
        default: nil
        }
    }
}

extension ValueSyntax where Value == SlowClients {
    /// `log 30s` or `disconnect 30s`.
    static var slowClients: ValueSyntax {
        ValueSyntax(
            shape: "log|disconnect SECONDS", expected: "log or disconnect, and 1 to 86400 seconds, such as log 30s",
            extent: .words,
            parse: { text in
                let words = text.words
                guard words.count == 2, ["log", "disconnect"].contains(words[0]),
                    let seconds = Int(words[1].hasSuffix("s") ? words[1].dropLast() : words[1][...]), (1...86400).contains(seconds)
                else { return nil }
                return SlowClients(disconnects: words[0] == "disconnect", seconds: seconds)
            },
            render: { "\($0.disconnects ? "disconnect" : "log") \($0.seconds)s" })
    }
}

extension ValueSyntax where Value == String {
    /// A text at the beginning of a Client Identifier; empty, which no text stands for, for none.
    static var identifierPrefix: ValueSyntax {
        ValueSyntax(
            shape: "TEXT", expected: "at most 50 bytes, in which %u may stand for the user name", extent: .line,
            parse: { $0.utf8.count <= 50 ? $0 : nil }, render: { $0.isEmpty ? nil : $0 })
    }
}

extension ValueSyntax where Value == CertificateNameChoice {
    /// `cn`, `san-uri 2` and the like.
    static var certificateName: ValueSyntax {
        let names = CertificateNameChoice.Kind.allCases.map(\.rawValue)
        return ValueSyntax(
            shape: "\(names.joined(separator: "|")) [NUMBER]",
            expected: "\(enumeration(names)), and perhaps which one of several, 1 to 100, such as san-uri 1",
            extent: .words,
            parse: { text in
                let words = text.words
                guard (1...2).contains(words.count), let kind = CertificateNameChoice.Kind(rawValue: words[0]) else { return nil }
                guard words.count == 2 else { return CertificateNameChoice(kind) }
                // There is one subject, and one SPIFFE ID.
                guard kind != .subject, kind != .spiffe, let index = Int(words[1]), (1...100).contains(index) else { return nil }
                return CertificateNameChoice(kind, index: index)
            },
            render: { choice in "\(choice.kind.rawValue)\(choice.index.map { " \($0)" } ?? "")" })
    }
}

extension ValueSyntax where Value == NetworkConnectionLimit {
    /// `COUNT [/BITS [/BITS]]`, such as `500 /24 /48`.
    static var networkConnections: ValueSyntax {
        ValueSyntax(
            shape: "COUNT [/BITS [/BITS]]",
            expected: "a number from 1 to \(Limits.countMax), and how many bits of an IPv4 and of an IPv6 address a network has, "
                + "such as 500 /24 /48",
            extent: .words,
            parse: { text in
                let words = text.words
                func bits(_ place: Int, _ usual: Int, _ longest: Int) -> Int? {
                    guard words.count > place else { return usual }
                    guard words[place].first == "/", let bits = Int(words[place].dropFirst()), (1...longest).contains(bits) else {
                        return nil
                    }
                    return bits
                }
                guard (1...3).contains(words.count), let count = Int(words[0]), (1...Limits.countMax).contains(count),
                    let ipv4 = bits(1, 24, 32), let ipv6 = bits(2, 48, 128)
                else { return nil }
                return NetworkConnectionLimit(count: count, ipv4Bits: ipv4, ipv6Bits: ipv6)
            },
            render: { "\($0.count) /\($0.ipv4Bits) /\($0.ipv6Bits)" })
    }
}

extension ValueSyntax where Value == OffenceLimit {
    /// `COUNT/WINDOW BAN`, such as `10/60s 300s`.
    static var offences: ValueSyntax {
        ValueSyntax(
            shape: "COUNT/SECONDS SECONDS",
            expected: "how often in how long, 1 to 100000 times in 1 to 86400 seconds, and for how long, 1 to 31536000 seconds, "
                + "such as 10/60s 300s",
            extent: .words,
            parse: { text in
                let words = text.words
                guard words.count == 2, let slash = words[0].firstIndex(of: "/"),
                    let count = number(words[0][..<slash], 1...100_000),
                    let window = seconds(words[0][slash...].dropFirst(), 1...86_400),
                    let ban = seconds(words[1][...], 1...31_536_000)
                else { return nil }
                return OffenceLimit(count: count, windowSeconds: window, banSeconds: ban)
            },
            render: { "\($0.count)/\($0.windowSeconds)s \($0.banSeconds)s" })
    }

    private static func seconds(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
        number(text.hasSuffix("s") ? text.dropLast() : text, range)
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text), range.contains(number) else {
            return nil
        }
        return number
    }
}

extension ValueSyntax where Value == String {
    /// `HOST` or `HOST:PORT`, as a Server Reference of MQTT 5.0 has it.
    static var nodeAddress: ValueSyntax {
        .text("HOST[:PORT]").with(expected: "a host with or without a port, such as broker-1.example:1883 or [::1]:1883") { text in
            var (host, port) = (text[...], nil as Substring?)
            if text.hasPrefix("[") {
                guard let end = text.lastIndex(of: "]") else { return false }
                let rest = text[text.index(after: end)...]
                guard rest.isEmpty || rest.first == ":" else { return false }
                (host, port) = (text[text.index(after: text.startIndex)..<end], rest.isEmpty ? nil : rest.dropFirst())
                guard
                    host.utf8.allSatisfy({
                        $0 == 0x3A || $0 == 0x2E || $0 == 0x25 || ($0 < 0x80 && Character(Unicode.Scalar($0)).isHexDigit)
                    })
                else { return false }
            } else {
                if let colon = text.firstIndex(of: ":") { (host, port) = (text[..<colon], text[text.index(after: colon)...]) }
                let isName = host.utf8.allSatisfy { byte in
                    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
                        || byte == 0x2E || byte == 0x5F
                }
                guard isName else { return false }
            }
            let isPort = port.map { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } && (1...65_535).contains(Int($0) ?? 0) }
            return (1...253).contains(host.utf8.count) && isPort ?? true
        }
    }

    /// One level of a topic.
    static var nodeName: ValueSyntax {
        .text("NAME").with(
            expected: "one level of a topic, up to \(Limits.nodeNameBytesMax) bytes without / + # and control characters"
        ) { name in
            !name.isEmpty && name.utf8.count <= Limits.nodeNameBytesMax
                && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f && !"/+#".unicodeScalars.contains($0) }
        }
    }
}

extension ValueSyntax where Value == Durability {
    /// `commit`, `none`, or `interval SECONDS`.
    static var durability: ValueSyntax {
        ValueSyntax(
            shape: "commit|interval SECONDS|none", expected: "commit, none, or interval and 1 to 86400 seconds", extent: .words,
            parse: { text in
                let words = text.words
                switch (words.first, words.count) {
                case ("commit", 1): return .commit
                case ("none", 1): return Durability.none
                case ("interval", 2):
                    guard let seconds = Int(words[1]), (1...86400).contains(seconds) else { return nil }
                    return .interval(seconds: seconds)
                default: return nil
                }
            },
            render: { durability in
                switch durability {
                case .commit: "commit"
                case .interval(let seconds): "interval \(seconds)"
                case .none: "none"
                }
            })
    }
}

extension ValueSyntax where Value == Set<UInt8> {
    /// Some of 3, 4 and 5 with commas between them.
    static var protocolVersions: ValueSyntax {
        ValueSyntax(
            shape: "3,4,5", expected: "some of 3, 4 and 5 with commas between them", extent: .words,
            parse: { text in
                var versions: Set<UInt8> = []
                // As in mosquitto, commas may have nothing between them.
                for part in text.split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" }) {
                    guard let version = UInt8(part), (3...5).contains(version) else { return nil }
                    versions.insert(version)
                }
                return versions.isEmpty ? nil : versions
            },
            render: { $0.sorted().map { "\($0)" }.joined(separator: ",") })
    }
}

extension ValueSyntax where Value == Set<HTTPOffer> {
    /// Some of the words with commas between them.
    static var offers: ValueSyntax {
        let names = HTTPOffer.allCases.map(\.rawValue)
        return ValueSyntax(
            shape: names.joined(separator: ","), expected: "some of \(names.joined(separator: ", ")) with commas between them",
            extent: .words,
            parse: { text in
                var offers: Set<HTTPOffer> = []
                for part in text.split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" }) {
                    guard let offer = HTTPOffer(rawValue: String(part)) else { return nil }
                    offers.insert(offer)
                }
                return offers.isEmpty ? nil : offers
            },
            render: { offers in
                HTTPOffer.allCases.filter { offers.contains($0) }.map(\.rawValue).joined(separator: ",")
            })
    }
}

extension ValueSyntax where Value == BridgeRestart {
    /// `BASE [CAP [STABLE]]` in seconds. A base of 0 is taken for 1, as mosquitto does.
    static var restart: ValueSyntax {
        var syntax = ValueSyntax(
            shape: "BASE [CAP [STABLE]]", expected: "one to three numbers of seconds, the second not below the first",
            extent: .words,
            parse: { text in
                let words = text.words
                var numbers = words.compactMap { Int($0) }
                guard (1...3).contains(words.count), numbers.count == words.count else { return nil }
                if numbers[0] == 0 { numbers[0] = 1 }
                guard numbers.allSatisfy({ (1...86400).contains($0) }) else { return nil }
                let cap = numbers.count > 1 ? numbers[1] : nil
                if let cap, cap < numbers[0] { return nil }
                return BridgeRestart(
                    baseSeconds: numbers[0], capSeconds: cap, stableSeconds: numbers.count > 2 ? numbers[2] : nil)
            },
            render: { restart in
                [restart.baseSeconds, restart.capSeconds, restart.stableSeconds].compactMap { $0 }.map { "\($0)" }
                    .joined(separator: " ")
            })
        syntax.remark = { text in Int(text.words.first ?? "") == 0 ? "0 is too low; 1 is used." : nil }
        return syntax
    }
}

extension ValueSyntax where Value == TCPKeepAlive {
    /// `IDLE INTERVAL COUNT`.
    static var tcpKeepAlive: ValueSyntax {
        ValueSyntax(
            shape: "IDLE INTERVAL COUNT", expected: "three numbers: idle seconds, interval seconds and count", extent: .words,
            parse: { text in
                let words = text.words
                let numbers = words.compactMap { Int($0) }
                guard words.count == 3, numbers.count == 3, numbers.allSatisfy({ (1...32767).contains($0) }) else { return nil }
                return TCPKeepAlive(idleSeconds: numbers[0], intervalSeconds: numbers[1], count: numbers[2])
            },
            render: { "\($0.idleSeconds) \($0.intervalSeconds) \($0.count)" })
    }
}

extension ValueSyntax where Value == String {
    /// A text in front of a topic: no wildcard belongs there.
    static func topicPrefix(_ shape: String) -> ValueSyntax {
        ValueSyntax.text(shape).with(expected: "a text without the wildcards + and #") { text in
            !text.utf8.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
        }
    }

    /// A text in front of a topic, in which `%u`, `%c` and `%{client_attrs.NAME}` stand for the client.
    static func mountPoint(_ shape: String) -> ValueSyntax {
        let expected =
            "a text without the wildcards + and #, in which %u is the user name, %c the client identifier, and %{client_attrs.NAME} an "
            + "attribute of the login"
        return ValueSyntax.text(shape).with(expected: expected) { text in
            guard !text.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }) else { return false }
            var rest = text[...]
            while let start = rest.firstPlace(of: "%{") {
                rest = rest[start.lowerBound...]
                guard rest.hasPrefix("%{client_attrs."), let end = rest.firstIndex(of: "}"),
                    rest.distance(from: rest.startIndex, to: end) > "%{client_attrs.".count
                else { return false }
                rest = rest[end...]
            }
            return true
        }
    }

    /// An even number of hexadecimal digits.
    static func hexadecimal(_ shape: String) -> ValueSyntax {
        ValueSyntax.text(shape).with(expected: "an even number of hexadecimal digits") { text in
            text.utf8.count % 2 == 0 && text.allSatisfy { $0.isASCII && $0.isHexDigit }
        }
    }
}

extension StringProtocol {
    /// The words between blanks and tabs.
    var words: [String] {
        split(whereSeparator: { $0 == " " || $0 == "\t" }).map { String($0) }
    }

    /// The text without the blanks and tabs at its ends.
    var trimmed: String {
        var text = self[...]
        while let first = text.first, first == " " || first == "\t" { text = text.dropFirst() }
        while let last = text.last, last == " " || last == "\t" { text = text.dropLast() }
        return String(text)
    }
}

extension String {
    /// The text between double quotes, shortened if it is long: for a message.
    var quoted: String {
        let longest = 80
        return count > longest ? "\"\(prefix(longest))…\"" : "\"\(self)\""
    }
}

extension Limits {
    /// Bytes of `martlet_node_name`; a longer one is refused.
    static let nodeNameBytesMax = 255
}
