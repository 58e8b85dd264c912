internal import Glibc
internal import Platform
package import Transports

/// Where a server is, and what carries the connection.
///
///     mqtt://host:1883    mqtts://host:8883    ws://host:80/mqtt    wss://host:443/mqtt    unix:/run/broker.sock
///
/// The ports shown are those that are meant when none is named, `/mqtt` the path, behind which a query may stand:
/// `wss://host/mqtt?token=1`. A host alone means `mqtt`.
public struct ServerAddress: Sendable {
    enum Kind: Sendable {
        case network(host: String, port: UInt16, usesTLS: Bool, webSocketPath: String?)
        case unix(path: String)
        case custom(name: String, connect: @Sendable () throws -> any ByteChannel)
        case socket(name: String, connect: @Sendable () async throws -> Int32)
        /// A literal that is none; the client says so.
        case invalid(text: String, reason: String)
    }

    let kind: Kind
    /// How the client logs in there; nil for the login of the settings.
    public var login: ClientSettings.Login?
    /// How TLS is there; nil for what the settings say.
    public var tls: TLSSettings?
    /// Headers of the request that opens the WebSocket, beside those of the handshake: for servers that want a token
    /// there. Only for `ws` and `wss`.
    public var webSocketHeaders: [String: String] = [:]
    /// What connections there go through; nil for what the settings say, ``ProxyAddress/direct`` for going straight
    /// whatever they say.
    public var proxy: ProxyAddress?

    init(_ kind: Kind) { self.kind = kind }

    /// Connections over sockets that `connect` makes: of a virtual machine (`AF_VSOCK`), of Bluetooth, of a tunnel of
    /// one's own.
    ///
    /// ```swift
    /// let host = ServerAddress.socket("the host") { try connectToHost(port: 1883) }
    /// ```
    /// - Parameters:
    ///   - name: what errors and the state call it.
    ///   - connect: called for each connection; it may take its time. Returns the descriptor of a stream socket that is
    ///     connected, and is the client's from then on. Throwing counts as a failed attempt.
    public static func socket(_ name: String, connect: @escaping @Sendable () async throws -> Int32) -> ServerAddress {
        ServerAddress(.socket(name: name, connect: connect))
    }

    /// Connections that are made by calling `connect`, on the client's loop: it must not block. The descriptor of the
    /// channel becomes readable and writable as one of a socket does.
    ///
    /// - `name`: what errors and the state call it.
    package static func custom(
        _ name: String = "custom", connect: @escaping @Sendable () throws -> any ByteChannel
    ) -> ServerAddress {
        ServerAddress(.custom(name: name, connect: connect))
    }

    /// Throws `ClientError.settings`, which says what is wrong.
    public init(_ text: String) throws(ClientError) {
        switch Self.parse(text) {
        case .invalid(let text, let reason): throw .settings("server address \(text): \(reason)")
        case let kind: self.init(kind)
        }
    }

    private static func parse(_ text: String) -> Kind {
        if let path = text.dropping(prefix: "unix://") ?? text.dropping(prefix: "unix:") {
            guard SocketAddress.unix(path: path) != nil else {
                return .invalid(text: text, reason: "a socket's path has 1 to 107 bytes")
            }
            return .unix(path: path)
        }
        var (rest, scheme) = (text, "mqtt")
        if let mark = text.firstPlace(of: "://") {
            (scheme, rest) = (text[..<mark.lowerBound].lowercased(), String(text[mark.upperBound...]))
        }
        guard let (usesTLS, isWebSocket, usualPort) = schemes[scheme] else {
            return .invalid(text: text, reason: "it begins with mqtt://, mqtts://, ws://, wss:// or unix:")
        }
        var path = ""
        if let end = rest.firstIndex(where: { $0 == "/" || $0 == "?" || $0 == "#" }) {
            (rest, path) = (String(rest[..<end]), String(rest[end...]))
        }
        if !isWebSocket, !path.isEmpty, path != "/" {
            return .invalid(text: text, reason: "only ws:// and wss:// have a path or a query")
        }
        if path.contains("#") { return .invalid(text: text, reason: "an address has no # and what follows it") }
        guard path.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return .invalid(text: text, reason: "a path has no blanks and nothing beyond ASCII: %20 stands for a blank")
        }
        if rest.contains("@") { return .invalid(text: text, reason: "user and password belong into the settings' login") }
        guard let (host, port) = hostAndPort(rest, usualPort) else {
            return .invalid(text: text, reason: "what follows \(scheme):// is HOST or HOST:PORT, an IPv6 address in brackets")
        }
        return .network(
            host: host, port: port, usesTLS: usesTLS,
            webSocketPath: isWebSocket ? requestTarget(path) : nil)
    }

    /// Path and query, with the path that is meant where there is none.
    private static func requestTarget(_ path: String) -> String {
        if path.isEmpty || path == "/" { return "/mqtt" }
        return path.hasPrefix("?") ? "/mqtt\(path)" : path
    }

    static func hostAndPort(_ text: String, _ usualPort: UInt16) -> (String, UInt16)? {
        var (host, port) = (text, Substring(""))
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = String(text[text.index(after: text.startIndex)..<end])
            let behind = text[text.index(after: end)...]
            if !behind.isEmpty {
                guard behind.first == ":" else { return nil }
                port = behind.dropFirst()
                if port.isEmpty { return nil }
            }
        } else if let colon = text.lastIndex(of: ":") {
            // More than one colon: an IPv6 address without brackets.
            if text.firstIndex(of: ":") == colon { (host, port) = (String(text[..<colon]), text[text.index(after: colon)...]) }
            if port.isEmpty, host != text { return nil }
        }
        guard !host.isEmpty, !host.contains(where: \.isWhitespace) else { return nil }
        if port.isEmpty { return (host, usualPort) }
        guard let number = UInt16(port), number > 0 else { return nil }
        return (host, number)
    }

    private static let schemes: [String: (usesTLS: Bool, isWebSocket: Bool, port: UInt16)] = [
        "mqtt": (false, false, 1883), "tcp": (false, false, 1883), "mqtts": (true, false, 8883), "ssl": (true, false, 8883),
        "ws": (false, true, 80), "wss": (true, true, 443),
    ]
}

