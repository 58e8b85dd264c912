/// A whole request, taken: its framing was right, its target and host are legal.
public struct HTTPRequest: Sendable, Equatable {
    public var method: HTTPMethod
    public var target: HTTPTarget
    public var version: HTTPVersion
    public var fields: HTTPFields
    /// The body's bytes, chunks joined.
    public var body: [UInt8]
    /// Whether the request says how long its body is, be it empty. Who needs a body answers 411 when not.
    public var declaresBody: Bool
    /// The host that it is meant for, with its port if it names one, in lower case; empty in a request of HTTP/1.0
    /// without one.
    public var host: String

    /// A request as a program makes it; nil when the target is none.
    public init?(
        _ method: HTTPMethod, _ target: String, fields: HTTPFields = HTTPFields(), body: [UInt8]? = nil, host: String = "localhost"
    ) {
        guard let target = HTTPTarget(target.utf8) else { return nil }
        self.method = method
        self.target = target
        version = .http11
        self.fields = fields
        self.body = body ?? []
        declaresBody = body != nil
        self.host = host
    }

    init(head: HTTPRequestHead, body: [UInt8]) {
        method = head.method
        target = head.target
        version = head.version
        fields = head.fields
        self.body = body
        declaresBody = head.framing != .none
        host = head.host
    }

    /// The parts of the path, decoded; see `HTTPTarget.segments`.
    public var segments: [String] { target.segments }
    public var path: String { target.path }
    public var query: HTTPQuery { target.query }

    /// The cookies that it brings, RFC 6265, section 5.4, in their order; pairs that are none are left out.
    public var cookies: [(name: String, value: String)] {
        fields.values(of: "Cookie").flatMap { $0.utf8.split(separator: UInt8(ascii: ";")) }.compactMap { pair in
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { return nil }
            var value = HTTPText.trimmed(pair[pair.index(after: equals)...])
            if value.count >= 2, value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\"") {
                value = value.dropFirst().dropLast()
            }
            let name = HTTPText.trimmed(pair[..<equals])
            return name.isEmpty ? nil : (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
        }
    }

    /// The value of the first cookie of that name.
    public func cookie(_ name: String) -> String? { cookies.first { $0.name == name }?.value }

    /// The name and password that it brings, nil when it brings none, or none that can be read.
    public var basicCredentials: BasicCredentials? { fields["Authorization"].flatMap { BasicCredentials($0) } }

    /// The token that it brings, RFC 6750, section 2.1; nil when it brings none.
    public var bearerToken: String? {
        guard let value = fields["Authorization"], value.utf8.count > 7, HTTPText.isSame(value.prefix(7), "Bearer ") else {
            return nil
        }
        return HTTPText.trimmed(value.dropFirst(7))
    }

    /// Whether its peer wants the connection to end with the answer.
    public var endsConnection: Bool { version == .http10 || fields.names("close", in: "Connection") }
}

/// What a request wants done, RFC 9110, section 9. Any token is one; case counts.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let get = HTTPMethod(rawValue: "GET")
    public static let head = HTTPMethod(rawValue: "HEAD")
    public static let post = HTTPMethod(rawValue: "POST")
    public static let put = HTTPMethod(rawValue: "PUT")
    public static let patch = HTTPMethod(rawValue: "PATCH")
    public static let delete = HTTPMethod(rawValue: "DELETE")
    public static let options = HTTPMethod(rawValue: "OPTIONS")
    public static let connect = HTTPMethod(rawValue: "CONNECT")

    /// Whether it changes nothing, RFC 9110, section 9.2.1.
    public var isSafe: Bool { self == .get || self == .head || self == .options || rawValue == "TRACE" }
}

extension HTTPMethod: CustomStringConvertible {
    public var description: String { rawValue }
}

/// The version of a message that is understood here: others are refused with 505.
public enum HTTPVersion: Sendable {
    /// Its connections end with the answer.
    case http10
    /// 1.1, and every later minor version, which RFC 9110, section 2.5, has read as this one.
    case http11
}

/// One field of a message: a name, which is compared without regard to case, and a value.
public struct HTTPField: Sendable, Equatable {
    public let name: String
    /// Without blanks around it. Never holds a control byte but a tab: those that it is made with become blanks.
    public let value: String

    public init(_ name: String, _ value: String) {
        self.name = name
        let isClean = value.utf8.allSatisfy { HTTPText.isFieldByte($0) }
        self.value = isClean ? value : String(decoding: value.utf8.map { HTTPText.isFieldByte($0) ? $0 : 0x20 }, as: UTF8.self)
    }

    /// Whether it has that name.
    public func isNamed(_ other: String) -> Bool {
        name.utf8.count == other.utf8.count
            && zip(name.utf8, other.utf8).allSatisfy { HTTPText.lowercased($0) == HTTPText.lowercased($1) }
    }
}

/// The fields of a message, in the order in which they came. Linear in their number: a head has few.
public struct HTTPFields: Sendable, Equatable {
    public private(set) var all: [HTTPField] = []

