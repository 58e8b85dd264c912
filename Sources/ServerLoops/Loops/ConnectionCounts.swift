import Synchronization

/// How many connections there are, on each listener and in all: what `max_connections` and `global_max_connections` bound.
///
/// Shared by all loops; a connection counts from accept to close, on whichever loop it is.
package final class ConnectionCounts: Sendable {
    private final class Counter: Sendable {
        package let value = Atomic<Int>(0)
    }

    private let total: Counter
    private let perListener: [Counter]
    private let accepted: [Counter]

    /// How many there are on a listener.
    package func count(ofListener listener: Int) -> Int { perListener[listener].value.load(ordering: .relaxed) }

    /// How many there have been on a listener.
    package func acceptedCount(ofListener listener: Int) -> UInt64 { UInt64(accepted[listener].value.load(ordering: .relaxed)) }

    /// Makes counts that share those of others, with places for more listeners behind those that there are.
    init(extending counts: ConnectionCounts, listeners: Int) {
        total = counts.total
        let more = max(0, listeners - counts.perListener.count)
        perListener = counts.perListener + (0..<more).map { _ in Counter() }
        accepted = counts.accepted + (0..<more).map { _ in Counter() }
    }

    init(listeners: Int) {
        total = Counter()
        perListener = (0..<listeners).map { _ in Counter() }
        accepted = (0..<listeners).map { _ in Counter() }
    }

    /// How many there are in all.
    package var count: Int { total.value.load(ordering: .relaxed) }

    /// Counts a connection in, unless a limit is reached.
    ///
    /// - Parameters:
    ///   - listenerMax: the most on this listener; nil for no limit.
    ///   - totalMax: the most in all; nil for no limit.
    func enter(listener: Int, listenerMax: Int?, totalMax: Int?) -> Bool {
        let onListener = perListener[listener].value.add(1, ordering: .relaxed).newValue
        let inAll = total.value.add(1, ordering: .relaxed).newValue
        guard onListener > listenerMax ?? .max || inAll > totalMax ?? .max else {
            accepted[listener].value.add(1, ordering: .relaxed)
            return true
        }
        leave(listener: listener)
        return false
    }

    package func leave(listener: Int) {
        perListener[listener].value.subtract(1, ordering: .relaxed)
        total.value.subtract(1, ordering: .relaxed)
    }
}
