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

    /// Says a line. For any thread; does not block once the log's own thread runs.
    ///
    /// - Parameters:
    ///   - topic: what kind of line it is.
    ///   - text: the line, without its time.
    ///   - fields: what it is about, for logs that programs read.
    public func write(_ topic: LogTopics, _ text: String, _ fields: LogFields? = nil) {
        guard topics.contains(topic) else { return }
        writer.write(LogLine(topic, text, fields: fields))
    }

    /// Says why the broker ends.
    public func complain(_ text: String) {
        for line in text.split(separator: "\n") { write(.error, String(line)) }
    }

    /// Goes on with other sinks and topics.
    package func go(on sinks: [any LogSink], _ topics: LogTopics) {
        writer.replace(sinks + [ring])
        choose(topics)
    }

    /// Says lines of these kinds only, until another configuration is applied.
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
