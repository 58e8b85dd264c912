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
    package init(_ topic: TopicName, _ payload: Payload, qos: QoS, retain: Bool) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        box = PropertyBox(())
    }

    public var properties: Properties {
        get { box.value }
        set { box.value = newValue }
    }

    /// When it is too old, if it was given at a time in milliseconds: by its Message Expiry Interval; `UInt64.max` for never.
    package func expiry(since time: UInt64) -> UInt64 {
        guard hasProperties, let seconds = properties.messageExpiryInterval else { return .max }
        return time + UInt64(seconds) * 1000
    }

    /// As it is to be sent now: what is left of its time is its Message Expiry Interval, in whole seconds, and at least 1.
    package func aged(to now: UInt64, expiresAt: UInt64) -> Publication {
        guard expiresAt != .max else { return self }
        var aged = self
        aged.properties.messageExpiryInterval = UInt32(clamping: max(1, (max(now, expiresAt) - now + 999) / 1000))
        return aged
    }

    /// Bytes of topic and payload.
    public var byteCount: Int { topic.bytes.count + payload.count }

    /// Whether it has any property.
    public var hasProperties: Bool { !box.isEmpty }
}