extension ServerAddress {
    /// The error of the address, or of its layers and login; nil if they are right.
    var flaw: ClientError? {
        if case .invalid(let text, let reason) = kind { return .settings("server address \(text): \(reason)") }
        if let flaw = proxy?.flaw { return flaw }
        if let flaw = login?.flaw { return flaw }
        guard case .network(_, _, _, let path) = kind else {
            if !webSocketHeaders.isEmpty { return .settings("server address \(self): only ws:// and wss:// have webSocketHeaders") }
            let isStraight = proxy?.isDirect ?? true
            return isStraight ? nil : .settings("server address \(self): only addresses with a host have a proxy")
        }
        guard path != nil || webSocketHeaders.isEmpty else {
            return .settings("server address \(self): only ws:// and wss:// have webSocketHeaders")
        }
        for field in webSocketFields {
            if let flaw = field.flaw { return .settings("webSocketHeaders: \(field.name) \(flaw)") }
        }
        return nil
    }

    /// The headers, always in the same order.
    var webSocketFields: [WebSocketClientSettings.Field] {
        webSocketHeaders.sorted { $0.key < $1.key }.map { WebSocketClientSettings.Field($0.key, $0.value) }
    }
}

extension ServerAddress: ExpressibleByStringLiteral {
    /// A literal that is no address makes `Client.init` throw.
    public init(stringLiteral text: String) { self.init(Self.parse(text)) }
}

extension ServerAddress: CustomStringConvertible {
    /// As it is written: `mqtts://host:8883`.
    public var description: String {
        switch kind {
        case .network(let host, let port, let usesTLS, let path):
            let name = host.contains(":") ? "[\(host)]" : host
            let scheme = path == nil ? (usesTLS ? "mqtts" : "mqtt") : (usesTLS ? "wss" : "ws")
            return "\(scheme)://\(name):\(port)\(path ?? "")"
        case .unix(let path): return "unix:\(path)"
        case .custom(let name, _), .socket(let name, _): return name
        case .invalid(let text, _): return text
        }
    }
}

extension String {
    fileprivate func dropping(prefix: String) -> String? { hasPrefix(prefix) ? String(dropFirst(prefix.count)) : nil }
}

/// A proxy that connections to servers go through.
///
///     socks5h://user:password@host:1080    http://user:password@host:80
///
/// The ports shown are those that are meant when none is named; user and password may be missing, and `%40` stands for
/// an `@` in them. A proxy of `http` is asked with CONNECT, whatever the server speaks. The proxy looks the server's
/// name up, for `socks5` as for `socks5h`.
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
    /// The error of a literal that is no address: a literal cannot throw, so the client does when it is made.
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

/// How the server's certificate is checked, and what is shown to it.
///
/// Files are read when a connection is made: what has replaced them is taken by the next one. Where they cannot be used
/// then, as between the writing of a new certificate and of its key, what was read before is used once more.
public struct TLSSettings: Sendable {
    /// The certification authorities whose certificates servers may show: a file in PEM. Without this file, directory
    /// and bytes the system's authorities count.
    public var authoritiesFile: String?
    /// The certification authorities as a directory, prepared with `openssl rehash`.
    public var authoritiesDirectory: String?
    /// The certification authorities in memory, as PEM.
    public var authorities: [UInt8]?
    /// Whether the server's certificate is looked at. Without that anybody may pretend to be the server.
    public var verifiesServer = true
    /// The name or address that the server's certificate has to be for, and that the server is told (SNI) if it is a
    /// name; nil for the host of its address.
    public var serverName: String?
    /// The client's own certificate.
    public var certificate = Certificate.none

