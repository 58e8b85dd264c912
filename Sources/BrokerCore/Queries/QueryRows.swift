public import MQTTCodec

/// A subscription of a session.
public struct SubscriptionRow: Hashable, Sendable {
    public let clientIdentifier: EncodedString
    /// As topics are called inside the broker, without `$share` and the group's name.
    public let filter: [UInt8]
    /// The name of the share group; nil for none.
    public let shareName: EncodedString?
    public let options: SubscriptionOptions
    /// 0 for none.
    public let identifier: UInt32

    init(_ session: Session, _ filter: [UInt8], shareName: EncodedString?, _ terms: SubscriptionTerms) {
        (clientIdentifier, self.filter, self.shareName) = (session.clientIdentifier, filter, shareName)
        // When retained messages go out is nothing that a subscription remembers.
        options = SubscriptionOptions(
            maximumQoS: terms.maximumQoS, noLocal: terms.noLocal, retainAsPublished: terms.retainAsPublished)
        identifier = terms.identifier
    }
}

/// A retained message, without its content.
public struct RetainedRow: Hashable, Sendable {
    public let topic: [UInt8]
    public let qos: QoS
    public let payloadBytes: Int
    /// When it expires, in milliseconds on the shard's clock; nil for never.
    public let expiresAt: UInt64?
    /// Who published it; nil for the broker itself, or where nobody asked.
    public let publisher: EncodedString?

    init(_ message: Message) {
        (topic, qos, payloadBytes) = (Array(message.topic), message.qos, message.payload.count)
        expiresAt = message.expiresAt == Message.neverExpires ? nil : message.expiresAt
        publisher = message.source?.clientIdentifier
    }
}

/// A retained message, with its content.
public struct RetainedContent: Sendable {
    public let row: RetainedRow
    /// As a client would get it.
    public let packet: PublishPacket
}

/// A message that a session has still to receive.
public struct QueueRow: Hashable, Sendable {
    public enum State: Sendable {
        /// It is sent when those before it are, and the client's window has room.
        case waiting
        /// The same, and only the store has it: what it says is not known here.
        case stored
        /// Sent, and not acknowledged.
        case sent
        /// Of QoS 2: the client has it, and PUBCOMP is awaited.
        case released
    }

    /// From the queue's head, 0 first; vacant places are left out.
    public let position: Int
    public let state: State
    /// As topics are called inside the broker; nil where the message is not in memory.
    public let topic: [UInt8]?
    public let qos: QoS
    public let retain: Bool
    /// Of topic, properties and payload; 0 once the client has the message.
    public let byteCount: Int
    /// 0 for none yet.
    public let packetIdentifier: UInt16
    /// Since the broker took it, or has read it from its store, in milliseconds; nil where the message is not in memory.
    public let ageMilliseconds: UInt64?
    /// When it expires, in milliseconds on the shard's clock; nil for never, or where the message is not in memory.
    public let expiresAt: UInt64?
    /// If it was asked for, and is in memory.
    public let payload: [UInt8]?
}

/// A level of topics and topic filters below some others.
public struct TopicLevelRow: Hashable, Sendable {
    public let name: [UInt8]
    /// Subscriptions of the shard's sessions whose filter has the level, at it and below it.
    public var subscriptions = 0
    /// Retained messages of the shard at the level and below it.
    public var retainedMessages = 0
    /// Whether there is anything below it.
    public var hasMoreLevels = false
}
