/// From where peers may connect: networks that are allowed, and networks that are denied.
///
/// Of those that hold an address the narrowest decides, and of two alike the one that denies. An address that none
/// holds may connect unless some are allowed. Immutable; a look costs one search for each length that a network has.
public struct AddressRules: Sendable {
    /// By network, whether it is allowed.
    private let verdicts: [TrustedNetwork: Bool]
    /// The lengths of the networks, the longest first.
    private let ipv4Lengths: [Int]
    private let ipv6Lengths: [Int]
    private let allowsOthers: Bool

    /// - Parameters:
    ///   - allowed: from where peers may connect.
    ///   - denied: from where they may not, also what is in `allowed` too.
    ///   - allowsOthers: whether an address may connect that no network holds; nil for yes where nothing is allowed by
    ///     name.
    public init(allowed: [TrustedNetwork], denied: [TrustedNetwork], allowsOthers: Bool? = nil) {
        var verdicts: [TrustedNetwork: Bool] = [:]
        for network in allowed { verdicts[network] = true }
        for network in denied { verdicts[network] = false }
        self.verdicts = verdicts
        ipv4Lengths = Self.lengths(of: verdicts, .ipv4)
        ipv6Lengths = Self.lengths(of: verdicts, .ipv6)
        self.allowsOthers = allowsOthers ?? allowed.isEmpty
    }

    private static func lengths(of verdicts: [TrustedNetwork: Bool], _ family: PeerAddress.Family) -> [Int] {
        Set(verdicts.keys.lazy.filter { $0.base.family == family }.map(\.bits)).sorted(by: >)
    }

    /// Whether a peer may connect. One inside the machine may: the rights of a socket's file say who.
    public func admits(_ peer: PeerAddress) -> Bool {
        guard peer.family != .local else { return true }
        let plain = peer.plain
        for bits in plain.family == .ipv4 ? ipv4Lengths : ipv6Lengths {
            if let verdict = verdicts[TrustedNetwork(base: plain.masked(bits: bits), bits: bits)] { return verdict }
        }
        return allowsOthers
    }
}
