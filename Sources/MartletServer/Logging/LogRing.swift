import BrokerCore
import Platform

/// The last lines of the log, for administrators. Filled on the log's own thread, read on any.
final class LogRing: LogSink, Sendable {
    private struct Lines {
        var lines = KeptLogLines()
        var receiver: (@Sendable (LogLine) -> Void)?
    }

    private let content = Locked(Lines())

    func write(_ line: LogLine) {
        let receiver = content.withLock { content -> (@Sendable (LogLine) -> Void)? in
            content.lines.add(line)
            return content.receiver
        }
        receiver?(line)
    }

    /// The last ones, oldest first.
    func last(_ count: Int) -> [LogLine] { content.withLock { $0.lines.last(count) } }

    /// Has every line handed on as it comes, on the log's thread; nil for no more.
    func forward(to receiver: (@Sendable (LogLine) -> Void)?) { content.withLock { $0.receiver = receiver } }
}
