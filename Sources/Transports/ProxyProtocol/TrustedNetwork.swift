/// Addresses that begin alike: the proxies of a listener.
public struct TrustedNetwork: Sendable, Hashable {
    private let base: PeerAddress
    private let bits: Int

    /// - Parameters:
    ///   - host: an IPv4 or IPv6 address in numbers; nil comes of other text.
    ///   - bits: how many of its bits count.
    public init?(host: String, bits: Int) {
        guard let address = PeerAddress(host: host), bits >= 0 else { return nil }
        base = address.masked(bits: bits)
        self.bits = bits
    }

    /// Whether an address is one of them; an IPv4 one inside IPv6 (`::ffff:10.0.0.1`) counts as itself.
    public func contains(_ peer: PeerAddress) -> Bool {
        let plain = peer.plain
        return plain.family == base.family && plain.masked(bits: bits) == base
    }
}
