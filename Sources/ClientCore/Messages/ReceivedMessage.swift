public import MQTTCodec

/// A message that the server sent. Its topic is whole, also where an alias stood for it.
public struct ReceivedMessage: Hashable, Sendable {
    public var topic: TopicName
    public var payload: Payload
    public var qos: QoS
    /// Whether the server kept it before this client subscribed; of subscriptions with Retain As Published, whether it was published so.
    public var retain: Bool
    /// Whether the server may have sent it before.
    public var duplicate: Bool
    /// What `ClientSession.acknowledge` wants to know; nil at QoS 0.
    public var token: AcknowledgementToken?
    /// The first Subscription Identifier that came with it, 0 for none. Where a server sends one message for several subscriptions, the others
    /// stand in the properties.
    public var subscriptionIdentifier: UInt32 = 0
    private var box: PropertyBox

    public init(
        topic: TopicName, payload: Payload, qos: QoS, retain: Bool, duplicate: Bool, token: AcknowledgementToken?
    ) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        (self.duplicate, self.token) = (duplicate, token)
        box = PropertyBox(())
    }

    public var properties: Properties {
        get { box.value }
        set { box.value = newValue }
    }

    /// Whether it has any property.
    public var hasProperties: Bool { !box.isEmpty }
}

/// Which message of the server is meant: no other of the session object's life has the same.
public struct AcknowledgementToken: Hashable, Sendable {
    /// The serial number of the message, and in the lowest 16 bits its packet identifier.
    let number: UInt64

    package init(number: UInt64) { self.number = number }

    init(_ packetIdentifier: UInt16, serial: UInt64) { number = serial << 16 | UInt64(packetIdentifier) }

    /// The packet identifier under which the message came. The server uses it again for others when the message is acknowledged.
    public var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: number) }
}

/// Tokens of messages that the server may forget, for they are in the client's store: the highest bit, 20 bits for the subscription, and
/// the message's number there.
extension AcknowledgementToken {
    package init(stored number: UInt64, for subscription: UInt32) {
        self.number = 1 << 63 | UInt64(subscription & 0xf_ffff) << 43 | (number & 0x7ff_ffff_ffff)
    }

    /// Whether the message is in the store.
    package var isStored: Bool { number >> 63 == 1 }

    /// The number of a message that is in the store for that subscription.
    package func storedNumber(for subscription: UInt32) -> UInt64? {
        guard isStored, UInt32(truncatingIfNeeded: number >> 43) & 0xf_ffff == subscription & 0xf_ffff else { return nil }
        return number & 0x7ff_ffff_ffff
    }
}
