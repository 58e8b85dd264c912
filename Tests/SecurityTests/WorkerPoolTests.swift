import EpollLoop
import Testing

@testable import Security

@Suite struct WorkerPoolTests {
    @Test func `all work that was taken is done, by several threads`() {
        let pool = WorkerPool(name: "test", threads: 4, queue: 10_000)
        let done = Tally()
        for _ in 0..<5_000 { #expect(pool.submit { done.add() }) }
        done.wait(for: 5_000)
        pool.stop()
        #expect(done.count == 5_000)
    }

    @Test func `a full queue refuses at once, and takes again when there is room`() {
        let pool = WorkerPool(name: "test", threads: 1, queue: 3)
        let (gate, started, done) = (Semaphore(), Semaphore(), Tally())
        #expect(
            pool.submit {
                started.signal()
                gate.wait()
                done.add()
            })
        started.wait()
        for _ in 0..<3 { #expect(pool.submit { done.add() }) }
        #expect(!pool.submit { done.add() })
        gate.signal()
        done.wait(for: 4)
        #expect(pool.submit { done.add() })
        done.wait(for: 5)
        pool.stop()
    }

    @Test func `one thread works in the order of submission`() {
        let pool = WorkerPool(name: "test", threads: 1, queue: 1000)
        let done = Tally()
        let order = Order()
        for number in 0..<500 {
            _ = pool.submit {
                order.append(number)
                done.add()
            }
        }
        done.wait(for: 500)
        pool.stop()
        #expect(order.numbers == Array(0..<500))
    }

    @Test func `after the end nothing is taken, and an end without work is no matter`() {
        let pool = WorkerPool(name: "test", threads: 2, queue: 3)
        pool.stop()
        #expect(!pool.submit {})
    }
}

/// Counts what threads have done.
private final class Tally: @unchecked Sendable {
    private let lock = Lock()
    private let change = Semaphore()
    private var total = 0

    var count: Int { lock.withLock { total } }

    func add() {
        lock.withLock { total += 1 }
        change.signal()
    }

    func wait(for count: Int) {
        while self.count < count { change.wait() }
    }
}

private final class Order: @unchecked Sendable {
    private let lock = Lock()
    private var list: [Int] = []

    var numbers: [Int] { lock.withLock { list } }

    func append(_ number: Int) { lock.withLock { list.append(number) } }
}
