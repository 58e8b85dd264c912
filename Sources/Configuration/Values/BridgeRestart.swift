/// How long a bridge waits before it connects again: from `baseSeconds` to `capSeconds` at random, each time longer, starting anew after a
/// connection that lasted `stableSeconds`. Without a cap it waits `baseSeconds`.
public struct BridgeRestart: Sendable, Equatable {
    public var baseSeconds: Int
    public var capSeconds: Int?
    public var stableSeconds: Int?

    public init(baseSeconds: Int = 5, capSeconds: Int? = 30, stableSeconds: Int? = nil) {
        self.baseSeconds = baseSeconds
        self.capSeconds = capSeconds
        self.stableSeconds = stableSeconds
    }
}
