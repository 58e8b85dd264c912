internal import BrokerModel

/// Which entries of a directory are meant (RFC 4515), with places for who logs in.
///
/// A filter is read once, when the configuration is; what a client says goes into the values of the tree that came of
/// it, and never through the reader: no name can say more than what it is.
indirect enum LDAPFilter: Sendable, Equatable {
    case and([LDAPFilter])
    case or([LDAPFilter])
    case not(LDAPFilter)
    case equal(String, LDAPTemplate)
    case greaterOrEqual(String, LDAPTemplate)
    case lessOrEqual(String, LDAPTemplate)
    case approximate(String, LDAPTemplate)
    case present(String)
    /// Between two of them anything may stand; an empty first or last one says nothing.
    case substrings(String, [LDAPTemplate])
    case extensible(attribute: String, rule: String, ofName: Bool, LDAPTemplate)

    /// Throws what is wrong, to follow "it is no filter of LDAP: ".
    init(_ text: String) throws(LDAPTextError) {
        var reader = LDAPFilterReader(Array(text.utf8)[...])
        self = try reader.filter(depth: 0)
        guard reader.rest.isEmpty else { throw LDAPTextError("something stands behind the last )") }
    }

    /// As it is sent (RFC 4511, section 4.5.1.7).
    func encoded(for login: LDAPLogin) -> [UInt8] {
        func assertion(_ attribute: String, _ value: LDAPTemplate) -> [UInt8] {
            BER.octets(attribute) + BER.octets(value.bytes(for: login))
        }
        switch self {
        case .and(let filters): return BER.value(0xA0, filters.flatMap { $0.encoded(for: login) })
        case .or(let filters): return BER.value(0xA1, filters.flatMap { $0.encoded(for: login) })
        case .not(let filter): return BER.value(0xA2, filter.encoded(for: login))
        case .equal(let attribute, let value): return BER.value(0xA3, assertion(attribute, value))
        case .greaterOrEqual(let attribute, let value): return BER.value(0xA5, assertion(attribute, value))
        case .lessOrEqual(let attribute, let value): return BER.value(0xA6, assertion(attribute, value))
        case .approximate(let attribute, let value): return BER.value(0xA8, assertion(attribute, value))
        case .present(let attribute): return BER.value(0x87, Array(attribute.utf8))
        case .substrings(let attribute, let parts):
            var pieces: [UInt8] = []
            for (index, part) in parts.enumerated() where !part.isEmpty {
                let tag: UInt8 = index == 0 ? 0x80 : index == parts.count - 1 ? 0x82 : 0x81
                pieces += BER.value(tag, part.bytes(for: login))
            }
            return BER.value(0xA4, BER.octets(attribute) + BER.value(0x30, pieces))
        case .extensible(let attribute, let rule, let ofName, let value):
            return BER.value(
                0xA9,
                (rule.isEmpty ? [] : BER.value(0x81, Array(rule.utf8)))
                    + (attribute.isEmpty ? [] : BER.value(0x82, Array(attribute.utf8)))
                    + BER.value(0x83, value.bytes(for: login)) + (ofName ? [0x84, 1, 0xFF] : []))
        }
    }
}

/// Who logs in, as filters and names of entries ask it.
struct LDAPLogin: Sendable, Equatable {
    /// UTF-8.
    var user: [UInt8]
    /// The name of the user's entry, once it is found.
    var entry: String = ""
}

/// A text in which `%u` stands for the user's name and `%d` for the name of its entry.
struct LDAPTemplate: Sendable, Equatable {
    private enum Piece: Sendable, Equatable {
        case bytes([UInt8])
        case user
        case entry
    }

    private var pieces: [Piece] = []

    init(_ text: [UInt8]) {
        var place = 0
        while place < text.count {
            if text[place] == UInt8(ascii: "%"), place + 1 < text.count {
                let kind = text[place + 1]
                if kind == UInt8(ascii: "u") || kind == UInt8(ascii: "d") {
                    pieces.append(kind == UInt8(ascii: "u") ? .user : .entry)
                    place += 2
                    continue
                }
            }
            append(text[place])
            place += 1
        }
    }

    /// A byte that stands for itself, whatever it is.
    mutating func append(_ byte: UInt8) {
        if case .bytes(let before) = pieces.last {
            pieces[pieces.count - 1] = .bytes(before + [byte])
        } else {
            pieces.append(.bytes([byte]))
        }
    }

