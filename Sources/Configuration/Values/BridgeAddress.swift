/// A broker that a bridge connects to.
public struct BridgeAddress: Sendable, Hashable {
    /// What carries the connection.
    public enum Transport: Sendable, Hashable {
        case tcp
        case webSocket(path: String)
        case unix(path: String)
    }

    /// Empty for a Unix socket.
    public var host: String
    public var port: UInt16
    public var transport = Transport.tcp
    /// Whether it asks for TLS by itself, as `mqtts` and `wss` do.
    public var usesTLS = false

    public init(host: String, port: UInt16 = BrokerConfiguration.defaultPort) {
        self.host = host
        self.port = port
    }
}

extension BridgeAddress: CustomStringConvertible {
    /// As it is written: `broker:1883`, `wss://broker:443/mqtt`.
    public var description: String {
        let place = "\(host.contains(":") ? "[\(host)]" : host):\(port)"
        return switch transport {
        case .tcp: usesTLS ? "mqtts://\(place)" : place
        case .webSocket(let path): "\(usesTLS ? "wss" : "ws")://\(place)\(path)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

extension BridgeAddress {
    /// `HOST` and the like, see below; `mqtt://`, `mqtts://`, `ws://` or `wss://` before it, the last two perhaps with a path behind it; or
    /// `unix:PATH`.
    init?(text: String) {
        if text.hasPrefix("unix:") {
            let rest = text.dropFirst("unix:".count)
            let path = rest.hasPrefix("///") ? rest.dropFirst(2) : rest
            guard path.first == "/" else { return nil }
            self.init(host: "", port: 0)
            transport = .unix(path: String(path))
            return
        }
        guard let scheme = Self.schemes.first(where: { text.hasPrefix("\($0.name)://") }) else {
            self.init(plain: text)
            return
        }
        let rest = text.dropFirst(scheme.name.count + 3)
        let place = rest.prefix { $0 != "/" }
        let path = String(rest[place.endIndex...])
        guard scheme.isWebSocket || path.isEmpty || path == "/" else { return nil }
        self.init(plain: String(place), usualPort: scheme.port)
        usesTLS = scheme.usesTLS
        if scheme.isWebSocket { transport = .webSocket(path: path.isEmpty || path == "/" ? "/mqtt" : path) }
    }

    private static let schemes: [(name: String, isWebSocket: Bool, usesTLS: Bool, port: UInt16)] = [
        ("mqtt", false, false, 1883), ("mqtts", false, true, 8883), ("ws", true, false, 80), ("wss", true, true, 443),
    ]

    /// `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT`, or an IPv6 address as it is; nil for anything else.
    private init?(plain text: String, usualPort: UInt16 = BrokerConfiguration.defaultPort) {
        let bytes = Array(text.utf8)
        let colons = bytes.count { $0 == UInt8(ascii: ":") }
        if bytes.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard !host.isEmpty else { return nil }
            if rest.isEmpty {
                self.init(host: String(host), port: usualPort)
            } else {
                guard rest.first == ":", let port = Self.port(rest.dropFirst()) else { return nil }
                self.init(host: String(host), port: port)
            }
        } else if colons == 1, let colon = text.firstIndex(of: ":") {
            guard colon > text.startIndex, let port = Self.port(text[text.index(after: colon)...]) else { return nil }
            self.init(host: String(text[..<colon]), port: port)
        } else {
            guard !text.isEmpty else { return nil }
            self.init(host: text, port: usualPort)
        }
    }

    private static func port(_ text: Substring) -> UInt16? {
        UInt16(text).flatMap { $0 > 0 ? $0 : nil }
    }
}
