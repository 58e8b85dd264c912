import Testing

@testable import Platform

@Suite(.timeLimit(.minutes(10))) struct LockedTests {
    @Test func `one thread at a time has the value`() throws {
        let count = Locked(0)
        let threads = try (0..<4).map { index in
            try NamedThread.start(name: "counter \(index)") {
                for _ in 0..<10_000 { count.withLock { $0 += 1 } }
            }
        }
        threads.forEach { $0.join() }
        #expect(count.value == 40_000)
    }

    @Test func `the value is free again after a body threw`() {
        struct Refused: Error {}
        let value = Locked(1)
        #expect(throws: Refused.self) { try value.withLock { _ in throw Refused() } }
        #expect(value.value == 1)
    }

    @Test func `a value that is replaced ends when its lock is open`() {
        final class Ending: Sendable {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
            deinit { body() }
        }
        let seen = Locked(0)
        let held = Locked<Ending?>(nil)
        held.replace(with: Ending { if held.value == nil { seen.withLock { $0 += 1 } } })
        held.replace(with: nil)
        #expect(seen.value == 1)
    }
}

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
