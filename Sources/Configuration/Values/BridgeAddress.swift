/// A broker that a bridge connects to.
public struct BridgeAddress: Sendable, Hashable {
    public var host: String
    public var port: UInt16

    public init(host: String, port: UInt16 = BrokerConfiguration.defaultPort) {
        self.host = host
        self.port = port
    }
}

extension BridgeAddress {
    /// `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT`, or an IPv6 address as it is; nil for anything else.
    init?(text: String) {
        let bytes = Array(text.utf8)
        let colons = bytes.count { $0 == UInt8(ascii: ":") }
        if bytes.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard !host.isEmpty else { return nil }
            if rest.isEmpty {
                self.init(host: String(host))
            } else {
                guard rest.first == ":", let port = Self.port(rest.dropFirst()) else { return nil }
                self.init(host: String(host), port: port)
            }
        } else if colons == 1, let colon = text.firstIndex(of: ":") {
            guard colon > text.startIndex, let port = Self.port(text[text.index(after: colon)...]) else { return nil }
            self.init(host: String(text[..<colon]), port: port)
        } else {
            guard !text.isEmpty else { return nil }
            self.init(host: text)
        }
    }

    private static func port(_ text: Substring) -> UInt16? {
        UInt16(text).flatMap { $0 > 0 ? $0 : nil }
    }
}
