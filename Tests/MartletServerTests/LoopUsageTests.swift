import EpollLoop
import Testing

@testable import MartletServer

/// When two loops do better on one thread.
@Suite struct LoopUsageTests {
    /// The usage of a loop whose thread has run and waited for so many thousandths of the last window.
    private func usage(running: UInt64, waiting: UInt64, endedAt end: UInt64 = 1020) -> LoopUsage {
        let usage = LoopUsage()
        let before = ThreadTimes(thread: 1, running: 5_000_000, waiting: 3_000_000)
        let after = ThreadTimes(thread: 1, running: before.running + running * 20_000, waiting: before.waiting + waiting * 20_000)
        #expect(usage.note(from: end - 20, before, to: end, after))
        return usage
    }

    @Test(
        arguments: [
            // They have a core between them, wait for it, and sleep a good part of the time.
            (500, 290, 500, 210, true), (500, 80, 400, 270, true), (600, 100, 440, 110, true),
            // They need more than a core, and would lose by having one.
            (900, 100, 420, 100, false), (600, 100, 500, 100, false),
            // They never sleep: who knows what they need.
            (500, 480, 480, 500, false), (330, 660, 330, 660, false),
            // There are cores enough.
            (500, 10, 400, 10, false), (0, 0, 0, 0, false), (50, 90, 50, 90, false),
        ])
    func `two loops that wait for cores and need no more than one go together`(
        _ running: UInt64, _ waiting: UInt64, _ othersRunning: UInt64, _ othersWaiting: UInt64, _ fit: Bool
    ) {
        let (one, other) = (usage(running: running, waiting: waiting), usage(running: othersRunning, waiting: othersWaiting))
        #expect(one.fits(with: other) == fit)
        #expect(other.fits(with: one) == fit)
    }

    @Test func `what is not known, or known no longer, is not judged by`() {
        let busy = usage(running: 500, waiting: 250, endedAt: 5000)
        #expect(!busy.fits(with: LoopUsage()))
        #expect(!busy.fits(with: usage(running: 500, waiting: 250, endedAt: 4000)))
        #expect(busy.fits(with: usage(running: 500, waiting: 250, endedAt: 4990)))
    }

    @Test func `a window counts only for one thread that was not long asleep, and counts on`() {
        let usage = LoopUsage()
        let before = ThreadTimes(thread: 1, running: 1000, waiting: 1000)
        #expect(usage.note(from: 100, before, to: 120, ThreadTimes(thread: 1, running: 1000, waiting: 1000)))
        #expect(!usage.note(from: 100, before, to: 120, ThreadTimes(thread: 2, running: 1000, waiting: 1000)))
        #expect(!usage.note(from: 100, before, to: 1000, ThreadTimes(thread: 1, running: 1000, waiting: 1000)))
        #expect(!usage.note(from: 100, before, to: 100, ThreadTimes(thread: 1, running: 1000, waiting: 1000)))
        #expect(!usage.note(from: 100, before, to: 120, ThreadTimes(thread: 1, running: 1000, waiting: 999)))
    }

    @Test func `a loop is in one pair at a time`() {
        let usages = (0..<3).map { _ in LoopUsage() }
        #expect(usages[1].pair(with: usages[0]))
        #expect(!usages[2].pair(with: usages[0]) && !usages[2].pair(with: usages[1]) && !usages[1].pair(with: usages[2]))
        usages[1].part(from: usages[0])
        #expect(usages[2].pair(with: usages[0]))
    }

    @Test func `the kernel tells what a thread has had`() throws {
        let before = try #require(ThreadTimes.current())
        var sum = 0
        while try #require(ThreadTimes.current()).running < before.running + 1_000_000 { sum &+= 1 }
        let after = try #require(ThreadTimes.current())
        #expect(after.thread == before.thread && after.waiting >= before.waiting)
    }
}
