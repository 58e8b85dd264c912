import MQTTCodec

/// What stands before each message in a `ShardMessageBatch`: 32 bytes, for what goes from one core to another is paid
/// for by the line.
struct ShardMessageHeader: BitwiseCopyable {
    enum Kind: UInt8 {
        /// A shard message that is no publication stands in this place; no bytes follow.
        case shardMessage
        /// Route the message to this shard's subscribers.
        case publish
        /// Route the message to those of this shard's subscribers whose sessions end with their connection: the others
        /// get it out of the cluster's log. To the cluster: log it.
        case passing
        /// Deliver the message to the session that a share group chose.
        case shared
        /// Keep (or with an empty payload remove) the retained message, and route it to those that the publisher's shard did not know.
        case retain
        /// Route the message unless a newer one of its topic has come: it went by way of the shard that keeps the topic.
        case detoured
        /// Deliver a retained message to the session that subscribed.
        case retained
        /// The cluster's retained message of a topic, in the order of its stream: keep it, unless the topic has changed since.
        case settled
    }

    let kind: Kind
    let qos: UInt8
    let retain: Bool
    /// Whether a `ShardMessageDetail` follows.
    let hasDetail: Bool
    let topicLength: UInt16
    /// `Publication.mustArrive`
    let mustArrive: Bool
    /// Whether it is in a cluster's log.
    let isLogged: Bool
    let propertiesLength: UInt32
    let payloadLength: UInt32
    let expiresAt: UInt64
    let publisher: UInt64

    /// The place of a shard message.
    static let shardMessage = ShardMessageHeader()

    private init() {
        (kind, qos, retain, hasDetail) = (.shardMessage, 0, false, false)
        (topicLength, mustArrive, isLogged, propertiesLength) = (0, false, false, 0)
        (payloadLength, expiresAt, publisher) = (0, .max, 0)
    }

    init(kind: Kind, _ publication: borrowing Publication, hasDetail: Bool) {
        self.kind = kind
        qos = publication.qos.rawValue
        retain = publication.retain
        self.hasDetail = hasDetail
        topicLength = UInt16(publication.topic.count)
        mustArrive = publication.mustArrive
        isLogged = publication.lane != .all
        propertiesLength = UInt32(publication.properties.count)
        payloadLength = UInt32(publication.payload.count)
        expiresAt = publication.expiresAt
        publisher = publication.publisher
    }
}
