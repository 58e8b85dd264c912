public import MQTTCodec

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
