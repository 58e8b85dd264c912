public import MQTTCodec

/// A message to be published.
public struct Publication: Hashable, Sendable {
    public var topic: TopicName
    public var payload: Payload
    public var qos: QoS
    /// Whether the server keeps it for those who subscribe later. An empty payload removes what it keeps.
    public var retain: Bool
    private var box: PropertyBox

    /// - Parameters:
    ///   - topic: where it is published.
    ///   - payload: its bytes.
    ///   - qos: how often it arrives: at most, at least or exactly once.
    ///   - retain: whether the server keeps it for those who subscribe later.
    ///   - properties: Topic Alias and Subscription Identifiers are the library's, and left out. Before MQTT 5.0 none is sent.
    public init(
        _ topic: TopicName, _ payload: Payload = Payload(), qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        box = PropertyBox(properties)
    }

    /// As above, without looking for properties.
    public init(_ topic: TopicName, _ payload: Payload, qos: QoS, retain: Bool) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        box = PropertyBox(())
    }

    public var properties: Properties {
        get { box.value }
        set { box.value = newValue }
    }

    /// Bytes of topic and payload.
    public var byteCount: Int { topic.bytes.count + payload.count }

    /// Whether it has any property.
    public var hasProperties: Bool { !box.isEmpty }
}
