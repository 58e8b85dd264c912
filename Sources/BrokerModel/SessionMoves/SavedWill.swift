public import MQTTCodec

/// The will of a connection as the cluster has it, so that it is published whatever becomes of its node.
public struct SavedWill: Equatable, Sendable {
    /// Tells it from those of the other connections of its session.
    public var name: WillName
    /// In seconds.
    public var delayInterval: UInt32
    public var topic: [UInt8]
    /// The properties that travel unaltered, as in PUBLISH of MQTT 5.0, without their length.
    public var properties: [UInt8]
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    /// Seconds from when it is published; nil for ever.
    public var messageExpiryInterval: UInt32?
    /// Stands for its publisher's Client Identifier, on all nodes alike.
    public var publisher: UInt64
    /// If it is to be retained: whose it is.
    public var origin: [UInt8]

    public init(
        name: WillName, delayInterval: UInt32 = 0, topic: [UInt8], properties: [UInt8] = [], payload: [UInt8], qos: QoS,
        retain: Bool = false,
        messageExpiryInterval: UInt32? = nil, publisher: UInt64 = 0, origin: [UInt8] = []
    ) {
        (self.name, self.delayInterval, self.messageExpiryInterval) = (name, delayInterval, messageExpiryInterval)
        (self.topic, self.properties, self.payload) = (topic, properties, payload)
        (self.qos, self.retain) = (qos, retain)
        (self.publisher, self.origin) = (publisher, origin)
    }
}

/// Tells the will of a connection from those of the other connections of its session: later ones are greater.
public struct WillName: Hashable, Comparable, Sendable {
    /// By which claim the node kept the session that the client was connected to.
    public var epoch: UInt64
    /// Rises with the connections of a shard.
    public var number: UInt64

    /// That of a connection.
    public init(epoch: UInt64, number: UInt64) { (self.epoch, self.number) = (epoch, number) }

    public static func < (left: WillName, right: WillName) -> Bool { (left.epoch, left.number) < (right.epoch, right.number) }
}

/// Records of one partition of a cluster's log.
public struct LogSpan: Equatable, Sendable {
    public var partition: Int
    /// The number of the record before the first one.
    public var after: UInt64
    /// That of the last one.
    public var through: UInt64

    public init(partition: Int, after: UInt64, through: UInt64) {
        (self.partition, self.after, self.through) = (partition, after, through)
    }
}
