public import MQTTCodec

/// What one shard has counted of the messages of a topic filter, since somebody asked for it.
public struct TopicMeterRow: Hashable, Sendable {
    /// As topics are called inside the broker.
    public let filter: TopicFilter
    /// Messages that were published, and the bytes of their payloads.
    public package(set) var received: UInt64 = 0
    public package(set) var receivedBytes: UInt64 = 0
    /// The messages that were sent to subscribers, each counted for itself.
    public package(set) var sent: UInt64 = 0
    public package(set) var sentBytes: UInt64 = 0
    /// Messages that did not get where they were going, each receiver for itself.
    public package(set) var dropped: UInt64 = 0

    public init(_ filter: TopicFilter) { self.filter = filter }

    /// Adds what another shard has counted.
    public mutating func add(_ other: TopicMeterRow) {
        received &+= other.received
        receivedBytes &+= other.receivedBytes
        sent &+= other.sent
        sentBytes &+= other.sentBytes
        dropped &+= other.dropped
    }
}
