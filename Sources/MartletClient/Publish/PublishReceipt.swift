/// What became of a message that was published.
public struct PublishReceipt: Hashable, Sendable {
    /// What the server says: `success`, or `noMatchingSubscribers`; `success` at QoS 0, which has no answer, and before MQTT 5.0.
    public var reason: ReasonCode

    /// A receipt, for a double that publishes.
    public init(reason: ReasonCode = .success) { self.reason = reason }
}
