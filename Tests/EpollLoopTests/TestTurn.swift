import EpollLoop

/// A turn that does what a test says.
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
    /// Turns that many times without sleeping.
    func run(turns: Int) {
        var rest = turns
        run(
            TestTurn(end: { _ in
                rest -= 1
                if rest == 0 { self.stop() }
                return 0
            }))
    }
}
