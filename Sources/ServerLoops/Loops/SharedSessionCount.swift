import BrokerCore
import Synchronization

/// The sessions of all loops.
final class SharedSessionCount: SessionCount {
    private let value = Atomic<Int>(0)

    /// Never more than `max` at any time, and refuses only while there are as many: a count that is too high for a moment would send
    /// others away.
    func enter(max: Int?) -> Bool {
        var current = value.load(ordering: .relaxed)
        while current < max ?? .max {
            let (exchanged, original) = value.weakCompareExchange(expected: current, desired: current + 1, ordering: .relaxed)
            if exchanged { return true }
            current = original
        }
        return false
    }

    func leave() { value.subtract(1, ordering: .relaxed) }
}
