import BrokerCore
public import BrokerModel
package import Glibc
package import Platform
import Synchronization

/// The broker's log: which lines are wanted, and the places they go to. Both may change while the broker runs.
public final class Log: Sendable {
    private let wanted: Atomic<UInt16>
    private let writer: LogWriter
    /// Where lines for `log_dest topic` leave.
    package let outlet: LogOutlet
    /// The last lines.
    package let ring = LogRing()

    /// - Parameters:
    ///   - sinks: where lines go, beside the last ones, which are kept.
    ///   - topics: which lines are wanted.
    ///   - outlet: by which a sink publishes lines.
    package init(sinks: sending [any LogSink], topics: LogTopics, outlet: LogOutlet) throws(SystemError) {
        self.outlet = outlet
        wanted = Atomic(topics.rawValue)
        writer = try LogWriter(sinks: sinks + [ring])
    }

    public var topics: LogTopics { LogTopics(rawValue: wanted.load(ordering: .relaxed)) }

    /// Writes a line. For any thread; does not block once the log's own thread runs.
    ///
    /// - Parameters:
    ///   - topic: what kind of line it is.
    ///   - text: the line, without its time.
    ///   - fields: what it is about, for logs that programs read.
    public func write(_ topic: LogTopics, _ text: String, _ fields: LogFields? = nil) {
        guard topics.contains(topic) else { return }
        writer.write(LogLine(topic, text, fields: fields))
    }

    /// Writes why the broker ends.
    public func complain(_ text: String) {
        for line in text.split(separator: "\n") { write(.error, String(line)) }
    }

    /// Goes on with other sinks and topics.
    package func go(on sinks: [any LogSink], _ topics: LogTopics) {
        writer.replace(sinks + [ring])
        choose(topics)
    }

    /// Writes lines of these kinds only, until another configuration is applied.
    package func choose(_ topics: LogTopics) { wanted.store(topics.rawValue, ordering: .relaxed) }

    /// Opens the files anew, which somebody has moved away.
    package func reopen() {
        for error in writer.reopen() { write(.error, "\(error) The log file in use stays open.") }
    }

    /// Makes the files belong to the user that the broker becomes.
    package func give(to user: uid_t, group: gid_t) { writer.give(to: user, group: group) }

    package func start() throws(SystemError) { try writer.start() }

    /// Writes what waits, for at most that time.
    package func end(within milliseconds: Int) { writer.end(within: milliseconds) }
}

/// Publishes log lines in the broker, once it runs: lines before that are not published.
package final class LogOutlet: Sendable {
    package typealias Receiver = @Sendable (_ topic: String, _ text: String) -> Void

    private let receiver = Locked<Receiver?>(nil)

    package init() {}

    package func connect(to receiver: @escaping Receiver) { self.receiver.replace(with: receiver) }

    package func publish(_ topic: String, _ text: String) {
        receiver.value?(topic, text)
    }
}

/// The last lines of the log, for administrators. Filled on the log's own thread, read on any.
package final class LogRing: LogSink, Sendable {
    private struct Lines {
        package var lines = KeptLogLines()
        var receiver: (@Sendable (LogLine) -> Void)?
    }

    private let content = Locked(Lines())

    package func write(_ line: LogLine) {
        let receiver = content.withLock { content -> (@Sendable (LogLine) -> Void)? in
            content.lines.add(line)
            return content.receiver
        }
        receiver?(line)
    }

    /// The last ones, oldest first.
    package func last(_ count: Int) -> [LogLine] { content.withLock { $0.lines.last(count) } }

    /// Has every line handed on as it comes, on the log's thread; nil for no more.
    package func forward(to receiver: (@Sendable (LogLine) -> Void)?) { content.withLock { $0.receiver = receiver } }
}

