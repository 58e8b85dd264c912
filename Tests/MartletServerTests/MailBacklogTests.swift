import EpollLoop
import Glibc
import Synchronization
import Testing

@testable import MartletServer

@Suite struct MailBacklogTests {
    /// What threads and expectations can share.
    private final class Box: Sendable {
        let backlog: MailBacklog
        /// Rung when the first sender is to be woken.
        let bell = Monitor()
        let rings = Atomic<Int>(0)

        init(bytesMax: Int = .max, bytesAheadMax: Int = .max) {
            backlog = MailBacklog(senders: 2, bytesMax: bytesMax, bytesAheadMax: bytesAheadMax)
        }

        var isFull: Bool { backlog.isFull }

        func add(_ byteCount: Int, from sender: Int = 0) { backlog.add(byteCount, from: sender) }

        func remove(_ byteCount: Int, from sender: Int = 0) -> Bool { backlog.remove(byteCount, from: sender) }

        func isAhead(_ sender: Int = 0) -> Bool { backlog.isAhead(sender) }
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

    @Test func `one that has found itself ahead is to be woken, once, when it is not`() {
        let box = Box(bytesAheadMax: 100)
        box.add(300)
        #expect(box.isAhead())
        #expect(!box.remove(100), "still ahead")
        #expect(box.remove(100))
        #expect(!box.isAhead())
        #expect(!box.remove(100), "told already")
    }

    @Test func `one that has not asked is not woken`() {
        let box = Box(bytesAheadMax: 100)
        box.add(300)
        #expect(!box.remove(300))
    }

    @Test func `no sender waits in vain, whenever it asks`() throws {
        let box = Box(bytesMax: 0, bytesAheadMax: 0)
        let rounds = 20_000
        let reader = try LoopThread.start(name: "reader") {
            for _ in 0..<rounds {
                while !box.isFull { sched_yield() }
                guard box.remove(1) else { continue }
                box.bell.withLock {
                    box.rings.add(1, ordering: .relaxed)
                    box.bell.signal()
                }
            }
        }
        var heard = 0
        for _ in 0..<rounds {
            box.add(1)
            while box.isAhead() {
                box.bell.withLock {
                    while box.rings.load(ordering: .relaxed) == heard { box.bell.wait() }
                    heard = box.rings.load(ordering: .relaxed)
                }
            }
        }
        reader.join()
        #expect(!box.isAhead())
    }
}
