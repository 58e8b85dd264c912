import BrokerCore
import EpollLoop
import Glibc
import Synchronization

/// The control thread's loop: hears the signals that the process is sent.
///
/// The first SIGINT or SIGTERM asks for a graceful end, a second one ends the process at once.
final class ControlLoop: LoopTurn, EventHandler, @unchecked Sendable {
    private let events: EventLoop
    private let signals: SignalSource
    private let log: Log
    private var stop: (() -> Void)?
    private var isStopping = false
    private let ended = Atomic<Int>(0)
    private var loopCount = 0

    init(log: Log) throws(SystemError) {
        self.log = log
        // Handled here or by default without effect: SIGPIPE must never end a broker.
        signals = try SignalSource(signals: [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE])
        events = try EventLoop(name: "control")
        _ = try events.register(signals.fileDescriptor, for: .readable, handler: self)
    }

    /// Hears signals until `loopCount` loops have ended; calls `stop` for the first signal that asks for the end.
    func run(until loopCount: Int, stop: @escaping () -> Void) {
        self.loopCount = loopCount
        self.stop = stop
        events.run(self)
    }

    /// One of the broker's loops has returned. For any thread.
    func loopEnded() {
        ended.add(1, ordering: .acquiringAndReleasing)
        events.wake()
    }

    func ready(_ ready: ReadyEvents) {
        for signal in signals.read() {
            switch signal {
            case SIGINT, SIGTERM: endSignal(signal)
            case SIGHUP: log.write(.notice, "SIGHUP: reloading the configuration is not available in this version.")
            default: continue
            }
        }
    }

    func beginTurn(now: UInt64) {}

    func endOfTurn(now: UInt64) -> UInt64? {
        if ended.load(ordering: .acquiring) == loopCount { events.stop() }
        return nil
    }

    private func endSignal(_ signal: Int32) {
        guard !isStopping else {
            log.write(.notice, "Second signal: ending at once.")
            exit(128 + signal)
        }
        isStopping = true
        log.write(.notice, "Saying goodbye to all clients; a second signal ends at once.")
        stop?()
    }
}
