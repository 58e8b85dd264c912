public import MQTTCodec

/// What a local client's party is told, in order.
public enum LocalEvent: Sendable {
    /// The session is there; with a store, it is durable if it is to outlive the client. Until then nothing may be published.
    case connected(LocalConnection)
    /// Messages of its subscriptions, oldest first, to be acknowledged in this order.
    case messages([LocalMessage])
    /// What became of a message of the party's own: at QoS 1 and 2 what PUBACK or PUBREC would say, when they would say it; at QoS 0
    /// success as soon as the broker has it.
    case published(token: UInt64, ReasonCode)
    /// One code for each subscription, granted or refused, in the order in which they were asked for. Retained messages come behind it.
    case subscribed(token: UInt64, [ReasonCode])
    case unsubscribed(token: UInt64, [ReasonCode])
    /// Bytes that the broker sends to a client that relays: MQTT 5.0 packets one after the other, cut anywhere.
    case bytes([UInt8])
    /// The client is no more; the last of its events. What was not told an outcome has none: a message may have been taken or not.
    case closed(ReasonCode)
}

/// The session that a local client has found or made.
public struct LocalConnection: Hashable, Sendable {
    public var sessionPresent: Bool
    /// The packet identifiers of QoS 2 messages that the session has taken and that were not released when the client ended, in order:
    /// published again under the same identifier they are taken no second time. No other message gets one of these.
    public var unreleased: [UInt16]
}

/// A message of a local client's subscriptions.
public struct LocalMessage: Hashable, Sendable {
    /// Counts the messages handed to this client from 1 on: what it is acknowledged by.
    public let sequence: UInt64
    /// As the broker would send it. A QoS 1 message with `duplicate` set may have been handed to an earlier client of the session; a QoS 2
    /// message was if it has the packet identifier of one that the party had not acknowledged then.
    public let packet: PublishPacket
}

/// A message that a local client publishes.
public struct LocalPublication: Sendable {
    /// The packet identifier may be nil at any QoS: then one is chosen. Who must be able to publish a QoS 2 message again after a crash, and
    /// have it taken once, chooses it.
    public var packet: PublishPacket
    /// Names it in the event that tells its outcome; nil if none is wanted.
    public var token: UInt64?

    public init(_ packet: PublishPacket, token: UInt64? = nil) {
        self.packet = packet
        self.token = token
    }
}
