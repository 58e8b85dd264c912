import BrokerCore
import Platform

/// The last lines of the log, for administrators. Filled on the log's own thread, read on any.
final class LogRing: LogSink, Sendable {
    private struct Lines {
        var lines: [LogLine] = []
        var next = 0
        var receiver: (@Sendable (LogLine) -> Void)?
    }

    private let content = Locked(Lines())

    func write(_ line: LogLine) {
        let receiver = content.withLock { content -> (@Sendable (LogLine) -> Void)? in
            if content.lines.count < Limits.keptLogLinesMax {
                content.lines.append(line)
            } else {
                content.lines[content.next] = line
                content.next = (content.next + 1) % content.lines.count
            }
            return content.receiver
        }
        receiver?(line)
    }

    /// The last ones, oldest first.
    func last(_ count: Int) -> [LogLine] {
        content.withLock { Array(($0.lines[$0.next...] + $0.lines[..<$0.next]).suffix(count)) }
    }

    /// Has every line handed on as it comes, on the log's thread; nil for no more.
    func forward(to receiver: (@Sendable (LogLine) -> Void)?) { content.withLock { $0.receiver = receiver } }
}
