import MQTTCodec
import Platform
import Testing

@testable import Security

@Suite(.timeLimit(.minutes(10))) struct WorkerPoolTests {
    @Test func `all checks that were taken are made, by several threads`() {
        let pool = WorkerPool(name: "test", threads: 4, queue: 20_000)
        let done = Tally()
        for number in 0..<1000 { pool.submit(check(of: pool, from: "\(number % 10)") { done.add() }) }
        done.wait(for: 1000)
        pool.stop()
        #expect(done.count == 1000)
    }

    @Test func `one too many is refused, and there is room again later`() {
        let pool = WorkerPool(name: "test", threads: 1, queue: 3, queueOfNetwork: 3)
        let (gate, started, done, refused) = (Semaphore(), Semaphore(), Tally(), Tally())
        pool.submit(
            check(of: pool) {
                started.signal()
                gate.wait()
                done.add()
            })
        started.wait()
        for _ in 0..<3 { pool.submit(check(of: pool, refuse: { refused.add() }) { done.add() }) }
        #expect(refused.count == 0)
        pool.submit(check(of: pool, refuse: { refused.add() }) { done.add() })
        #expect(refused.count == 1)
        gate.signal()
        done.wait(for: 4)
        pool.submit(check(of: pool) { done.add() })
        done.wait(for: 5)
        pool.stop()
    }

    @Test func `what nobody waits for any more is not done`() {
        let pool = WorkerPool(name: "test", threads: 1, queue: 10)
        let (gate, started, done) = (Semaphore(), Semaphore(), Tally())
        pool.submit(
            check(of: pool) {
                started.signal()
                gate.wait()
            })
        started.wait()
        let abandoned = check(of: pool) { Issue.record("it was abandoned") }
        pool.submit(abandoned)
        abandoned.abandon()
        gate.signal()
        pool.submit(check(of: pool) { done.add() })
        done.wait(for: 1)
        pool.stop()
    }

    @Test func `a check that may not begin yet is made when its time has come`() {
        let pool = WorkerPool(name: "test", threads: 2, queue: 10)
        let subject = pool.throttle.subject(network: "n", site: "n", userName: "u", clientIdentifier: "c")
        for _ in 0..<4 {
            _ = pool.throttle.failed(subject, address: "n", clientIdentifier: "c", now: MonotonicClock.milliseconds())
        }
        let done = Tally()
        for _ in 0..<2 { pool.submit(PasswordCheck(of: subject, work: { done.add() }, refuse: {})) }
        done.wait(for: 2)
        pool.stop()
    }

    @Test func `after the end nothing is taken, and an end without work is no matter`() {
        let pool = WorkerPool(name: "test", threads: 2, queue: 3)
        pool.stop()
        let refused = Tally()
        pool.submit(check(of: pool, refuse: { refused.add() }) {})
        #expect(refused.count == 1)
    }

    private func check(
        of pool: WorkerPool, from network: String = "n", refuse: @escaping @Sendable () -> Void = {},
        _ work: @escaping @Sendable () -> Void
    ) -> PasswordCheck {
        let subject = pool.throttle.subject(network: network, site: network, userName: "u", clientIdentifier: "c")
        return PasswordCheck(of: subject, work: work, refuse: refuse)
    }
}

/// Counts what threads have done.
private final class Tally: Sendable {
    private let total = Locked(0)
    private let change = Semaphore()

    var count: Int { total.value }

    func add() {
        total.withLock { $0 += 1 }
        change.signal()
    }

    func wait(for count: Int) {
        while self.count < count { change.wait() }
    }
}
