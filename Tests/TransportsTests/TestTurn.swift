import Platform

/// A turn that does what a test says, and gives the test's deadline.
final class TestTurn: LoopTurn {
    private let begin: (UInt64) -> Void
    private let end: (UInt64) -> UInt64?

    init(begin: @escaping (UInt64) -> Void = { _ in }, end: @escaping (UInt64) -> UInt64? = { _ in nil }) {
        self.begin = begin
        self.end = end
    }

    func beginTurn(now: UInt64) { begin(now) }

    func endOfTurn(now: UInt64) -> UInt64? { end(now) }
}

extension EventLoop {
    /// Turns until the condition holds. False when `seconds` pass before it does.
    func run(within seconds: UInt64 = 60, until condition: @escaping () -> Bool) -> Bool {
        let deadline = MonotonicClock.milliseconds() + seconds * 1000
        run(
            TestTurn(end: { now in
                if condition() || now >= deadline { self.stop() }
                return deadline
            }))
        return condition()
    }
}
