internal import Platform
internal import Transports

/// A proxy that connections to servers go through.
///
///     socks5h://user:password@host:1080    http://user:password@host:80
///
/// The ports shown are those that are meant when none is named; user and password may be missing, and `%40` stands for an `@` in them. A proxy of
/// `http` is asked with CONNECT, whatever the server speaks. The proxy looks the server's name up, for `socks5` as for `socks5h`.
public struct ProxyAddress: Hashable, Sendable {
    private enum Scheme: String {
        case socks5, socks5h, http
    }

    private var scheme = Scheme.socks5h
    /// The proxy's name or address.
    public private(set) var host = ""
    /// The proxy's port.
    public private(set) var port: UInt16 = 0
    private var user: String?
    private var password: String?
    /// What is wrong with a literal that is none; the client says so.
    private var complaint: String?
    /// Whether it stands for going straight.
    let isDirect: Bool

    /// No proxy: for an address of a server that is reached straight, where the settings have a proxy for the others.
    public static let direct = ProxyAddress()

    private init() { isDirect = true }

    /// Throws `ClientError.settings`, which says what is wrong.
    public init(_ text: String) throws(ClientError) {
        self.init(stringLiteral: text)
        if let flaw { throw flaw }
    }

    var flaw: ClientError? {
        // The text is not shown: it may hold a password.
        complaint.map { .settings("proxy: \($0)") }
    }

    func tunnel(to host: String, port: UInt16) -> ProxyTunnel {
        ProxyTunnel(scheme == .http ? .http : .socks5, host: host, port: port, user: user, password: password)
    }

    /// Reads what it can. Returns what is wrong.
    private mutating func read(_ text: String) -> String? {
        guard let mark = text.firstPlace(of: "://"), let scheme = Scheme(rawValue: text[..<mark.lowerBound].lowercased()) else {
            return "its address begins with socks5h:// or http://"
        }
        self.scheme = scheme
        var rest = text[mark.upperBound...]
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false)
            guard let user = parts.first.flatMap({ ProxyTunnel.decoded($0) }), !user.isEmpty else {
                return "the user in front of the @ cannot be read: %25 stands for a percent sign"
            }
            self.user = user
            if parts.count > 1 {
                guard let password = ProxyTunnel.decoded(parts[1]) else {
                    return "the password in front of the @ cannot be read: %25 stands for a percent sign"
                }
                self.password = password
            }
            rest = rest[rest.index(after: at)...]
        }
        guard let place = ServerAddress.hostAndPort(String(rest), scheme == .http ? 80 : 1080) else {
            return
                "what follows \(scheme.rawValue):// is HOST or HOST:PORT, an IPv6 address in brackets, with USER:PASSWORD@ in front of it if it wants them"
        }
        (host, port) = place
        guard scheme == .http || (user?.utf8.count ?? 0) <= 255 && (password?.utf8.count ?? 0) <= 255 else {
            return "user and password of SOCKS have at most 255 bytes each"
        }
        guard scheme != .http || user?.contains(":") != true else { return "a user of HTTP's basic login has no colon" }
        return nil
    }
}

extension ProxyAddress: ExpressibleByStringLiteral {
    /// A literal that is no address makes `Client.init` throw.
    public init(stringLiteral text: String) {
        isDirect = false
        complaint = read(text)
    }
}

extension ProxyAddress: CustomStringConvertible {
    /// Without user and password: `socks5h://host:1080`.
    public var description: String {
        if isDirect { return "no proxy" }
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(scheme.rawValue)://\(name):\(port)"
    }
}
