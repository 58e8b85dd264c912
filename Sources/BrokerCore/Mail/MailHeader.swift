import MQTTCodec

/// What stands before each message in a `MailBatch`.
struct MailHeader: BitwiseCopyable {
    enum Kind: UInt8 {
        /// A parcel stands in this place; no bytes follow.
        case parcel
        /// Route the message to this shard's subscribers.
        case publish
        /// Deliver the message to the session that a share group chose.
        case shared
        /// Keep (or with an empty payload remove) the retained message, and route it to those that the publisher's shard did not know.
        case retain
        /// Route the message unless a newer one of its topic has come: it went by way of the shard that keeps the topic.
        case detoured
        /// Deliver a retained message to the session that subscribed.
        case retained
    }

    var kind: Kind
    var qos: UInt8 = 0
    var retain = false
    var topicLength: UInt16 = 0
    var propertiesLength: UInt32 = 0
    var payloadLength: UInt32 = 0
    var expiresAt: UInt64 = .max
    var publisher: UInt64 = 0
    /// For `.shared` and `.retained`: the session, the terms of its subscription, and the group.
    var sessionIndex: UInt32 = 0
    var sessionKey: UInt64 = 0
    var terms: UInt32 = 0
    var group: UInt32 = 0
    /// For `.retained`: the stamp of the query. For `.shared`: stands for the group's name and filter.
    var stamp: UInt64 = 0
    /// For `.retain`: the shards that have the message already, a bit each. For `.retained`: the scan it came from.
    var shards: UInt64 = 0
    /// For `.publish`, `.shared` and `.retain`: names a QoS 2 message that must be taken once; 0 for any other.
    var receipt: UInt64 = 0

    init(kind: Kind) { self.kind = kind }

    init(kind: Kind, _ publication: borrowing Publication) {
        self.kind = kind
        qos = publication.qos.rawValue
        retain = publication.retain
        topicLength = UInt16(publication.topic.count)
        propertiesLength = UInt32(publication.properties.count)
        payloadLength = UInt32(publication.payload.count)
        expiresAt = publication.expiresAt
        publisher = publication.publisher
        receipt = publication.receipt
    }
}