    public init() {}

    public init(_ fields: [HTTPField]) { all = fields }

    /// The value of a field, several of the same name joined by commas; nil when there is none. Setting it replaces all
    /// of that name.
    public subscript(name: String) -> String? {
        get {
            let values = values(of: name)
            return values.isEmpty ? nil : values.joined(separator: ", ")
        }
        set {
            all.removeAll { $0.isNamed(name) }
            if let newValue { all.append(HTTPField(name, newValue)) }
        }
    }

    /// Adds a field behind the others, of the same name too.
    public mutating func append(_ name: String, _ value: String) { all.append(HTTPField(name, value)) }

    public mutating func append(contentsOf fields: HTTPFields) { all += fields.all }

    /// The values of all fields of that name.
    public func values(of name: String) -> [String] { all.filter { $0.isNamed(name) }.map(\.value) }

    /// How often a field stands there.
    public func count(of name: String) -> Int { all.count { $0.isNamed(name) } }

    /// The members of a field whose value is a list, without blanks around them and without empty ones. Commas in
    /// quoted text do not part members.
    public func list(_ name: String) -> [String] {
        values(of: name).flatMap { HTTPText.members(of: $0) }
    }

    /// Whether a field whose value is a list names that word, in any case.
    public func names(_ word: String, in name: String) -> Bool { list(name).contains { HTTPText.isSame($0, word) } }
}

extension HTTPFields: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, String)...) { all = elements.map { HTTPField($0.0, $0.1) } }
}

/// What a request is about: the path and the query of its target, RFC 9112, section 3.2.
public struct HTTPTarget: Sendable, Equatable {
    /// The path as it was sent, percent-encoded; `*` for a request about the whole server.
    public let encodedPath: String
    /// The parts of the path between its slashes, decoded after they were parted: `/clients/a%2Fb` has `clients` and
    /// `a/b`. A path that ends with a slash has an empty last one; `/` has none.
    public let segments: [String]
    public let query: HTTPQuery

    /// The path, decoded, for those that read it as one text, such as an access rule.
    public var path: String { encodedPath == "*" ? "*" : "/" + segments.joined(separator: "/") }

    /// Reads a path with or without a query; nil when it holds what a URI may not.
    public init?(_ text: some Sequence<UInt8>) {
        let bytes = Array(text)
        let mark = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.endIndex
        let path = bytes[..<mark]
        guard path.first == UInt8(ascii: "/"), path.allSatisfy(Self.isPathByte),
            let query = HTTPQuery(encoded: bytes[mark...].dropFirst())
        else { return nil }
        var segments: [String] = []
        for segment in path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let decoded = PercentCoding.decode(segment) else { return nil }
            segments.append(decoded)
        }
        encodedPath = String(decoding: path, as: UTF8.self)
        self.segments = path.count == 1 ? [] : segments
        self.query = query
    }

    private init(whole: String) {
        encodedPath = whole
        segments = []
        query = HTTPQuery([])
    }

    /// `*`: the server as such.
    static let server = HTTPTarget(whole: "*")

    /// pchar and the slash, RFC 3986, section 3.3.
    private static func isPathByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "#"), UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "|"): false
        case UInt8(ascii: "/"), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: ","),
            UInt8(ascii: ";"), UInt8(ascii: "="):
            true
        default: HTTPText.isToken(byte)
        }
    }
}

/// The items of a query, `?name=value&name=value`, decoded, as HTML's forms write them: a plus is a blank.
public struct HTTPQuery: Sendable, Equatable {
    public struct Item: Sendable, Equatable {
        public let name: String
        /// Empty when the item has no `=`.
        public let value: String
    }

    public let items: [Item]

    public init(_ items: [(String, String)]) { self.items = items.map { Item(name: $0.0, value: $0.1) } }

    /// Reads what stands behind the question mark; nil when it holds what a URI may not. The signs that browsers leave
    /// as they are, `[ ] { } | ^` and the back-quote, are taken.
    init?(encoded: some Collection<UInt8>) {
        var items: [Item] = []
        for item in encoded.split(separator: UInt8(ascii: "&")) {
            guard item.allSatisfy(Self.isQueryByte) else { return nil }
            let equals = item.firstIndex(of: UInt8(ascii: "=")) ?? item.endIndex
            guard let name = PercentCoding.decode(item[..<equals], plusIsBlank: true),
                let value = PercentCoding.decode(item[equals...].dropFirst(), plusIsBlank: true)
            else { return nil }
            items.append(Item(name: name, value: value))
        }
        self.items = items
    }

    /// The first value of that name, nil when there is none. Who must not guess asks for all `values(of:)`.
    public subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    public func values(of name: String) -> [String] { items.filter { $0.name == name }.map(\.value) }

    /// Whether an item of that name is there, with or without a value.
    public func has(_ name: String) -> Bool { items.contains { $0.name == name } }

    private static func isQueryByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"): false
        default: byte > 0x20 && byte < 0x7F
        }
    }
}
