public import BrokerCore

/// The broker's log: which lines are wanted, and the sinks they go to.
public struct Log: Sendable {
    public let topics: LogTopics
    private let sinks: [any LogSink]

    public init(topics: LogTopics, sinks: [any LogSink]) {
        self.topics = sinks.isEmpty ? [] : topics
        self.sinks = sinks
    }

    public func write(_ topic: LogTopics, _ text: String) {
        guard topics.contains(topic) else { return }
        for sink in sinks { sink.write(topic, text) }
    }
}
