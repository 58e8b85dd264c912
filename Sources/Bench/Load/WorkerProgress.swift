import Synchronization

/// What a worker tells other threads at the end of each turn.
final class WorkerProgress: Sendable {
    private let published = Atomic<UInt64>(0)
    private let delivered = Atomic<UInt64>(0)
    private let acknowledged = Atomic<UInt64>(0)
    private let rejected = Atomic<UInt64>(0)
    private let duplicates = Atomic<UInt64>(0)
    private let skipped = Atomic<UInt64>(0)
    private let ready = Atomic<Int>(0)
    private let ended = Atomic<Int>(0)
    private let rounds = Atomic<UInt64>(0)

    func tell(_ tally: LoadTally, ended endedCount: Int, rounds roundCount: UInt64) {
        published.store(tally.publishedCount, ordering: .relaxed)
        delivered.store(tally.deliveredCount, ordering: .relaxed)
        acknowledged.store(tally.acknowledgedCount, ordering: .relaxed)
        rejected.store(tally.rejectedCount, ordering: .relaxed)
        duplicates.store(tally.duplicateCount, ordering: .relaxed)
        skipped.store(tally.skippedCount, ordering: .relaxed)
        ready.store(tally.readyCount, ordering: .relaxed)
        ended.store(endedCount, ordering: .relaxed)
        rounds.store(roundCount, ordering: .relaxed)
    }

    var counts: LoadCounts {
        LoadCounts(
            published: published.load(ordering: .relaxed), delivered: delivered.load(ordering: .relaxed),
            acknowledged: acknowledged.load(ordering: .relaxed), rejected: rejected.load(ordering: .relaxed),
            duplicates: duplicates.load(ordering: .relaxed), skipped: skipped.load(ordering: .relaxed),
            ready: ready.load(ordering: .relaxed), ended: ended.load(ordering: .relaxed),
            rounds: rounds.load(ordering: .relaxed))
    }
}