/// The last lines of the log, packed one behind the other: a busy broker writes many, and few ever ask for them.
///
///     blocks:  [ line line line … ] [ line line … ]        the oldest block goes when it is not needed for `linesMax`, or bytes run out
///     line:    seconds 8 │ nanoseconds 4 │ topic 2 │ parts 1 │ text │ client? │ user? │ address? │ topic? │ reason?
///
/// A text is its length in four bytes, and its bytes; `parts` says which of the five are there, and whether there are
/// fields at all. Starts empty, and grows with use.
package struct KeptLogLines {
    private struct Block {
        package var bytes: [UInt8] = []
        package var count = 0

        /// The first one grows with use; the others will be full.
        init(isFirst: Bool) { if !isFirst { bytes.reserveCapacity(KeptLogLines.blockBytes + 1024) } }
    }

    private var blocks: [Block] = []
    private var count = 0
    private var byteCount = 0
    private let linesMax: Int
    private let bytesMax: Int

    init(linesMax: Int = Limits.keptLogLinesMax, bytesMax: Int = Limits.keptLogBytesMax) {
        (self.linesMax, self.bytesMax) = (linesMax, bytesMax)
    }

    /// Adds the newest one.
    package mutating func add(_ line: LogLine) {
        if blocks.last.map({ $0.bytes.count >= Self.blockBytes }) ?? true { blocks.append(Block(isFirst: blocks.isEmpty)) }
        let last = blocks.count - 1
        let before = blocks[last].bytes.count
        Self.write(line, to: &blocks[last].bytes)
        blocks[last].count += 1
        count += 1
        byteCount += blocks[last].bytes.count - before
        while let first = blocks.first, count - first.count >= linesMax || byteCount > bytesMax {
            count -= first.count
            byteCount -= first.bytes.count
            blocks.removeFirst()
        }
    }

    /// The newest ones, the oldest of them first; no more than are kept.
    package func last(_ countMax: Int) -> [LogLine] {
        var left = max(0, countMax)
        var lines: [LogLine] = []
        for block in blocks.reversed() where left > 0 {
            let read = Self.lines(of: block.bytes).suffix(left)
            left -= read.count
            lines = read + lines
        }
        return lines
    }

    private static func write(_ line: LogLine, to bytes: inout [UInt8]) {
        func write(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) } }
        func write(_ text: String) {
            var text = text
            text.withUTF8 {
                write(UInt32(clamping: $0.count))
                bytes.append(contentsOf: $0)
            }
        }
        write(Int64(line.seconds))
        write(Int32(clamping: line.nanoseconds))
        write(line.topic.rawValue)
        let parts = line.fields.map { [$0.client, $0.user, $0.address, $0.topic, $0.reason] } ?? []
        var present: UInt8 = line.fields == nil ? 0 : hasFields
        for (position, part) in parts.enumerated() where part != nil { present |= 1 << UInt8(position) }
        write(present)
        write(line.text)
        for case let part? in parts { write(part) }
    }

    private static func lines(of bytes: [UInt8]) -> [LogLine] {
        bytes.withUnsafeBytes { bytes in
            var (offset, lines) = (0, [LogLine]())
            func read<Number: FixedWidthInteger & BitwiseCopyable>(_: Number.Type) -> Number {
                defer { offset += MemoryLayout<Number>.size }
                return bytes.loadUnaligned(fromByteOffset: offset, as: Number.self)
            }
            func text() -> String {
                let count = Int(read(UInt32.self))
                defer { offset += count }
                return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
            }
            while offset < bytes.count {
                let (seconds, nanoseconds) = (read(Int64.self), read(Int32.self))
                let topic = LogTopics(rawValue: read(UInt16.self))
                let present = read(UInt8.self)
                let line = text()
                func part(_ position: UInt8) -> String? { present & 1 << position == 0 ? nil : text() }
                let parts = (part(0), part(1), part(2), part(3), part(4))
                let fields =
                    present & hasFields == 0
                    ? nil : LogFields(client: parts.0, user: parts.1, address: parts.2, topic: parts.3, reason: parts.4)
                lines.append(LogLine(topic, line, seconds: Int(seconds), nanoseconds: Int(nanoseconds), fields: fields))
            }
            return lines
        }
    }

    private static let hasFields: UInt8 = 1 << 7
    /// Some 200 lines.
    private static let blockBytes = 31 << 10
}

/// Writes lines on a thread of its own, so that a slow disk or terminal never holds up a loop.
///
///     idle ──start──► running ──end──► idle
///
/// Idle, a line is written by the thread that says it: before the first loop runs and after the last one. Running,
/// lines wait in a mailbox of at most `waitingBytesMax`; beyond that they are dropped, counted, and the count is told.
/// The lock protects the sinks.
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

/// A destination of log lines. Used by one thread at a time: the log's own, or whoever logs before it runs.
package protocol LogSink: AnyObject {
    /// Takes a line; it may wait in memory until `flush`.
    func write(_ line: LogLine)
    /// Lets go of what waits. May block as long as the place behind it does.
    func flush()
    /// Closes and opens the file anew, if it is one: somebody has moved it away.
    func reopen() throws(LogFileError)
    /// Makes the file belong to the user that the broker becomes, if it is one.
    func give(to user: uid_t, group: gid_t)
}

extension LogSink {
    package func flush() {}
    package func reopen() throws(LogFileError) {}
    package func give(to user: uid_t, group: gid_t) {}
}

/// A log file that cannot be opened, and why, as sentences without the last full stop.
package struct LogFileError: Error, CustomStringConvertible {
    package let path: String
    package let reason: String

    package var description: String { "Unable to open log file \(FullPath.of(path)) for writing: \(reason)." }

    package init(
        path: String, reason: String
    ) {
        self.path = path
        self.reason = reason
    }
}

extension Limits {
    /// Lines of the log that are kept for administrators; of those before them the oldest 31 KiB go together. Bytes:
    /// `keptLogBytesMax`.
    static let keptLogLinesMax = 4096

    /// Bytes of memory that they take; the oldest go for the next one.
    static let keptLogBytesMax = 4 << 20

    /// Bytes of lines that wait for a slow log; beyond them lines are dropped, and their number told.
    static let waitingLogBytesMax = 16 << 20
}
