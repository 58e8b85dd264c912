/// A message that came for a subscription.
public struct Message: Sendable {
    /// What the server sent.
    public let received: ReceivedMessage
    private let pipe: MessagePipe

    init(_ received: ReceivedMessage, _ pipe: MessagePipe) { (self.received, self.pipe) = (received, pipe) }

    /// The topic that it was published to.
    public var topic: TopicName { received.topic }
    /// Its bytes.
    public var payload: Payload { received.payload }
    /// The QoS at which it came: the lower of the publisher's and the subscription's.
    public var qos: QoS { received.qos }
    /// Whether the server kept it before this client subscribed; of subscriptions with Retain As Published, whether it was published so.
    public var retain: Bool { received.retain }
    /// Whether the server may have sent it before.
    public var duplicate: Bool { received.duplicate }
    /// Its properties; none before MQTT 5.0.
    public var properties: Properties { received.properties }

    /// Lets the server forget the message: PUBACK or PUBREC, in its turn. For subscriptions that acknowledge `.whenDone`; a second call
    /// does nothing, nor does one for a message of QoS 0.
    public func done() { pipe.settle(received, .success) }

    /// Tells the server that the message was not processed, and why; it sends it no more. Before MQTT 5.0 the same as `done()`.
    public func refuse(_ reason: ReasonCode) { pipe.settle(received, reason) }
}

extension Message: CustomStringConvertible {
    /// Topic and payload, as `martlet sub -v` has them.
    public var description: String { "\(topic) \(payload)" }
}
