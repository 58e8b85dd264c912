internal import Bytes

/// The bytes of HTTP's grammar: which of them may stand where, RFC 9110, section 5.6, and RFC 3986.
enum HTTPText {
    /// A byte of a token: a method, or the name of a field.
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"), UInt8(ascii: "'"),
            UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^"), UInt8(ascii: "_"),
            UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// A byte of a field's value: visible, blank, or above ASCII.
    static func isFieldByte(_ byte: UInt8) -> Bool { byte == 0x09 || (byte >= 0x20 && byte != 0x7F) }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    /// The value of a hexadecimal digit, nil when it is none.
    static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// Whether two words are the same but for the case of ASCII letters.
    static func isSame(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        left.utf8.elementsEqual(right.utf8) { lowercased($0) == lowercased($1) }
    }

    static func trimmed<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        let front = bytes.drop(while: isBlank)
        guard let last = front.lastIndex(where: { !isBlank($0) }) else { return front[front.endIndex...] }
        return front[...last]
    }

    static func trimmed(_ text: some StringProtocol) -> String { String(decoding: Array(trimmed(Array(text.utf8))), as: UTF8.self) }

    /// The members of a list, parted by commas outside quoted text; empty ones left out.
    static func members(of list: String) -> [String] { parts(of: list, at: UInt8(ascii: ",")).filter { !$0.isEmpty } }

    /// The parts of a text between separators outside quoted text, without blanks around them.
    static func parts(of text: String, at separator: UInt8) -> [String] {
        var parts: [String] = []
        var part: [UInt8] = []
        var isQuoted = false
        var isEscaped = false
        for byte in text.utf8 {
            if byte == separator, !isQuoted {
                parts.append(String(decoding: trimmed(part), as: UTF8.self))
                part = []
                continue
            }
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
            part.append(byte)
        }
        parts.append(String(decoding: trimmed(part), as: UTF8.self))
        return parts
    }

    /// The number that digits write, nil when there is none or another byte among them; `Int.max` when it is larger
    /// than that.
    static func number(_ digits: some Collection<UInt8>) -> Int? {
        guard !digits.isEmpty, digits.allSatisfy(isDigit) else { return nil }
        return digits.reduce(0) { sum, digit in
            let (product, overflow) = sum.multipliedReportingOverflow(by: 10)
            let (total, more) = product.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
            return overflow || more ? Int.max : total
        }
    }
}

/// A user's name and password as the scheme Basic carries them, RFC 7617.
public struct BasicCredentials: Sendable, Equatable {
    public let username: String
    public let password: [UInt8]

    /// Reads the value of the field Authorization; nil when it is of another scheme, no Base64, has no colon, or the
    /// name is no UTF-8.
    public init?(_ value: String) {
        let bytes = Array(value.utf8)
        guard bytes.count > 6, HTTPText.isSame(value.prefix(6), "Basic "),
            let decoded = Base64.decode(String(decoding: HTTPText.trimmed(bytes[6...]), as: UTF8.self)),
            let colon = decoded.firstIndex(of: UInt8(ascii: ":")),
            let username = String(validating: decoded[..<colon], as: UTF8.self)
        else { return nil }
        self.username = username
        password = Array(decoded[(colon + 1)...])
    }
}

/// The host that a request is for, or that a page comes from: a name or an address.
public struct HTTPHost: Sendable, Equatable {
    /// In lower case and without a port; an IPv6 address in its brackets.
    public let name: String

    /// From a host as requests name it, with or without a port.
    public init(_ text: String) {
        let lowered = String(decoding: text.utf8.map(HTTPText.lowercased), as: UTF8.self)
        if lowered.utf8.first == UInt8(ascii: "["), let end = lowered.firstIndex(of: "]") {
            name = String(lowered[...end])
        } else {
            name = String(lowered.prefix { $0 != ":" })
        }
    }

    /// From what a browser sends as Origin, RFC 6454, section 6.1; nil where that names no host, as `null` does.
    public init?(origin: String) {
        guard let scheme = ["http://", "https://"].first(where: { HTTPText.isSame(origin.prefix($0.utf8.count), $0) }) else {
            return nil
        }
        self.init(String(origin.dropFirst(scheme.utf8.count)))
        if name.isEmpty { return nil }
    }

    /// Whether it is an address, which nobody can have point to another machine than its own.
    public var isAddress: Bool { name.utf8.first == UInt8(ascii: "[") || isIPv4 }

    /// Whether it is this machine for whoever says it.
    public var isLoopback: Bool { name == "localhost" || name == "[::1]" || (isIPv4 && name.hasPrefix("127.")) }

    private var isIPv4: Bool {
        let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { $0.count <= 3 && HTTPText.number($0).map { $0 <= 255 } ?? false }
    }
}

