import EpollLoop
import Synchronization

/// What a loop's thread has lately had of the cores, and done with it. Noted by the thread that runs the loop, read by any.
final class LoopUsage: Sendable {
    /// In thousandths of a core, of the last window.
    private let running = Atomic<UInt64>(0)
    private let waiting = Atomic<UInt64>(0)
    /// When the last window ended, in milliseconds; 0 before the first.
    private let notedAt = Atomic<UInt64>(0)
    private let works = Atomic<UInt64>(0)
    private let isPaired = Atomic<Bool>(false)

    /// Packets received and messages sent, since the loop began.
    var work: UInt64 { works.load(ordering: .relaxed) }

    func note(work: UInt64) { works.store(work, ordering: .relaxed) }

    /// Notes what the thread has had from the one time to the other, in milliseconds.
    ///
    /// - Returns: false if that tells nothing: another thread was here, or one that slept for long.
    func note(from start: UInt64, _ before: ThreadTimes, to end: UInt64, _ after: ThreadTimes) -> Bool {
        guard end > start, end - start <= Self.windowMillisecondsMax, before.thread == after.thread,
            after.running >= before.running, after.waiting >= before.waiting
        else { return false }
        running.store((after.running - before.running) / (end - start) / 1000, ordering: .relaxed)
        waiting.store((after.waiting - before.waiting) / (end - start) / 1000, ordering: .relaxed)
        notedAt.store(end, ordering: .releasing)
        return true
    }

    /// Whether this loop and another would do with one thread, by the windows that both have had last: they have waited for cores for much of
    /// the time, have run for no more than one core's, and were asleep for so much of it that they would not run much more if they could.
    func fits(with other: LoopUsage) -> Bool {
        let (mine, theirs) = (notedAt.load(ordering: .relaxed), other.notedAt.load(ordering: .acquiring))
        let running = running.load(ordering: .relaxed) + other.running.load(ordering: .relaxed)
        let waiting = waiting.load(ordering: .relaxed) + other.waiting.load(ordering: .relaxed)
        return theirs + Self.windowMillisecondsMax >= mine && running <= Self.runningMax && waiting >= Self.waitingMin
            && running + waiting <= Self.wantedMax
    }

    /// Makes this loop and another one a pair; false if one of them is in one.
    func pair(with other: LoopUsage) -> Bool {
        if isPaired.exchange(true, ordering: .acquiringAndReleasing) { return false }
        if !other.isPaired.exchange(true, ordering: .acquiringAndReleasing) { return true }
        isPaired.store(false, ordering: .releasing)
        return false
    }

    func part(from other: LoopUsage) {
        other.isPaired.store(false, ordering: .releasing)
        isPaired.store(false, ordering: .releasing)
    }

    private static let windowMillisecondsMax: UInt64 = 60
    private static let runningMax: UInt64 = 1050
    private static let waitingMin: UInt64 = 200
    private static let wantedMax: UInt64 = 1600
}
