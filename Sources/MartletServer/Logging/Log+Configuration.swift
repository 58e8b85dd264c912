import BrokerCore
public import Configuration

extension Log {
    /// The log that a configuration asks for.
    public init(_ configuration: LoggingConfiguration) {
        var sinks: [any LogSink] = []
        for destination in configuration.destinations {
            guard let descriptor = Self.descriptor(of: destination) else { continue }
            sinks.append(
                DescriptorLog(
                    descriptor: descriptor, hasTimestamp: configuration.hasTimestamp,
                    timestampFormat: configuration.timestampFormat))
        }
        self.init(topics: Self.topics(configuration.types), sinks: sinks)
    }

    private static func descriptor(of destination: LogDestination) -> Int32? {
        switch destination {
        case .standardOutput: 1
        case .standardError: 2
        case .syslog, .topic, .file: nil
        }
    }

    private static func topics(_ types: LogTypes) -> LogTopics {
        var topics: LogTopics = []
        let pairs: [(LogTypes, LogTopics)] = [
            (.error, .error), (.warning, .warning), (.notice, .notice), (.information, .information), (.debug, .debug),
            (.subscribe, .subscribe), (.unsubscribe, .unsubscribe), (.internal, .internalEvents),
        ]
        for (type, topic) in pairs where types.contains(type) { topics.insert(topic) }
        return topics
    }
}
