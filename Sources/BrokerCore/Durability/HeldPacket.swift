import BrokerModel
import MQTTCodec

/// Something that must not happen before the store has what it stands for: most often an acknowledgement to be sent. 24 bytes.
struct HeldPacket {
    enum Kind: UInt8 {
        case puback
        case pubrec
        case pubrel
        case pubcomp
        /// A QoS 2 PUBLISH, which waits for its packet identifier to be on the disk.
        case publish
        /// CONNACK and all behind it stand in the connection's output already, which is not flushed.
        case connack
        /// What share groups have chosen for a QoS 2 message of the client is durable: the members' shards may have it, and then, when it is
        /// durable there, the client its PUBREC.
        case deal
        /// The rest is a `HeldAnswer`.
        case answer

        /// Whether a `HeldAnswer` stands beside it.
        var hasAnswer: Bool { self == .answer || self == .deal }
    }

    /// The change of the journal that must be durable, it and all before.
    let sequence: UInt64
    let connection: ConnectionID
    let kind: Kind
    let reason: ReasonCode
    let packetIdentifier: UInt16
    /// When it was first held, in microseconds on the shard's clock: the lowest 32 bits, enough for an hour.
    let heldAt: UInt32

    init(
        _ kind: Kind, after sequence: UInt64, _ connection: ConnectionID, _ packetIdentifier: UInt16 = 0,
        _ reason: ReasonCode = .success, at heldAt: UInt32 = 0
    ) {
        self.sequence = sequence
        self.connection = connection
        self.kind = kind
        self.reason = reason
        self.packetIdentifier = packetIdentifier
        self.heldAt = heldAt
    }
}
