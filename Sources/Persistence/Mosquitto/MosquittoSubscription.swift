public import MQTTCodec

/// A subscription of a client. mosquitto does not write shared ones.
public struct MosquittoSubscription: Equatable, Sendable {
    public var client: EncodedString
    public var filter: TopicFilter
    public var maximumQoS: QoS
    public var noLocal: Bool
    public var retainAsPublished: Bool
    /// The Subscription Identifier, 0 for none.
    public var identifier: UInt32
}
