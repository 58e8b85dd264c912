public import BrokerCore

/// Where log lines go. Called from any thread, a few times a second; only `debug` lines come with every packet.
public protocol LogSink: AnyObject, Sendable {
    func write(_ topic: LogTopics, _ text: String)
}