/// Percent-encoding, RFC 3986, section 2.1.
public enum PercentCoding {
    /// The text that encoded bytes stand for, or nil when a percent sign has no two digits behind it, or when it is no
    /// UTF-8 or holds a NUL.
    ///
    /// `plusIsBlank`: as HTML's forms write blanks in a query.
    public static func decode(_ encoded: some Sequence<UInt8>, plusIsBlank: Bool = false) -> String? {
        var bytes: [UInt8] = []
        var rest = encoded.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap(HTTPText.hexDigit), let low = rest.next().flatMap(HTTPText.hexDigit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsBlank: bytes.append(0x20)
            default: bytes.append(byte)
            }
        }
        return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }

    /// The text with every byte encoded that is not a letter, a digit, or one of `-._~`: safe as a segment of a path
    /// and in a query.
    public static func encode(_ text: some StringProtocol) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                bytes.append(byte)
            default:
                bytes.append(UInt8(ascii: "%"))
                bytes.append(digits[Int(byte >> 4)])
                bytes.append(digits[Int(byte & 15)])
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let digits = Array("0123456789ABCDEF".utf8)
}

/// What a peer likes, in the fields Accept and Accept-Encoding: words with weights, RFC 9110, section 12.4.2.
public struct HTTPPreference: Sendable, Equatable {
    /// Words in lower case with their parameters but the weight, and weights of 0 (not acceptable) to 1000.
    public let members: [(word: String, weight: Int)]

    /// Reads a field's value. A weight that is none counts as 1000.
    public init(_ value: String) {
        members = HTTPText.members(of: value).map { member in
            var weight = 1000
            var words: [String] = []
            for part in HTTPText.parts(of: member, at: UInt8(ascii: ";")) {
                let text = part.lowercased()
                if text.hasPrefix("q=") {
                    weight = Self.weight(text.dropFirst(2)) ?? 1000
                } else {
                    words.append(text)
                }
            }
            return (words.joined(separator: ";"), weight)
        }
    }

    /// The weight of a content coding: 0 when the peer does not take it. What is not named, by itself or as `*`, is not
    /// taken.
    public func weight(ofCoding coding: String) -> Int {
        (members.first { $0.word == coding } ?? members.first { $0.word == "*" })?.weight ?? 0
    }

    /// The weight of a media type without parameters, such as `text/html`; what a member with parameters says is not
    /// looked at.
    public func weight(ofType type: String) -> Int {
        let family = type.prefix { $0 != "/" } + "/*"
        for range in [type, String(family), "*/*"] {
            if let member = members.first(where: { $0.word.prefix { $0 != ";" } == range }) { return member.weight }
        }
        return 0
    }

    public static func == (left: HTTPPreference, right: HTTPPreference) -> Bool {
        left.members.elementsEqual(right.members) { $0 == $1 }
    }

    /// `0`, `1`, `0.5`, `0.123`.
    private static func weight(_ text: Substring) -> Int? {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, HTTPText.isDigit(first), bytes.count <= 5 else { return nil }
        guard bytes.count > 1 else { return first == UInt8(ascii: "0") ? 0 : first == UInt8(ascii: "1") ? 1000 : nil }
        guard bytes[1] == UInt8(ascii: "."), bytes.dropFirst(2).allSatisfy(HTTPText.isDigit) else { return nil }
        let digits = bytes.dropFirst(2) + Array(repeating: UInt8(ascii: "0"), count: 5 - bytes.count)
        return min(1000, Int(first - UInt8(ascii: "0")) * 1000 + (HTTPText.number(digits) ?? 0))
    }
}

/// A host that a request came through, as the proxy in front of it says, RFC 7239, section 6.
public enum ForwardedNode: Sendable, Equatable {
    /// What should be an address, without its port and brackets.
    case host(String)
    /// The proxy does not know it, or does not tell.
    case hidden
    /// The field is not what it has to be.
    case malformed

