import EpollLoop
import Glibc
import Synchronization
import Testing

@testable import MartletServer

@Suite struct MailBacklogTests {
    /// What threads and expectations can share.
    private final class Box: Sendable {
        let backlog: MailBacklog
        /// What the first sender has put in, and how often it was woken.
        let posted = Atomic<Int>(0)
        let rings = Atomic<Int>(0)

        init(bytesMax: Int = .max, bytesAheadMax: Int = .max) {
            backlog = MailBacklog(senders: 2, bytesMax: bytesMax, bytesAheadMax: bytesAheadMax)
        }

        var isFull: Bool { backlog.isFull }

        func add(_ byteCount: Int, from sender: Int = 0) { backlog.add(byteCount, from: sender) }

        func remove(_ byteCount: Int, from sender: Int = 0) -> Bool { backlog.remove(byteCount, from: sender) }

        func isAhead(_ sender: Int = 0) -> Bool { backlog.isAhead(sender) }

        func askToHear() -> Bool { backlog.askToHear(0) }
    }

    @Test func `it is full above its bound, and has room again when mail is worked off`() {
        let box = Box(bytesMax: 100)
        box.add(60)
        box.add(40, from: 1)
        #expect(!box.isFull)
        box.add(1)
        #expect(box.isFull)
        _ = box.remove(1)
        #expect(!box.isFull)
    }

    @Test func `what several threads add and remove is counted whole`() throws {
        let box = Box(bytesMax: 0)
        let threads = try (0..<4).map { number in
            try LoopThread.start(name: "adder") {
                for count in 1...10_000 { box.add(count, from: number % 2) }
                for count in 1...10_000 { _ = box.remove(count, from: number % 2) }
            }
        }
        for thread in threads { thread.join() }
        #expect(!box.isFull)
        box.add(1)
        #expect(box.isFull)
    }

    @Test func `a sender is ahead by what it has sent itself`() {
        let box = Box(bytesAheadMax: 100)
        box.add(100)
        box.add(1000, from: 1)
        #expect(!box.isAhead())
        #expect(box.isAhead(1))
        box.add(1)
        #expect(box.isAhead())
    }

    @Test func `one that is ahead and asks is woken, once, when it is not`() {
        let box = Box(bytesAheadMax: 100)
        box.add(300)
        #expect(box.askToHear())
        #expect(!box.remove(100), "still ahead")
        #expect(box.remove(100))
        #expect(!box.isAhead())
        #expect(!box.remove(100), "told already")
    }

    @Test func `one that is not ahead is told so, and not woken later`() {
        let box = Box(bytesAheadMax: 100)
        box.add(100)
        #expect(!box.askToHear())
        #expect(!box.remove(100))
    }

    @Test func `one that has not asked is not woken`() {
        let box = Box(bytesAheadMax: 100)
        box.add(300)
        #expect(!box.remove(300))
    }

    @Test(.timeLimit(.minutes(1)))
    func `no sender waits in vain, whenever it asks`() throws {
        let box = Box(bytesAheadMax: 0)
        let rounds = 20_000
        let reader = try LoopThread.start(name: "reader") {
            for round in 1...rounds {
                while box.posted.load(ordering: .acquiring) < round { sched_yield() }
                if box.remove(1) { box.rings.add(1, ordering: .releasing) }
            }
        }
        let patience = EventLoop.monotonicMilliseconds() + 30_000
        var isLost = false
        for round in 1...rounds {
            let heard = box.rings.load(ordering: .acquiring)
            box.add(1)
            box.posted.store(round, ordering: .releasing)
            guard !isLost, box.askToHear() else { continue }
            while box.rings.load(ordering: .acquiring) == heard, !isLost {
                sched_yield()
                isLost = EventLoop.monotonicMilliseconds() > patience
            }
        }
        reader.join()
        #expect(!isLost)
        #expect(!box.isAhead())
    }
}
