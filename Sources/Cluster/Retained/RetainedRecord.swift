import Bytes
public import MQTTCodec

/// A change of a retained message as the stream has it, where it lies: the pointers are valid during the call that is
/// given it.
///
///     version 1 │ flags │ node 8 │ number │ [expires at] │ topic's length │ topic │ origin's length │ origin │ properties' length
///       │ properties │ payload
///
/// Flags: bits 0–1 QoS, 3 it expires. Without a payload the topic has no retained message any more.
public struct RetainedRecord {
    /// The node that has made the change, and the change's number among that node's.
    public var node: NodeID
    public var number: UInt64
    public var topic: UnsafeRawBufferPointer
    /// The message's publisher, in the words of the brokers.
    public var origin: UnsafeRawBufferPointer
    public var properties: UnsafeRawBufferPointer
    public var payload: UnsafeRawBufferPointer
    public var qos: QoS
    /// Milliseconds since 1970; nil for never. The nodes' clocks have to agree as far as expiry is to.
    public var expiresAt: UInt64?

    public init(
        node: NodeID, number: UInt64, topic: UnsafeRawBufferPointer, origin: UnsafeRawBufferPointer,
        properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS, expiresAt: UInt64? = nil
    ) {
        (self.node, self.number) = (node, number)
        (self.topic, self.origin) = (topic, origin)
        (self.properties, self.payload) = (properties, payload)
        (self.qos, self.expiresAt) = (qos, expiresAt)
    }

    /// For how many seconds the stream keeps it; nil for ever.
    ///
    /// - Parameter millisecondsLeft: of the message's life; nil for ever.
    public func secondsToLive(_ millisecondsLeft: UInt64?) -> UInt64? {
        payload.isEmpty ? Limits.retainedTombstoneSeconds : millisecondsLeft.map { $0 / 1000 + 1 }
    }

    private static let version: UInt8 = 1

    public func encoded() -> [UInt8] {
        var bytes = [Self.version, qos.rawValue | (expiresAt == nil ? 0 : 8)]
        bytes.reserveCapacity(topic.count + origin.count + properties.count + payload.count + 64)
        VariableInteger.append(fixed64: node.rawValue, to: &bytes)
        VariableInteger.append(number, to: &bytes)
        if let expiresAt { VariableInteger.append(expiresAt, to: &bytes) }
        for part in [topic, origin, properties] { VariableInteger.append(counted: part, to: &bytes) }
        bytes.append(contentsOf: payload)
        return bytes
    }

    /// Reads a record; nil if it is none, or of a version that this node does not know.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.version, let flags = reader.byte(), flags & 0b1111_0100 == 0,
            let qos = QoS(rawValue: flags & 3),
            let node = reader.fixed64(), let number = reader.integer(), number > 0
        else { return nil }
        if flags & 8 != 0 {
            guard let time = reader.integer() else { return nil }
            expiresAt = time
        }
        guard let topic = reader.counted(), TopicName.isLegal(topic), let origin = reader.counted(),
            let properties = reader.counted()
        else { return nil }
        (self.node, self.number, self.qos) = (NodeID(node), number, qos)
        (self.topic, self.origin, self.properties, payload) = (topic, origin, properties, reader.rest)
    }
}

extension Limits {
    /// How long the tombstone of a retained message that was deleted stays in the stream, in seconds.
    static let retainedTombstoneSeconds: UInt64 = 86_400
}
