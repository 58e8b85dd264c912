import Glibc
import Platform
import Synchronization

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

/// A handler that does what a test says, and counts.
final class ClosureHandler: EventHandler {
    private(set) var events: [ReadyEvents] = []
    private let body: (ReadyEvents) -> Void

    init(_ body: @escaping (ReadyEvents) -> Void = { _ in }) {
        self.body = body
    }

    func ready(_ events: ReadyEvents) {
        self.events.append(events)
        body(events)
    }
}

/// Something that happened, told from one thread to another.
final class Flag: Sendable {
    private let raised = Atomic<Bool>(false)
    private let monitor = Monitor()

    func raise() {
        raised.store(true, ordering: .releasing)
        monitor.withLock { monitor.signal() }
    }

    var isRaised: Bool { raised.load(ordering: .acquiring) }

    /// Returns when it is raised.
    func wait() {
        monitor.withLock {
            while !isRaised { monitor.wait() }
        }
    }
}

/// Two connected sockets inside the machine, non-blocking, closed at the end.
final class SocketPair {
    let near: Int32
    let far: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw NoSocketPair(errno: errno) }
        (near, far) = (ends[0], ends[1])
    }

    deinit {
        close(near)
        close(far)
    }

    struct NoSocketPair: Error {
        let errno: Int32
    }

    /// Makes `near` readable.
    func sayOne() {
        _ = write(far, [1] as [UInt8], 1)
    }
}
