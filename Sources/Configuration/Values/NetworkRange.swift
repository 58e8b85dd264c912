import Glibc

/// Addresses that begin alike, or one of them: `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1`.
public struct NetworkRange: Sendable, Hashable {
    /// An IPv4 or IPv6 address in numbers.
    public let host: String
    /// How many of its bits count: 0 to 32, or to 128.
    public let bits: Int

    /// From the text; nil when it is no address, or has more bits than one.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard let host = parts.first, parts.count <= 2 else { return nil }
        var room = in6_addr()
        let isIPv4 = inet_pton(AF_INET, host, &room) == 1
        guard isIPv4 || inet_pton(AF_INET6, host, &room) == 1 else { return nil }
        let longest = isIPv4 ? 32 : 128
        let bits = parts.count == 1 ? longest : Int(parts[1])
        guard let bits, (0...longest).contains(bits) else { return nil }
        self.host = host
        self.bits = bits
    }
}

extension NetworkRange: CustomStringConvertible {
    public var description: String { "\(host)/\(bits)" }
}
