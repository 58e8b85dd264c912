public import MQTTCodec

/// A message that did not get where it was going.
public struct DropRow: Hashable, Sendable {
    /// Milliseconds on the shard's clock.
    public package(set) var at: UInt64
    /// The first 256 bytes of it.
    public package(set) var topic: [UInt8]
    /// Whom it concerns: its receiver, or its publisher where nobody else was to get it; nil for nobody. A long name is cut.
    public package(set) var clientIdentifier: EncodedString?
    public package(set) var reason: DropReason
    public package(set) var qos: QoS
    /// Of topic, properties and payload.
    public package(set) var byteCount: Int

    package init(
        at: UInt64, topic: [UInt8], clientIdentifier: EncodedString? = nil, reason: DropReason, qos: QoS, byteCount: Int
    ) {
        self.at = at
        self.topic = topic
        self.clientIdentifier = clientIdentifier
        self.reason = reason
        self.qos = qos
        self.byteCount = byteCount
    }
}

/// What was dropped on a shard.
public struct DropReport: Sendable {
    /// The last ones, last first: at most 100.
    public let last: [DropRow]
    /// By the first two levels of their topics, most first: at most 256 prefixes.
    public let byPrefix: [(prefix: [UInt8], drops: DropCounts)]
    /// Of other prefixes, which came when so many were known.
    public let ofOtherPrefixes: DropCounts
    /// By listener of the client that they concern, an index into `BrokerSettings.listeners`.
    public let byListener: [DropCounts]

    package init(
        last: [DropRow], byPrefix: [(prefix: [UInt8], drops: DropCounts)], ofOtherPrefixes: DropCounts, byListener: [DropCounts]
    ) {
        self.last = last
        self.byPrefix = byPrefix
        self.ofOtherPrefixes = ofOtherPrefixes
        self.byListener = byListener
    }
}
