/// PUBLISH with its own copy of everything; `PublishView` is the one for the way of a message.
public struct PublishPacket: Hashable, Sendable {
    /// Empty where a topic alias alone names the topic.
    public var topic: EncodedString
    /// Nil at QoS 0, not zero otherwise.
    public var packetIdentifier: UInt16?
    public var qos: QoS
    public var retain: Bool
    public var duplicate: Bool
    public var properties: Properties
    public var payload: [UInt8]

    public init(
        topic: EncodedString, packetIdentifier: UInt16? = nil, qos: QoS = .atMostOnce, retain: Bool = false,
        duplicate: Bool = false,
        properties: Properties = Properties(), payload: [UInt8] = []
    ) {
        self.topic = topic
        self.packetIdentifier = packetIdentifier
        self.qos = qos
        self.retain = retain
        self.duplicate = duplicate
        self.properties = properties
        self.payload = payload
    }
}
