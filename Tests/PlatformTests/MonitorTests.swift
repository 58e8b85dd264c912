import Testing

@testable import Platform

@Suite(.timeLimit(.minutes(10))) struct MonitorTests {
    private final class Count: @unchecked Sendable {
        var value = 0
    }

    @Test func `who waits goes on when another thread has signalled`() throws {
        let monitor = Monitor()
        let count = Count()
        let thread = try NamedThread.start(name: "signals") {
            for _ in 0..<1000 {
                monitor.withLock {
                    count.value += 1
                    monitor.signal()
                }
            }
        }
        monitor.withLock {
            while count.value < 1000 { monitor.wait() }
        }
        thread.join()
    }

    @Test func `waiting ends when its time is over`() {
        let monitor = Monitor()
        let before = ContinuousClock.now
        monitor.withLock { monitor.wait(milliseconds: 1) }
        #expect(ContinuousClock.now - before < .seconds(60))
    }
}
