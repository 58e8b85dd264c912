import EpollLoop
import Testing

@testable import MartletServer

@Suite struct MailBacklogTests {
    @Test func `it is full above its bound, and has room again when mail is worked off`() {
        let backlog = MailBacklog(bytesMax: 100)
        backlog.add(100)
        #expect(backlog.isFull == false)
        backlog.add(1)
        #expect(backlog.isFull == true)
        backlog.remove(1)
        #expect(backlog.isFull == false)
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
        #expect(shared.backlog.isFull == false)
        shared.backlog.add(1)
        #expect(shared.backlog.isFull == true)
    }
}
