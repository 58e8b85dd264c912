import EpollLoop
import Testing

@testable import MartletServer

@Suite struct MailBacklogTests {
    /// What threads and expectations can share.
    private final class Box: Sendable {
        let backlog: MailBacklog

        init(bytesMax: Int) { backlog = MailBacklog(bytesMax: bytesMax) }

        var isFull: Bool { backlog.isFull }
    }

    @Test func `it is full above its bound, and has room again when mail is worked off`() {
        let box = Box(bytesMax: 100)
        box.backlog.add(100)
        #expect(!box.isFull)
        box.backlog.add(1)
        #expect(box.isFull)
        box.backlog.remove(1)
        #expect(!box.isFull)
    }

    @Test func `what several threads add and remove is counted whole`() throws {
        let box = Box(bytesMax: 0)
        let threads = try (0..<4).map { _ in
            try LoopThread.start(name: "adder") {
                for count in 1...10_000 { box.backlog.add(count) }
                for count in 1...10_000 { box.backlog.remove(count) }
            }
        }
        for thread in threads { thread.join() }
        #expect(!box.isFull)
        box.backlog.add(1)
        #expect(box.isFull)
    }
}
