internal import Glibc
internal import Platform
package import Transports

/// Where a server is, and what carries the connection.
///
///     mqtt://host:1883    mqtts://host:8883    ws://host:80/mqtt    wss://host:443/mqtt    unix:/run/broker.sock
///
/// The ports shown are those that are meant when none is named, `/mqtt` the path, behind which a query may stand: `wss://host/mqtt?token=1`. A
/// host alone means `mqtt`.
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
    /// Who the client is there; nil for what the settings say.
    public var login: ClientSettings.Login?
    /// How TLS is there; nil for what the settings say.
    public var tls: TLSSettings?
    /// Headers of the request that opens the WebSocket, beside those of the handshake: for servers that want a token there. Only for `ws` and `wss`.
    public var webSocketHeaders: [String: String] = [:]
    /// What connections there go through; nil for what the settings say, ``ProxyAddress/direct`` for going straight whatever they say.
    public var proxy: ProxyAddress?

    init(_ kind: Kind) { self.kind = kind }

    /// Connections over sockets that `connect` makes: of a virtual machine (`AF_VSOCK`), of Bluetooth, of a tunnel of one's own.
    ///
    /// ```swift
    /// let host = ServerAddress.socket("the host") { try connectToHost(port: 1883) }
    /// ```
    /// - Parameters:
    ///   - name: what errors and the state call it.
    ///   - connect: called for each connection; it may take its time. Returns the descriptor of a stream socket that is connected, and is the client's
    ///     from then on. Throwing counts as a failed attempt.
    public static func socket(_ name: String, connect: @escaping @Sendable () async throws -> Int32) -> ServerAddress {
        ServerAddress(.socket(name: name, connect: connect))
    }

    /// Connections that are made by calling `connect`, on the client's loop: it must not block. The descriptor of the channel becomes
    /// readable and writable as one of a socket does.
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
    /// What is wrong with it, or with what goes with it; nil for nothing.
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
