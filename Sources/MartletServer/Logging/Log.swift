public import BrokerModel
public import Configuration
import Glibc
import Platform
import Synchronization

/// The broker's log: which lines are wanted, and the places they go to. Both may change while the broker runs.
public final class Log: Sendable {
    private let wanted: Atomic<UInt16>
    private let writer: LogWriter
    /// Where lines for `log_dest topic` leave.
    let outlet = LogOutlet()
    /// The last lines.
    let ring = LogRing()

    /// The log that a configuration asks for. Throws when a file cannot be opened.
    public init(_ configuration: LoggingConfiguration) throws(ServerError) {
        let sinks = try Self.sinks(for: configuration, outlet) + [ring]
        wanted = Atomic(Self.topics(of: configuration).rawValue)
        do throws(SystemError) {
            writer = try LogWriter(sinks: sinks)
        } catch {
            throw .system(error)
        }
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

    /// Goes on as another configuration asks. Throws, and goes on as before, when a file cannot be opened.
    func apply(_ configuration: LoggingConfiguration) throws(ServerError) {
        writer.replace(try Self.sinks(for: configuration, outlet) + [ring])
        wanted.store(Self.topics(of: configuration).rawValue, ordering: .relaxed)
    }

    /// Says lines of these kinds only, until another configuration is applied.
    func choose(_ topics: LogTopics) { wanted.store(topics.rawValue, ordering: .relaxed) }

    /// Opens the files anew, which somebody has moved away.
    func reopen() {
        for error in writer.reopen() { write(.error, "\(error) The log file in use stays open.") }
    }

    /// Makes the files belong to the user that the broker becomes.
    func give(to user: uid_t, group: gid_t) { writer.give(to: user, group: group) }

    func start() throws(SystemError) { try writer.start() }

    /// Writes what waits, for at most that time.
    func end(within milliseconds: Int) { writer.end(within: milliseconds) }

    private static func sinks(for configuration: LoggingConfiguration, _ outlet: LogOutlet) throws(ServerError) -> [any LogSink] {
        let layout = LogLayout(configuration)
        var sinks: [any LogSink] = []
        for destination in configuration.destinations {
            switch destination {
            case .standardOutput: sinks.append(DescriptorLog(descriptor: 1, layout: layout.shown(on: 1)))
            case .standardError: sinks.append(DescriptorLog(descriptor: 2, layout: layout.shown(on: 2)))
            case .syslog: sinks.append(SystemLog(localFacility: configuration.syslogLocalFacility, layout: layout))
            case .topic: sinks.append(TopicLog(layout: layout, outlet: outlet))
            case .file(let path): sinks.append(try FileLog(path: path, layout: layout))
            }
        }
        return sinks
    }

    private static func topics(of configuration: LoggingConfiguration) -> LogTopics {
        guard !configuration.destinations.isEmpty else { return [] }
        var topics: LogTopics = []
        let pairs: [(LogTypes, LogTopics)] = [
            (.error, .error), (.warning, .warning), (.notice, .notice), (.information, .information), (.debug, .debug),
            (.subscribe, .subscribe), (.unsubscribe, .unsubscribe), (.internal, .internalEvents),
            (.webSockets, .webSockets),
        ]
        for (type, topic) in pairs where configuration.types.contains(type) { topics.insert(topic) }
        return topics
    }
}
