/// What a request is about: the path and the query of its target, RFC 9112, section 3.2.
public struct HTTPTarget: Sendable, Equatable {
    /// The path as it was sent, percent-encoded; `*` for a request about the whole server.
    public let encodedPath: String
    /// The parts of the path between its slashes, decoded after they were parted: `/clients/a%2Fb` has `clients` and `a/b`. A path that ends
    /// with a slash has an empty last one; `/` has none.
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

    /// Reads what stands behind the question mark; nil when it holds what a URI may not. The signs that browsers leave as they are,
    /// `[ ] { } | ^` and the back-quote, are taken.
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
