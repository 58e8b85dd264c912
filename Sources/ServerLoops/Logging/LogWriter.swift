import BrokerCore
import BrokerModel
import EpollLoop
import Glibc
import Platform
import Synchronization

/// Writes lines on a thread of its own, so that a slow disk or terminal never holds up a loop.
///
///     idle ──start──► running ──end──► idle
///
/// Idle, a line is written by the thread that says it: before the first loop runs and after the last one. Running, lines wait in a
/// mailbox of at most `waitingBytesMax`; beyond that they are dropped, counted, and the count is told. The lock protects the sinks.
final class LogWriter: LoopTurn, @unchecked Sendable {
    private let events: EventLoop
    private let mailbox: Mailbox<LogLine>
    private let isRunning = Atomic<Bool>(false)
    private let hasReturned = Atomic<Bool>(false)
    private let waitingBytes = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let sinks: Locked<[any LogSink]>
    private var thread: NamedThread?

    init(sinks: sending [any LogSink]) throws(SystemError) {
        self.sinks = Locked(sinks)
        events = try EventLoop(name: "log")
        mailbox = Mailbox(loop: events)
    }

    /// Takes a line. For any thread.
    func write(_ line: LogLine) {
        guard isRunning.load(ordering: .acquiring) else {
            sinks.withLock { sinks in
                Self.emit(line, sinks)
                Self.flush(sinks)
            }
            return
        }
        guard waitingBytes.load(ordering: .relaxed) + line.byteCount <= Limits.waitingLogBytesMax else {
            dropped.add(1, ordering: .relaxed)
            return
        }
        waitingBytes.add(line.byteCount, ordering: .relaxed)
        mailbox.post(line)
    }

    /// Starts the thread. Not before the process has gone to the background: only one thread survives that.
    func start() throws(SystemError) {
        thread = try NamedThread.start(name: "martlet-log") { [self] in
            events.run(self)
            hasReturned.store(true, ordering: .releasing)
        }
        isRunning.store(true, ordering: .releasing)
    }

    /// Writes what waits and ends the thread. Gives up after `milliseconds`: nobody may read the pipe that we write to.
    func end(within milliseconds: Int) {
        guard isRunning.exchange(false, ordering: .acquiringAndReleasing) else { return }
        events.stop()
        for _ in 0..<milliseconds where !hasReturned.load(ordering: .acquiring) { usleep(1000) }
        guard hasReturned.load(ordering: .acquiring) else { return }
        thread?.join()
        drain()
    }

    /// Puts other sinks in place; those that there were have written what they were given.
    func replace(_ sinks: [any LogSink]) {
        self.sinks.withLock { current in
            Self.flush(current)
            current = sinks
        }
    }

    /// Opens every file anew. Returns what went wrong.
    func reopen() -> [LogFileError] {
        sinks.withLock { sinks in
            var errors: [LogFileError] = []
            for sink in sinks {
                do throws(LogFileError) {
                    try sink.reopen()
                } catch {
                    errors.append(error)
                }
            }
            return errors
        }
    }

    func give(to user: uid_t, group: gid_t) {
        sinks.withLock { sinks in for sink in sinks { sink.give(to: user, group: group) } }
    }

    func beginTurn(now: UInt64) { drain() }

    func endOfTurn(now: UInt64) -> UInt64? { nil }

    private func drain() {
        mailbox.drain { line in
            waitingBytes.subtract(line.byteCount, ordering: .relaxed)
            sinks.withLock { Self.emit(line, $0) }
        }
        let lost = dropped.exchange(0, ordering: .relaxed)
        sinks.withLock { sinks in
            if lost > 0 {
                Self.emit(LogLine(.warning, "Warning: \(lost) log lines were dropped: the log was not written fast enough."), sinks)
            }
            Self.flush(sinks)
        }
    }

    /// The one way to the sinks: whatever is in a line, it stays one.
    private static func emit(_ line: LogLine, _ sinks: [any LogSink]) {
        let line = line.escaped
        for sink in sinks { sink.write(line) }
    }

    private static func flush(_ sinks: [any LogSink]) {
        for sink in sinks { sink.flush() }
    }
}
