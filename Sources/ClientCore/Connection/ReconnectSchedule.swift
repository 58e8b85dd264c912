/// When to try to connect again.
public struct ReconnectSchedule: Hashable, Sendable {
    /// The pauses between attempts, and how many there are.
    public struct Policy: Hashable, Sendable {
        /// The first pause, and the longest, in milliseconds.
        public var firstMilliseconds: UInt64
        public var longestMilliseconds: UInt64
        /// Which part of a pause chance may take off: 0 to 1.
        public var jitter: Double
        /// How many attempts follow one that has failed; nil for no end.
        public var attemptsMax: Int?

        public init(firstMilliseconds: UInt64, longestMilliseconds: UInt64, jitter: Double = 0.5, attemptsMax: Int? = nil) {
            (self.firstMilliseconds, self.longestMilliseconds) = (firstMilliseconds, longestMilliseconds)
            (self.jitter, self.attemptsMax) = (jitter, attemptsMax)
        }

        public static let never = Policy(firstMilliseconds: 0, longestMilliseconds: 0, attemptsMax: 0)

        public static func exponential(fromMilliseconds first: UInt64, toMilliseconds longest: UInt64) -> Policy {
            Policy(firstMilliseconds: first, longestMilliseconds: longest)
        }
    }

    private let policy: Policy
    private var failures = 0

    public init(_ policy: Policy) { self.policy = policy }

    /// How many attempts have failed in a row.
    public var failureCount: Int { failures }

    /// An attempt has failed, or a connection has ended. Returns the pause before the next in milliseconds, nil for
    /// none.
    ///
    /// Each pause is twice the one before, and less by chance, so that the clients of a server that comes back do not
    /// come all at once.
    public mutating func failed(chance: UInt64) -> UInt64? {
        if let most = policy.attemptsMax, failures >= most { return nil }
        let (first, longest) = (policy.firstMilliseconds, policy.longestMilliseconds)
        let doubled = failures < 40 && first < 1 << 24 ? first << UInt64(failures) : longest
        failures += 1
        let pause = max(1, min(doubled, longest))
        let least = pause - UInt64(Double(pause) * min(max(policy.jitter, 0), 1))
        return max(1, least + chance % (pause - least + 1))
    }

    /// A connection has lasted as long as the longest pause: what was before does not count.
    public mutating func reset() { failures = 0 }

    /// How long a connection must last for `reset`, in milliseconds.
    public var lastingMilliseconds: UInt64 { policy.attemptsMax == 0 ? 0 : min(policy.longestMilliseconds, 30_000) }
}

/// Which of several servers is tried next: in turn, the one that worked first again; and where a server sends its
/// clients to another.
public struct ServerChoice: Sendable {
    private let count: Int
    private var index = 0
    private var triedCount = 0
    private var redirectionCount = 0

    /// - Parameter count: how many servers there are, 1 or more.
    public init(count: Int) { self.count = max(1, count) }

    /// The place of the server to be tried.
    public var current: Int { index }

    /// It could not be reached, or did not let us in. Returns whether all have been tried since one did: then there is
    /// to be a pause.
    public mutating func failed() -> Bool {
        index = (index + 1) % count
        triedCount += 1
        guard triedCount >= count else { return false }
        triedCount = 0
        redirectionCount = 0
        return true
    }

    /// The first is tried next, and the others after it.
    public mutating func returnToFirst() { (index, triedCount) = (0, 0) }

    /// It let us in.
    public mutating func succeeded() { triedCount = 0 }

    /// The connection has lasted for a while: where servers sent their clients before does not count.
    public mutating func lasted() { redirectionCount = 0 }

    /// A server names another. Returns whether that should be followed.
    public mutating func mayFollow() -> Bool {
        redirectionCount += 1
        return redirectionCount <= Self.redirectionsMax
    }

    private static let redirectionsMax = 4
}
