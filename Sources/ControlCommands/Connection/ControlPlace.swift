/// Where a broker's HTTP API is.
public enum ControlPlace: Equatable, Sendable {
    case unixSocket(path: String)
    case tcp(host: String, port: UInt16, usesTLS: Bool)

    /// Where it is on a machine with Martlet installed, and nobody has said otherwise.
    public static let packagedSocket = "/run/martlet/http.sock"

    /// This machine's, where a broker without a configuration has it.
    public static let standard = ControlPlace.tcp(host: "127.0.0.1", port: 9883, usesTLS: false)

    /// Reads `http://host:port`, `https://host`, `unix:/path`; nil for anything else, and for a URL with a user, a path or a query.
    public init?(url: String) {
        if url.hasPrefix("unix:/") {
            self = .unixSocket(path: String(url.dropFirst(5)))
            return
        }
        let usesTLS = url.lowercased().hasPrefix("https://")
        guard usesTLS || url.lowercased().hasPrefix("http://") else { return nil }
        var rest = url.dropFirst(usesTLS ? 8 : 7)
        if rest.last == "/" { rest = rest.dropLast() }
        let isNumericIPv6 = rest.first == "["
        guard let end = isNumericIPv6 ? rest.firstIndex(of: "]") : rest.firstIndex(of: ":") ?? rest.endIndex else { return nil }
        let host = isNumericIPv6 ? rest[..<end].dropFirst() : rest[..<end]
        let behind = isNumericIPv6 ? rest[end...].dropFirst() : rest[end...]
        let isName: (UInt8) -> Bool = { byte in
            byte > 0x20 && byte < 0x7F && !"/?#@[]\\\"".utf8.contains(byte) && (isNumericIPv6 || byte != UInt8(ascii: ":"))
        }
        guard !host.isEmpty, host.utf8.allSatisfy(isName) else { return nil }
        guard !behind.isEmpty else {
            self = .tcp(host: String(host), port: usesTLS ? 443 : 80, usesTLS: usesTLS)
            return
        }
        guard behind.first == ":", behind.dropFirst().utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(behind.dropFirst()), port > 0
        else { return nil }
        self = .tcp(host: String(host), port: port, usesTLS: usesTLS)
    }

    /// What the field Host says: a Unix socket is this machine.
    var host: String {
        switch self {
        case .unixSocket: "localhost"
        case .tcp(let host, let port, let usesTLS):
            (host.contains(":") ? "[\(host)]" : host) + (port == (usesTLS ? 443 : 80) ? "" : ":\(port)")
        }
    }
}

extension ControlPlace: CustomStringConvertible {
    /// As a person gives it.
    public var description: String {
        switch self {
        case .unixSocket(let path): path
        case .tcp(_, _, let usesTLS): (usesTLS ? "https://" : "http://") + host
        }
    }
}
