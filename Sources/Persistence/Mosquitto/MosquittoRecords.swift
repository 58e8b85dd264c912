public import MQTTCodec

/// A client whose session mosquitto kept.
public struct MosquittoClient: Equatable, Sendable {
    public var identifier: EncodedString
    /// Seconds that the session outlives its connection; `UInt32.max` for ever, which it is for every client before
    /// MQTT 5.0.
    public var sessionExpiryInterval: UInt32
    /// When the session ends, in seconds since 1970; nil for never, and while the client is connected.
    public var sessionEndsAt: UInt64?
    /// The packet identifier that the broker gave out last.
    public var lastPacketIdentifier: UInt16
    /// Nil for none, and where the file does not tell; `MosquittoDatabase` knows why that happens.
    public var userName: EncodedString?
    /// The port of the listener that the client came through; 0 for unknown.
    public var listenerPort: UInt16
}

/// A subscription of a client. mosquitto's own file has no shared ones, that of its plug-in has.
public struct MosquittoSubscription: Equatable, Sendable {
    public var client: EncodedString
    public var filter: TopicFilter
    public var maximumQoS: QoS
    public var noLocal: Bool
    public var retainAsPublished: Bool
    /// The Subscription Identifier, 0 for none.
    public var identifier: UInt32
}

/// A message that mosquitto kept, for one or more clients or as a retained one.
public struct MosquittoMessage: Equatable, Sendable {
    /// What the other records call it by.
    public var number: UInt64
    /// The Client Identifier of its publisher; empty for the broker.
    public var source: [UInt8]
    public var topic: TopicName
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    public var properties: Properties
    /// In seconds since 1970; nil for never.
    public var expiresAt: UInt64?
    /// Its publisher's; nil for none, or one that is no text.
    public var userName: EncodedString?
    /// The port of the listener that its publisher came by; 0 if it is not known.
    public var listenerPort: UInt16 = 0
}

/// How far a message has come to a client, or from it.
public struct MosquittoClientMessage: Equatable, Sendable {
    public enum Direction: UInt8, Sendable {
        case incoming
        case outgoing
    }

    /// mosquitto's own numbers. What it is about to do counts as done: only the disk knows what the client has seen.
    public enum State: UInt8, Sendable {
        case publishAtMostOnce = 1
        case publishAtLeastOnce
        case waitForPuback
        case publishExactlyOnce
        case waitForPubrec
        case resendPubrel
        case waitForPubrel
        case resendPubcomp
        case waitForPubcomp
        case sendPubrec
        case queued
    }

    public var client: EncodedString
    /// The number of its `MosquittoMessage`.
    public var message: UInt64
    /// 0 for QoS 0.
    public var packetIdentifier: UInt16
    public var qos: QoS
    public var retain: Bool
    public var isDuplicate: Bool
    public var direction: Direction
    public var state: State
    public var subscriptionIdentifiers: [UInt32]
}

/// The will of a client that has not said goodbye.
public struct MosquittoWill: Equatable, Sendable {
    public var client: EncodedString
    public var will: Will
    /// When it is published, in seconds since 1970; nil for a client that was connected.
    public var dueAt: UInt64?
}
