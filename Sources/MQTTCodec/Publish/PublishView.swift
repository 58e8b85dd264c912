/// A PUBLISH decoded where it lies: pointers into the frame and nothing allocated.
///
/// The pointers live as long as the frame's bytes do, so a view never outlives the call that made it; it is not Sendable.
public struct PublishView {
    /// The topic name; empty if only an alias is given.
    public let topic: UnsafeRawBufferPointer
    /// The packet identifier; 0 at QoS 0.
    public let packetIdentifier: UInt16
    public let qos: QoS
    public let retain: Bool
    public let duplicate: Bool
    public let payload: UnsafeRawBufferPointer
    /// The checked property bytes without their length; empty before MQTT 5.0.
    public let properties: UnsafeRawBufferPointer
    /// The topic alias; 0 if absent.
    public let topicAlias: UInt16
    /// In seconds.
    public let messageExpiryInterval: UInt32?
    public let payloadFormatIsUTF8: Bool
    public let hasSubscriptionIdentifiers: Bool
    /// How many bytes `copyForwardedProperties(to:)` copies: `properties` without Topic Alias, Message Expiry Interval and
    /// Subscription Identifiers.
    public let forwardedPropertiesLength: Int
}
