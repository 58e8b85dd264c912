import EpollLoop
import Glibc
import Platform
import ServerLoops
import Synchronization

/// The control thread's loop: hears the signals that the process is sent, and keeps the service manager's watch.
final class ControlLoop: LoopTurn, EventHandler, @unchecked Sendable {
    let events: EventLoop
    /// What the loops have to tell.
    let mailbox: Mailbox<ControlLoopMessage>
    /// Hears of it. To be set before `run`.
    var receive: ((ControlLoopMessage) -> Void)?
    private let signals: SignalSource
    private var tasks: [PeriodicTask] = []
    private var handle: ((ControlEvent) -> Void)?
    private var stopDeadlines = StopDeadlines()
    private let ended = Atomic<Int>(0)
    private var loopCount = 0
    private var watchIntervalMilliseconds: UInt64?
    private var nextWatch: UInt64 = 0

    init() throws(SystemError) {
        // Handled here, or without effect as SIGPIPE, which must never end a broker.
        signals = try SignalSource(signals: [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, Self.reopenSignal])
        events = try EventLoop(name: "control")
        mailbox = Mailbox(loop: events)
    }

    /// Hears signals until `loopCount` loops have ended.
    ///
    /// - Parameter watchIntervalMilliseconds: how often `handle` gets `.watch`; nil for never.
    func run(until loopCount: Int, watchIntervalMilliseconds: UInt64?, handle: @escaping (ControlEvent) -> Void) throws(SystemError)
    {
        self.loopCount = loopCount
        self.watchIntervalMilliseconds = watchIntervalMilliseconds
        self.handle = handle
        // Not in init: an epoll that heard of the signals before the process forked to the background is told of the parent's alone.
        _ = try events.register(signals.fileDescriptor, for: .readable, handler: self)
        events.run(self)
    }

    /// Does something every so often while it runs. To be called before `run`.
    func repeatEvery(_ milliseconds: UInt64, _ body: @escaping () -> Void) {
        let task = PeriodicTask(on: events, everyMilliseconds: milliseconds, body: body)
        tasks.append(task)
        task.start()
    }

    /// One of the broker's loops has returned. For any thread.
    func loopEnded() {
        ended.add(1, ordering: .acquiringAndReleasing)
        events.wake()
    }

    func ready(_ ready: ReadyEvents) {
        for signal in signals.read() {
            switch signal {
            case SIGINT, SIGTERM:
                if let event = stopDeadlines.signalled(signal, now: events.nowMilliseconds) { handle?(event) }
            case SIGHUP: handle?(.reload)
            case SIGUSR1: handle?(.save)
            case SIGUSR2: handle?(.listSubscriptions)
            case Self.reopenSignal: handle?(.reopenLogs)
            default: continue
            }
        }
    }

    func beginTurn(now: UInt64) { mailbox.drain { receive?($0) } }

    func endOfTurn(now: UInt64) -> UInt64? {
        if ended.load(ordering: .acquiring) == loopCount { events.stop() }
        if let event = stopDeadlines.due(now: now) { handle?(event) }
        guard let watchIntervalMilliseconds else { return stopDeadlines.next }
        if now >= nextWatch {
            nextWatch = now + watchIntervalMilliseconds
            handle?(.watch)
        }
        return min(nextWatch, stopDeadlines.next ?? .max)
    }

    /// SIGRTMIN, which the C library numbers at run time.
    private static let reopenSignal = __libc_current_sigrtmin()
}
