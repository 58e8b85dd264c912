import Glibc
import Platform
import Synchronization
import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite struct ShardMessageBacklogTests {
    /// Two senders, 0 and 1, and a receiver.
    private let receiver = 2

    private func backlog(bytesMax: Int = .max, bytesAheadMax: Int = .max) -> ShardMessageBacklog {
        ShardMessageBacklog(loops: 3, bytesMax: bytesMax, bytesAheadMax: bytesAheadMax)
    }

    @Test func `a loop that is behind holds up all others, until shard messages is worked off`() {
        let backlog = backlog(bytesMax: 100)
        backlog.add(60, from: 0, to: receiver)
        backlog.add(40, from: 1, to: receiver)
        #expect(!backlog.isHeldUp(0))
        backlog.add(1, from: 0, to: receiver)
        #expect(backlog.isHeldUp(0) && backlog.isHeldUp(1))
        #expect(!backlog.isHeldUp(receiver), "it must go on to catch up")
        _ = backlog.remove(1, from: 0, to: receiver)
        #expect(!backlog.isHeldUp(0))
    }

    @Test func `there is a bit for each of 64 loops`() {
        let backlog = ShardMessageBacklog(loops: 64, bytesMax: 10, bytesAheadMax: 10)
        for loop in 1..<64 { backlog.add(11, from: 0, to: loop) }
        for loop in 1..<63 { #expect(!backlog.remove(11, from: 0, to: loop)) }
        #expect(backlog.isAhead(0) && backlog.isHeldUp(0) && !backlog.isHeldUp(63))
        #expect(backlog.askToHear(0))
        #expect(backlog.remove(11, from: 0, to: 63))
        #expect(!backlog.isAhead(0) && !backlog.isHeldUp(0))
    }

    @Test func `what several threads add and remove is counted whole`() throws {
        let (backlog, receiver) = (backlog(bytesMax: 0, bytesAheadMax: 1), receiver)
        let threads = try (0..<4).map { number in
            try NamedThread.start(name: "adder") {
                for count in 1...10_000 { backlog.add(count, from: number % 2, to: receiver) }
                for count in 1...10_000 { _ = backlog.remove(count, from: number % 2, to: receiver) }
            }
        }
        for thread in threads { thread.join() }
        #expect(!backlog.isHeldUp(0) && !backlog.isAhead(0) && !backlog.isAhead(1))
        backlog.add(1, from: 0, to: receiver)
        #expect(backlog.isHeldUp(0) && !backlog.isAhead(0))
    }

    @Test func `a bit is right in the end, in whatever order two threads cross the bound`() throws {
        let (backlog, receiver) = (backlog(bytesMax: 10, bytesAheadMax: 10), receiver)
        let posted = Counter()
        let rounds = 20_000
        let reader = try NamedThread.start(name: "reader") {
            for round in 1...rounds {
                while posted.value < round { sched_yield() }
                _ = backlog.remove(11, from: 0, to: receiver)
            }
        }
        for _ in 1...rounds {
            backlog.add(11, from: 0, to: receiver)
            posted.increment()
        }
        reader.join()
        #expect(!backlog.isHeldUp(0) && !backlog.isAhead(0))
    }

    @Test func `a sender is ahead by what it has sent itself`() {
        let backlog = backlog(bytesAheadMax: 100)
        backlog.add(100, from: 0, to: receiver)
        backlog.add(1000, from: 1, to: receiver)
        #expect(!backlog.isAhead(0))
        #expect(backlog.isAhead(1))
        backlog.add(1, from: 0, to: receiver)
        #expect(backlog.isAhead(0))
    }

    @Test func `one that is ahead and asks is woken, once, when it is not ahead of anybody`() {
        let backlog = backlog(bytesAheadMax: 100)
        backlog.add(300, from: 0, to: receiver)
        backlog.add(300, from: 0, to: 1)
        #expect(backlog.askToHear(0))
        #expect(!backlog.remove(100, from: 0, to: receiver), "still ahead")
        #expect(!backlog.remove(100, from: 0, to: receiver), "still ahead of the other")
        #expect(backlog.remove(200, from: 0, to: 1))
        #expect(!backlog.isAhead(0))
        #expect(!backlog.remove(100, from: 0, to: receiver), "told already")
    }

    @Test func `one that is not ahead is told so, and not woken later`() {
        let backlog = backlog(bytesAheadMax: 100)
        backlog.add(100, from: 0, to: receiver)
        #expect(!backlog.askToHear(0))
        #expect(!backlog.remove(100, from: 0, to: receiver))
    }

    @Test func `one that has not asked is not woken`() {
        let backlog = backlog(bytesAheadMax: 100)
        backlog.add(300, from: 0, to: receiver)
        #expect(!backlog.remove(300, from: 0, to: receiver))
    }

    @Test func `no sender waits in vain, whenever it asks`() throws {
        let (backlog, receiver) = (backlog(bytesAheadMax: 0), receiver)
        let (posted, removed, rings) = (Counter(), Counter(), Counter())
        let rounds = 20_000
        let reader = try NamedThread.start(name: "reader") {
            for round in 1...rounds {
                while posted.value < round { sched_yield() }
                if backlog.remove(1, from: 0, to: receiver) { rings.increment() }
                removed.increment()
            }
        }
        var lostCount = 0
        for round in 1...rounds {
            let heard = rings.value
            backlog.add(1, from: 0, to: receiver)
            posted.increment()
            guard backlog.askToHear(0) else { continue }
            while removed.value < round, rings.value == heard { sched_yield() }
            // All is worked off: who has not heard by now never would.
            if rings.value == heard { lostCount += 1 }
        }
        reader.join()
        #expect(lostCount == 0)
        #expect(!backlog.isAhead(0))
    }

    /// What two threads count by.
    private final class Counter: Sendable {
        private let number = Atomic<Int>(0)

        var value: Int { number.load(ordering: .acquiring) }

        func increment() { number.add(1, ordering: .releasing) }
    }
}
