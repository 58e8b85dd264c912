internal import HTTP

/// A proxy between us and a server that we connect to, and what it is asked for.
public struct ProxyTunnel: Sendable, Equatable {
    /// What the proxy speaks.
    public enum Kind: Sendable, Equatable {
        /// CONNECT of HTTP, RFC 9110, section 9.3.6.
        case http
        /// RFC 1928, with user and password, RFC 1929. The proxy looks the server's name up.
        case socks5
    }

    public var kind: Kind
    /// The server's name or address, and its port.
    public var host: String
    public var port: UInt16
    /// What the proxy is shown; nil for nothing.
    public var user: String?
    public var password: String?

    public init(_ kind: Kind, host: String, port: UInt16, user: String? = nil, password: String? = nil) {
        (self.kind, self.host, self.port, self.user, self.password) = (kind, host, port, user, password)
    }
}

extension ProxyTunnel {
    /// The text that a part of a proxy's address stands for, in which `%3A` is a colon; nil where a percent sign has no two digits behind it.
    public static func decoded(_ part: some StringProtocol) -> String? { PercentCoding.decode(part.utf8) }
}