    mutating func append(_ more: LDAPTemplate) { pieces += more.pieces }

    var isEmpty: Bool { pieces.isEmpty }

    /// Whether the user's name is a part of it.
    var namesUser: Bool { pieces.contains(.user) }

    func bytes(for login: LDAPLogin) -> [UInt8] {
        pieces.flatMap { piece -> [UInt8] in
            switch piece {
            case .bytes(let bytes): bytes
            case .user: login.user
            case .entry: Array(login.entry.utf8)
            }
        }
    }

    /// The same as a name of an entry, in which a user's name is one value (RFC 4514).
    func entryName(for login: LDAPLogin) -> String {
        let bytes = pieces.flatMap { piece -> [UInt8] in
            switch piece {
            case .bytes(let bytes): bytes
            case .user: Self.escaped(login.user)
            case .entry: Array(login.entry.utf8)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func escaped(_ value: [UInt8]) -> [UInt8] {
        var escaped: [UInt8] = []
        for (index, byte) in value.enumerated() {
            let isAtEnd = index == 0 || index == value.count - 1
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "+"), UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "<"),
                UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "="), UInt8(ascii: "#"):
                escaped += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: " ") where isAtEnd: escaped += [UInt8(ascii: "\\"), byte]
            case 0..<0x20, 0x7F:
                escaped += Array("\\\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8)
            default: escaped.append(byte)
            }
        }
        return escaped
    }
}

/// Where an entry says what its user is called.
///
/// A directory compares names without regard to case and blanks, and the broker's rules and bans do not: ANN would be
/// let in as ann, and be somebody else to them. So a name counts only as the directory spells it.
struct LDAPNaming: Sendable, Equatable {
    private struct Comparison: Equatable {
        let attribute: String
        /// What its value is; between several of them anything may stand.
        let parts: [LDAPTemplate]
    }

    private let comparisons: [Comparison]

    /// By what a filter compares with the user's name.
    init(_ filter: LDAPFilter) { comparisons = Self.comparisons(in: filter) }

    /// By the part of an entry's name that the user's is in, as in `uid=%u,ou=people`; by nothing, where none is.
    init(ofEntry text: [UInt8]) {
        let isEnd = { (byte: UInt8) in byte == UInt8(ascii: ",") || byte == UInt8(ascii: "+") }
        let start = text.indices.first { text[$0...].starts(with: "%u".utf8) } ?? text.endIndex
        let begin = text[..<start].lastIndex(where: isEnd).map { $0 + 1 } ?? 0
        let part = text[begin..<(text[start...].firstIndex(where: isEnd) ?? text.endIndex)]
        guard let equals = part.firstIndex(of: UInt8(ascii: "=")), equals < start else {
            comparisons = []
            return
        }
        let attribute = String(decoding: part[..<equals].filter { $0 != UInt8(ascii: " ") }, as: UTF8.self)
        let value = LDAPTemplate(Array(Self.trimmed(part[(equals + 1)...])))
        comparisons = LDAPAttribute.isName(attribute) ? [Comparison(attribute: attribute, parts: [value])] : []
    }

    /// What is asked for of an entry; none where nothing says what its user is called.
    var attributes: [String] { comparisons.map(\.attribute) }

    /// Why a user cannot come in by the name that it gives; nil if it can.
    ///
    /// - Parameter entry: the user's; nil where the directory does not show it.
    func refusal(of login: LDAPLogin, _ entry: LDAPEntry?) -> LoginFailure? {
        let shown = comparisons.map { (comparison: $0, values: entry?.values($0.attribute) ?? []) }
        if shown.contains(where: { shown in shown.values.contains { Self.fits(Array($0.utf8), shown.comparison.parts, login) } }) {
            return nil
        }
        if let value = shown.flatMap(\.values).first {
            return .reported("the directory has another spelling of its name: \(StrangersText.shown(value))")
        }
        // One spelling is left of all that the directory may take for the same name.
        let isPlain = login.user.allSatisfy { (0x21...0x7E).contains($0) && !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        return isPlain
            ? nil
            : .reported(
                "the directory does not show how its name is spelled, and so it needs one of small letters, digits and signs of ASCII"
            )
    }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let text = text.drop { $0 == UInt8(ascii: " ") }
        return text.last == UInt8(ascii: " ") ? trimmed(text.dropLast()) : text
    }

