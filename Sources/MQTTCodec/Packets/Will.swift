/// The message that the server publishes when the client goes without a word.
public struct Will: Hashable, Sendable {
    public var topic: TopicName
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    public var properties: Properties

    public init(
        topic: TopicName, payload: [UInt8] = [], qos: QoS = .atMostOnce, retain: Bool = false, properties: Properties = Properties()
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
    }
}
