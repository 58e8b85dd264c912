public import BrokerModel
public import MQTTCodec

/// What a client has published below `$CONTROL/`: a request to the broker itself, which nobody else gets. It may publish there.
public struct ControlMessage: Sendable {
    /// Where it was published; the answer goes to this topic with `/response` behind it.
    public let topic: TopicName
    public let payload: [UInt8]
    /// The client that asks.
    public let clientIdentifier: EncodedString
    public let userName: EncodedString?
    public let info: ConnectionInfo
    /// The shard that is told when it has been answered.
    public let shard: Int
}