    private static func comparisons(in filter: LDAPFilter) -> [Comparison] {
        switch filter {
        case .and(let filters), .or(let filters): filters.flatMap { comparisons(in: $0) }
        case .equal(let attribute, let value), .approximate(let attribute, let value),
            .extensible(let attribute, _, _, let value):
            value.namesUser && !attribute.isEmpty ? [Comparison(attribute: attribute, parts: [value])] : []
        case .substrings(let attribute, let parts):
            parts.contains(where: \.namesUser) ? [Comparison(attribute: attribute, parts: parts)] : []
        case .not, .greaterOrEqual, .lessOrEqual, .present: []
        }
    }

    private static func fits(_ value: [UInt8], _ parts: [LDAPTemplate], _ login: LDAPLogin) -> Bool {
        let pieces = parts.map { $0.bytes(for: login) }
        guard pieces.count > 1, let first = pieces.first, let last = pieces.last else { return value == pieces.first }
        guard value.count >= first.count + last.count, value.starts(with: first), value.suffix(last.count) == last[...] else {
            return false
        }
        var rest = value.dropFirst(first.count).dropLast(last.count)
        for piece in pieces.dropFirst().dropLast() where !piece.isEmpty {
            guard let index = rest.indices.first(where: { rest[$0...].starts(with: piece) }) else { return false }
            rest = rest[(index + piece.count)...]
        }
        return true
    }
}

/// What is wrong with a text of the configuration.
struct LDAPTextError: Error, Equatable {
    let words: String

    init(_ words: String) { self.words = words }
}

/// Reads a filter from its text.
private struct LDAPFilterReader {
    var rest: ArraySlice<UInt8>

    init(_ text: ArraySlice<UInt8>) { rest = text }

    mutating func filter(depth: Int) throws(LDAPTextError) -> LDAPFilter {
        guard depth < Limits.filterDepthMax else { throw LDAPTextError("more than \(Limits.filterDepthMax) ( stand in each other") }
        guard take(UInt8(ascii: "(")) else { throw LDAPTextError("a ( is missing, as in (uid=%u)") }
        let filter: LDAPFilter
        switch rest.first {
        case UInt8(ascii: "&"):
            rest.removeFirst()
            filter = .and(try filters(depth))
        case UInt8(ascii: "|"):
            rest.removeFirst()
            filter = .or(try filters(depth))
        case UInt8(ascii: "!"):
            rest.removeFirst()
            filter = .not(try self.filter(depth: depth + 1))
        default: filter = try item()
        }
        guard take(UInt8(ascii: ")")) else { throw LDAPTextError("a ) is missing") }
        return filter
    }