    /// From the text of a node: an address with or without a port, `unknown`, or a name of the proxy's own (`_gazonk`).
    init(_ text: String) {
        if HTTPText.isSame(text, "unknown") || text.utf8.first == UInt8(ascii: "_") {
            self = .hidden
        } else if text.utf8.first == UInt8(ascii: "["), let end = text.firstIndex(of: "]") {
            let rest = text[text.index(after: end)...]
            self = rest.isEmpty || rest.first == ":" ? Self.host(text[..<end].dropFirst()) : .malformed
        } else if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
            self = Self.host(text[..<colon])
        } else {
            self = Self.host(text[...])
        }
    }

    private static func host(_ text: Substring) -> ForwardedNode { text.isEmpty ? .malformed : .host(String(text)) }

    /// One element of the field Forwarded: pairs with semicolons between, of which `for` names the node.
    fileprivate init(element: String) {
        var node = ForwardedNode.hidden
        var isNamed = false
        for pair in HTTPText.parts(of: element, at: UInt8(ascii: ";")) where !pair.isEmpty {
            guard let equals = pair.firstIndex(of: "=") else {
                self = .malformed
                return
            }
            // Every pair is judged: a quote that is left open anywhere would swallow what the proxy has added behind
            // it.
            guard !pair[..<equals].contains("\""), let value = Self.value(pair[pair.index(after: equals)...]) else {
                self = .malformed
                return
            }
            guard HTTPText.isSame(pair[..<equals], "for") else { continue }
            guard !isNamed else {
                self = .malformed
                return
            }
            isNamed = true
            node = ForwardedNode(value)
        }
        self = node
    }

    /// A token, or what stands in quotes. Nothing that a node may be has a quote or a backslash in it.
    private static func value(_ text: Substring) -> String? {
        var text = text
        if text.utf8.first == UInt8(ascii: "\"") {
            guard text.utf8.count >= 2, text.utf8.last == UInt8(ascii: "\"") else { return nil }
            text = text.dropFirst().dropLast()
        }
        return text.contains { $0 == "\"" || $0 == "\\" } ? nil : String(text)
    }
}

extension HTTPFields {
    /// The nodes that the field Forwarded names, from the client's side to ours.
    public var forwardedNodes: [ForwardedNode] { list("Forwarded").map { ForwardedNode(element: $0) } }

    /// The nodes of a field that lists them without more, as X-Forwarded-For does.
    public func nodes(of name: String) -> [ForwardedNode] {
        values(of: name).filter { !$0.isEmpty }.flatMap {
            $0.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        }.map {
            ForwardedNode(HTTPText.trimmed(String($0) ?? ""))
        }
    }
}

/// A name for one state of what a target gives, RFC 9110, section 8.8.3.
public struct EntityTag: Sendable, Equatable {
    /// Without its quotes.
    public let opaque: String
    public let isWeak: Bool

    /// `opaque`: visible bytes without a double quote.
    public init(_ opaque: String, isWeak: Bool = false) {
        self.opaque = opaque
        self.isWeak = isWeak
    }

    /// As a field has it: `"abc"` or `W/"abc"`.
    public var text: String { (isWeak ? "W/" : "") + "\"\(opaque)\"" }

    /// Whether a field If-None-Match names it, compared weakly as RFC 9110, section 13.1.2, says; `*` names all.
    public func isNamed(in ifNoneMatch: String) -> Bool {
        HTTPText.members(of: ifNoneMatch).contains { member in
            member == "*" || member == "\"\(opaque)\"" || member == "W/\"\(opaque)\""
        }
    }
}

extension HTTPRequest {
    /// Whether the peer has what it asks for already: by tag if it names one, else by time, RFC 9110, section 13.2.2.
    /// Of GET and HEAD only.
    ///
    /// `modified`: when it changed last, in seconds since 1970.
    public func hasCurrent(_ tag: EntityTag?, modified: Int64? = nil) -> Bool {
        guard method == .get || method == .head else { return false }
        if let tags = fields["If-None-Match"] { return tag?.isNamed(in: tags) ?? false }
        guard let modified, let since = fields["If-Modified-Since"].flatMap({ HTTPDate.parse($0) }) else { return false }
        return modified <= since
    }
}

/// A time as HTTP writes it, RFC 9110, section 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`.
public enum HTTPDate {
    /// - Parameter seconds: since 1970, UTC.
    public static func text(_ seconds: Int64) -> String {
        let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let rest = Int(seconds - days * 86_400)
        let date = CivilDate(daysSince1970: Int(days))
        return
            "\(weekdays[date.weekday]), \(two(date.day)) \(months[date.month - 1]) \(four(date.year)) \(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60)) GMT"
    }

    /// The seconds since 1970 of a time in the form above; nil of anything else, the two forms that nobody has sent for
    /// decades too.
    public static func parse(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[0].utf8.count == 4, words[0].hasSuffix(","), words[5] == "GMT", words[1].utf8.count == 2,
            let day = Int(words[1]), (1...31).contains(day), let month = months.firstIndex(of: String(words[2])),
            words[3].utf8.count == 4, let year = Int(words[3]), year >= 0
        else { return nil }
        let clock = words[4].split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3, clock.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy(HTTPText.isDigit) }),
            let hour = Int64(clock[0]),
            let minute = Int64(clock[1]), let second = Int64(clock[2]), hour < 24, minute < 60, second < 61
        else { return nil }
        return Int64(CivilDate(year: year, month: month + 1, day: day).daysSince1970) * 86_400 + hour * 3600 + minute * 60 + second
    }

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func four(_ number: Int) -> String { two(number / 100) + two(number % 100) }

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}
