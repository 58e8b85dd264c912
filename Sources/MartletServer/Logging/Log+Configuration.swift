import BrokerModel
public import Configuration
import Platform
public import ServerLoops

extension Log {
    /// The log that a configuration asks for. Throws when a file cannot be opened.
    public convenience init(_ configuration: LoggingConfiguration) throws(ServerError) {
        let outlet = LogOutlet()
        let sinks = try Self.sinks(for: configuration, outlet)
        do throws(SystemError) {
            try self.init(sinks: sinks, topics: Self.topics(of: configuration), outlet: outlet)
        } catch {
            throw .system(error)
        }
    }

    /// Goes on as another configuration asks. Throws, and goes on as before, when a file cannot be opened.
    func apply(_ configuration: LoggingConfiguration) throws(ServerError) {
        go(on: try Self.sinks(for: configuration, outlet), Self.topics(of: configuration))
    }

    private static func sinks(for configuration: LoggingConfiguration, _ outlet: LogOutlet) throws(ServerError) -> [any LogSink] {
        let layout = LogLayout(configuration)
        var sinks: [any LogSink] = []
        for destination in configuration.destinations {
            switch destination {
            case .standardOutput: sinks.append(DescriptorLog(descriptor: 1, layout: layout.shown(on: 1)))
            case .standardError: sinks.append(DescriptorLog(descriptor: 2, layout: layout.shown(on: 2)))
            case .syslog: sinks.append(SystemLog(localFacility: configuration.syslogLocalFacility, layout: layout))
            case .topic: sinks.append(TopicLog(layout: layout, outlet: outlet))
            case .file(let path): sinks.append(try file(path, layout))
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

    private static func file(_ path: String, _ layout: LogLayout) throws(ServerError) -> FileLog {
        do throws(LogFileError) {
            return try FileLog(path: path, layout: layout)
        } catch {
            throw .logFile(path: error.path, reason: error.reason)
        }
    }
}