    private mutating func filters(_ depth: Int) throws(LDAPTextError) -> [LDAPFilter] {
        var filters: [LDAPFilter] = []
        while rest.first == UInt8(ascii: "(") { filters.append(try filter(depth: depth + 1)) }
        return filters
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func item() throws(LDAPTextError) -> LDAPFilter {
        guard let equals = rest.firstIndex(of: UInt8(ascii: "=")),
            !rest[..<equals].contains(where: { $0 == UInt8(ascii: "(") || $0 == UInt8(ascii: ")") })
        else { throw LDAPTextError("an = is missing, as in (uid=%u)") }
        var name = rest[..<equals]
        let kind = name.last
        rest = rest[rest.index(after: equals)...]
        let parts = try value()
        let whole = parts.count == 1 ? parts[0] : nil
        if let kind, [UInt8(ascii: ">"), UInt8(ascii: "<"), UInt8(ascii: "~"), UInt8(ascii: ":")].contains(kind) {
            name = name.dropLast()
            guard let whole else { throw LDAPTextError("a * stands in a comparison that has none") }
            if kind == UInt8(ascii: ":") { return try extensible(String(decoding: name, as: UTF8.self), whole) }
            let attribute = try Self.attribute(String(decoding: name, as: UTF8.self))
            return kind == UInt8(ascii: ">")
                ? .greaterOrEqual(attribute, whole)
                : kind == UInt8(ascii: "<") ? .lessOrEqual(attribute, whole) : .approximate(attribute, whole)
        }
        let attribute = try Self.attribute(String(decoding: name, as: UTF8.self))
        if let whole { return .equal(attribute, whole) }
        return parts.count == 2 && parts.allSatisfy(\.isEmpty) ? .present(attribute) : .substrings(attribute, parts)
    }

    /// `memberOf:1.2.840.113556.1.4.1941:=…`, `:dn:2.4.6.8.10:=…`.
    private func extensible(_ text: String, _ value: LDAPTemplate) throws(LDAPTextError) -> LDAPFilter {
        var parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        let attribute = parts.removeFirst()
        let ofName = parts.first?.lowercased() == "dn"
        if ofName { parts.removeFirst() }
        guard parts.count <= 1, !(attribute.isEmpty && parts.isEmpty) else { throw LDAPTextError("\(text):= names no rule") }
        if !attribute.isEmpty { _ = try Self.attribute(attribute) }
        return .extensible(attribute: attribute, rule: parts.first ?? "", ofName: ofName, value)
    }

    /// The parts of a value between the `*` in it.
    private mutating func value() throws(LDAPTextError) -> [LDAPTemplate] {
        var parts: [LDAPTemplate] = [LDAPTemplate([])]
        var plain: [UInt8] = []
        func close() {
            parts[parts.count - 1].append(LDAPTemplate(plain))
            plain = []
        }
        while let byte = rest.first, byte != UInt8(ascii: ")") {
            rest.removeFirst()
            switch byte {
            case UInt8(ascii: "("): throw LDAPTextError("a ( stands in a value; \\28 is one there")
            case 0: throw LDAPTextError("a zero stands in it")
            case UInt8(ascii: "*"):
                close()
                parts.append(LDAPTemplate([]))
            case UInt8(ascii: "\\"):
                guard let byte = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16), rest.count >= 2 else {
                    throw LDAPTextError("two hexadecimal digits have to follow a \\")
                }
                close()
                parts[parts.count - 1].append(byte)
                rest = rest.dropFirst(2)
            default: plain.append(byte)
            }
        }
        close()
        return parts
    }

    static func attribute(_ text: String) throws(LDAPTextError) -> String {
        guard LDAPAttribute.isName(text) else { throw LDAPTextError("\"\(text)\" is no name of an attribute") }
        return text
    }
}

/// The names of attributes.
enum LDAPAttribute {
    static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: ";"),
                    UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}

/// The encoding of LDAP's messages (X.690's basic rules, as RFC 4511 restricts them).
enum BER {
    static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        if content.count < 0x80 { return [tag, UInt8(content.count)] + content }
        var length: [UInt8] = []
        var rest = content.count
        while rest > 0 {
            length.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }

    static func octets(_ bytes: [UInt8]) -> [UInt8] { value(0x04, bytes) }

    static func octets(_ text: String) -> [UInt8] { value(0x04, Array(text.utf8)) }

    /// - Parameter tag: of an INTEGER, or of an ENUMERATED.
    static func integer(_ number: Int32, tag: UInt8 = 0x02) -> [UInt8] {
        var bytes = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
        while bytes.count > 1, bytes[0] == 0, bytes[1] < 0x80 { bytes.removeFirst() }
        return value(tag, bytes)
    }
}

/// Reads values one after the other; nil at the end, and for what is broken.
struct BERReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    mutating func next() -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        guard rest.count >= 2, let tag = rest.popFirst(), let first = rest.popFirst() else { return nil }
        var count = Int(first)
        if first >= 0x80 {
            let digits = Int(first & 0x7F)
            guard (1...4).contains(digits), rest.count >= digits else { return nil }
            count = rest.prefix(digits).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(digits)
        }
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return (tag, rest.prefix(count))
    }

    /// The next one, if it is of that kind.
    mutating func next(_ tag: UInt8) -> ArraySlice<UInt8>? {
        guard let value = next(), value.tag == tag else { return nil }
        return value.content
    }

    mutating func text() -> String? { next(0x04).map { String(decoding: $0, as: UTF8.self) } }

    /// - Parameter tag: of an INTEGER, or of an ENUMERATED.
    mutating func integer(tag: UInt8 = 0x02) -> Int? {
        guard let content = next(tag), (1...4).contains(content.count), let first = content.first else { return nil }
        return content.reduce(first >= 0x80 ? -1 : 0) { $0 << 8 | Int($1) }
    }
}

extension Limits {
    /// Parentheses of a filter that stand in each other; more are an error of the configuration.
    static let filterDepthMax = 32
}
