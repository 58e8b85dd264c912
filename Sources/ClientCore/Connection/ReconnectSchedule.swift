/// When to try to connect again.
public struct ReconnectSchedule: Hashable, Sendable {
    /// The first pause and the longest, in milliseconds; nil never tries again.
    public enum Policy: Hashable, Sendable {
        case never
        case exponential(fromMilliseconds: UInt64, toMilliseconds: UInt64)
    }

    private let policy: Policy
    private var failures = 0

    public init(_ policy: Policy) { self.policy = policy }

    /// How many attempts have failed in a row.
    public var failureCount: Int { failures }

    /// An attempt has failed, or a connection has ended. Returns the pause before the next in milliseconds, nil for none.
    ///
    /// Each pause is twice the one before, and between half and all of that by chance, so that the clients of a server that
    /// comes back do not come all at once.
    public mutating func failed(chance: UInt64) -> UInt64? {
        guard case .exponential(let first, let longest) = policy else { return nil }
        let doubled = failures < 40 && first < 1 << 24 ? first << UInt64(failures) : longest
        failures += 1
        let pause = max(1, min(doubled, longest))
        return pause / 2 + chance % (pause - pause / 2 + 1)
    }

    /// A connection has lasted as long as the longest pause: what was before does not count.
    public mutating func reset() { failures = 0 }

    /// How long a connection must last for `reset`, in milliseconds.
    public var lastingMilliseconds: UInt64 {
        if case .exponential(_, let longest) = policy { min(longest, 30_000) } else { 0 }
    }
}
