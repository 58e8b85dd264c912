import EpollLoop
import Testing

@testable import MartletServer

@Suite struct MailBacklogTests {
    @Test func `it is full above its bound, and has room again when mail is worked off`() {
        let backlog = MailBacklog(bytesMax: 100)
        backlog.add(100)
        // The macro would copy what cannot be copied.
        let isFullAtBound = backlog.isFull
        #expect(!isFullAtBound)
        backlog.add(1)
        let isFullAbove = backlog.isFull
        #expect(isFullAbove)
        backlog.remove(1)
        let isFullAgain = backlog.isFull
        #expect(!isFullAgain)
    }

    @Test func `what several threads add and remove is counted whole`() throws {
        final class Shared: Sendable { let backlog = MailBacklog(bytesMax: 0) }
        let shared = Shared()
        let threads = try (0..<4).map { _ in
            try LoopThread.start(name: "adder") {
                for count in 1...10_000 { shared.backlog.add(count) }
                for count in 1...10_000 { shared.backlog.remove(count) }
            }
        }
        for thread in threads { thread.join() }
        let isFullAtBound = shared.backlog.isFull
        #expect(!isFullAtBound)
        shared.backlog.add(1)
        let isFullAbove = shared.backlog.isFull
        #expect(isFullAbove)
    }
}
