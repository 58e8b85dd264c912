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
    /// The host that it is meant for, with its port if it names one, in lower case; empty in a request of HTTP/1.0 without one.
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