    /// Whether TLS 1.2 is not enough.
    public var requiresVersion13 = false
    /// The ciphers of TLS 1.2 as OpenSSL writes them; nil for its own choice.
    public var ciphers: String?
    /// The application protocol that is asked for by ALPN.
    public var applicationProtocol: String?
    /// Instead of certificates: a key that the server has too. Nothing else tells that it is the server then.
    public var preSharedKey: PreSharedKey?

    /// A key that both sides know, and its name.
    public struct PreSharedKey: Hashable, Sendable {
        /// The name of the key, as the server knows it.
        public var identity: String
        /// The key's bytes.
        public var key: [UInt8]

        /// A key and the name that the server knows it by.
        public init(identity: String, key: [UInt8]) { (self.identity, self.key) = (identity, key) }
    }

    /// Where the client's own certificate is from.
    public enum Certificate: Sendable {
        /// The client shows none.
        case none
        /// Certificate chain and key, both PEM; the password of a key that has one.
        case files(String, key: String, keyPassword: String? = nil)
        /// In memory.
        case memory(Identity)
        /// Asked before each connection. Throwing counts as a failed attempt.
        case provider(@Sendable () async throws -> Identity)
    }

    /// A certificate and its key, in memory.
    public struct Identity: Hashable, Sendable {
        /// The certificate, and those that lead from it to the authority, in this order; PEM.
        public var certificate: [UInt8]
        /// Its private key, PEM.
        public var key: [UInt8]
        /// The password of a key that has one.
        public var keyPassword: String?

        /// From bytes, `Data`, or a text's `utf8`.
        public init(certificate: some Sequence<UInt8>, key: some Sequence<UInt8>, keyPassword: String? = nil) {
            (self.certificate, self.key, self.keyPassword) = (Array(certificate), Array(key), keyPassword)
        }
    }

    /// The system's CA certificates, and none of the client's own.
    public init() {}

    /// What the layer is made of.
    ///
    /// - Parameters:
    ///   - host: of the server's address.
    ///   - provided: what the certificate's provider has given.
    func forServer(_ host: String, provided: Identity?) -> TLSClientSettings {
        var settings = TLSClientSettings(serverName: serverName ?? host)
        settings.authoritiesFile = authoritiesFile
        settings.authoritiesDirectory = authoritiesDirectory
        settings.authorities = authorities
        settings.verifiesServer = verifiesServer
        switch certificate {
        case .none: break
        case .files(let certificate, let key, let password):
            (settings.certificateFile, settings.keyFile, settings.keyPassword) = (certificate, key, password)
        case .memory(let identity): settings.use(identity)
        case .provider: if let provided { settings.use(provided) }
        }
        settings.resumesSessions = preSharedKey == nil
        settings.requiresVersion13 = requiresVersion13
        settings.ciphers = ciphers
        settings.applicationProtocol = applicationProtocol
        if let preSharedKey {
            settings.preSharedKey = TLSClientSettings.PreSharedKey(identity: preSharedKey.identity, key: preSharedKey.key)
        }
        return settings
    }
}

extension TLSClientSettings {
    fileprivate mutating func use(_ identity: TLSSettings.Identity) {
        (certificate, key, keyPassword) = (identity.certificate, identity.key, identity.keyPassword)
    }
}

/// OpenSSL's contexts of the servers that were connected to, each as long as nothing that it was made of has changed:
/// its sessions are resumed.
struct TLSContexts {
    private struct Made {
        let settings: TLSClientSettings
        let files: [FileFingerprint?]
        let context: TLSClientContext
    }

    private var made: [String: Made] = [:]

    /// The context for a server. Throws what is wrong with its settings.
    ///
    /// - Parameter server: its address.
    mutating func context(for server: String, _ settings: TLSClientSettings) throws(TLSFailure) -> TLSClientContext {
        // Before they are read: what is replaced meanwhile is noticed at the next connection.
        let files = [
            settings.authoritiesFile, settings.authoritiesDirectory, settings.certificateFile, settings.keyFile,
        ].map { $0.flatMap { FileFingerprint(path: $0) } }
        let known = made[server]
        if let known, known.settings == settings, known.files == files { return known.context }
        do throws(TLSFailure) {
            let context = try TLSClientContext(settings)
            if made.count >= Limits.tlsContextsMax { made = [:] }
            made[server] = Made(settings: settings, files: files, context: context)
            return context
        } catch {
            guard let known, known.settings == settings else { throw error }
            return known.context
        }
    }
}

extension Limits {
    /// Servers whose TLS is ready for the next connection; with one more it is made anew for all.
    static let tlsContextsMax = 16
}
