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

    package init(
        clientIdentifier: EncodedString, filter: [UInt8], shareName: EncodedString?, options: SubscriptionOptions,
        identifier: UInt32
    ) {
        self.clientIdentifier = clientIdentifier
        self.filter = filter
        self.shareName = shareName
        self.options = options
        self.identifier = identifier
    }
}

/// A retained message, without its content.
public struct RetainedRow: Hashable, Sendable {
    public let topic: [UInt8]
    public let qos: QoS
    public let payloadBytes: Int
    /// When it expires, in milliseconds on the shard's clock; nil for never.
    public let expiresAt: UInt64?
    /// The client that published it; nil for the broker itself, or where nobody asked.
    public let publisher: EncodedString?

    package init(
        topic: [UInt8], qos: QoS, payloadBytes: Int, expiresAt: UInt64?, publisher: EncodedString?
    ) {
        self.topic = topic
        self.qos = qos
        self.payloadBytes = payloadBytes
        self.expiresAt = expiresAt
        self.publisher = publisher
    }
}

/// A retained message, with its content.
public struct RetainedContent: Sendable {
    public let row: RetainedRow
    /// As a client would get it.
    public let packet: PublishPacket

    package init(
        row: RetainedRow, packet: PublishPacket
    ) {
        self.row = row
        self.packet = packet
    }
}

/// A message that a session has still to receive.
public struct QueueRow: Hashable, Sendable {
    public enum State: Sendable {
        /// The message is sent when those before it are, and the client's window has room.
        case waiting
        /// The message waits so, and only the store has it: its content is not known here.
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

    package init(
        position: Int, state: State, topic: [UInt8]?, qos: QoS, retain: Bool, byteCount: Int, packetIdentifier: UInt16,
        ageMilliseconds: UInt64?, expiresAt: UInt64?, payload: [UInt8]?
    ) {
        self.position = position
        self.state = state
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.byteCount = byteCount
        self.packetIdentifier = packetIdentifier
        self.ageMilliseconds = ageMilliseconds
        self.expiresAt = expiresAt
        self.payload = payload
    }
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

    package init(
        name: [UInt8], subscriptions: Int = 0, retainedMessages: Int = 0, hasMoreLevels: Bool = false
    ) {
        self.name = name
        self.subscriptions = subscriptions
        self.retainedMessages = retainedMessages
        self.hasMoreLevels = hasMoreLevels
    }
}
