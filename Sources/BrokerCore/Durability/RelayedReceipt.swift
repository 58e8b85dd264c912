/// Names a QoS 2 message that a client of another shard has sent, and what came of it here.
///
/// Each shard makes its part of a message durable by itself. So each that took one remembers it until the client has released it: sent
/// again after a crash, the message is taken by the shards that had lost it and by no other. [MQTT-4.3.3-10 v5]
public struct RelayedReceipt: Hashable, Sendable {
    public enum Part: UInt64, Sendable {
        /// It was routed to the shard's subscribers.
        case routed = 0
        /// It was kept as the retained message of its topic.
        case retained = 1
    }

    /// The client's receipt and, in the highest bit, the part.
    let rawValue: UInt64

    init(_ receipt: UInt64, _ part: Part) { rawValue = receipt | part.rawValue << 63 }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let value = reader.read(UInt64.self), reader.isAtEnd, StoredReceipt(key: value & ~(1 << 63)) != nil else {
            return nil
        }
        rawValue = value
    }

    /// What the client's own shard calls it.
    var receipt: UInt64 { rawValue & ~(1 << 63) }
    /// The key of the client's session.
    public var session: UInt64 { receipt >> 16 }
    public var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: receipt) }
    public var part: Part { rawValue >> 63 == 1 ? .retained : .routed }
}
