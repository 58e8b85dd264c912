import BrokerCore
import Platform

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
