public import BrokerCore

/// The sessions of a broker all of whose shards are on one thread: hence unchecked.
public final class SimulatedSessionCount: SessionCount, @unchecked Sendable {
    public private(set) var value = 0

    public init() {}

    public func enter(max: Int?) -> Bool {
        guard value < max ?? .max else { return false }
        value += 1
        return true
    }

    public func leave() { value -= 1 }
}
