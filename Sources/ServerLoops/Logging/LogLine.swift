public import BrokerModel
import Glibc

/// One line of the log before it has a shape: what it is about, when it was said, and its text.
public struct LogLine: Sendable {
    public let topic: LogTopics
    public let text: String
    /// Since 1970.
    public let seconds: Int
    public let nanoseconds: Int
    /// What it is about, for logs that programs read; nil for nothing in particular.
    public let fields: LogFields?

    public init(_ topic: LogTopics, _ text: String, seconds: Int, nanoseconds: Int = 0, fields: LogFields? = nil) {
        self.topic = topic
        self.text = text
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.fields = fields
    }

    /// A line that is said now.
    package init(_ topic: LogTopics, _ text: String, fields: LogFields? = nil) {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        self.init(topic, text, seconds: now.tv_sec, nanoseconds: now.tv_nsec, fields: fields)
    }

    /// This line with what could look like another one escaped.
    var escaped: LogLine { LogLine(topic, LogEscape.escaped(text), seconds: seconds, nanoseconds: nanoseconds, fields: fields) }

    /// What a full queue counts it as.
    package var byteCount: Int { text.utf8.count + (fields == nil ? 64 : 1024) }
}
