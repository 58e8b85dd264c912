internal import Platform

/// Bounds how many connections one network opens in a second: `martlet_max_connections_per_second_per_address`.
///
/// A network may open a second's worth at once; after that one more whenever its part of a second has passed. What counts is only what was
/// let in, so that a client that hammers gets its share and no less. Shared by all loops; a connection costs a lock and one short search.
/// Bounded, see `ThrottleTable`.
public final class ConnectionThrottle: Sendable {
    public enum Verdict: Sendable, Equatable {
        case admitted
        /// - isNews: whether this network was not refused since it was last admitted, so that there is something to be said.
        case refused(isNews: Bool)
    }

    private struct Place: ThrottleEntry {
        /// When all that was let in would have come at an even pace, in microseconds; in the past for who has its whole second free.
        var lastUsedAt: UInt64 = 0
        var isReported = false
    }

    private let table = Locked(ThrottleTable<Place>())

    public init() {}

    /// A connection has come.
    ///
    /// - Parameters:
    ///   - network: what is bounded.
    ///   - perSecondMax: how many a second, 1 or more.
    ///   - now: milliseconds of any monotonic clock.
    public func connected(from network: some Hashable, perSecondMax: Int, now: UInt64) -> Verdict {
        let nowMicroseconds = now * 1000
        let spacing = Self.secondMicroseconds / UInt64(max(1, perSecondMax))
        return table.withLock { places in
            let place = places.place(of: places.key(of: network))
            let next = max(places[place].lastUsedAt, nowMicroseconds) + spacing
            guard next <= nowMicroseconds + Self.secondMicroseconds else {
                defer { places[place].isReported = true }
                return .refused(isNews: !places[place].isReported)
            }
            places[place] = Place(lastUsedAt: next)
            return .admitted
        }
    }

    private static let secondMicroseconds: UInt64 = 1_000_000
}
