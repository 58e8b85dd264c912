public import MQTTCodec

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
