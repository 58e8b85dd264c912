internal import Synchronization

/// How long small commits take of late, for who has to decide whether to wait for one. Noted by whoever commits, asked by any thread.
struct CommitPace: ~Copyable, Sendable {
    /// An average in which a sixteenth is new.
    private let microseconds = Atomic<UInt64>(quickMicroseconds)

    /// Whether a commit is likely to be short.
    var isQuick: Bool { microseconds.load(ordering: .relaxed) <= Self.quickMicroseconds }

    /// One that took for ever counts as 10 ms, so that a few good ones make up for it.
    func note(microseconds latest: UInt64) {
        let average = microseconds.load(ordering: .relaxed)
        microseconds.store((average * 15 + min(latest, Self.slowMicroseconds)) / 16, ordering: .relaxed)
    }

    /// Above it, a loop had better go on meanwhile.
    private static let quickMicroseconds: UInt64 = 500
    private static let slowMicroseconds: UInt64 = 10_000
}
