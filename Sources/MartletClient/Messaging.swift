/// Whoever publishes and receives: a `Client`, or a double of one in tests.
public protocol Messaging: Sendable {
    /// Publishes, and returns when the server has taken the message over; at QoS 0 when it is on its way to the connection.
    ///
    /// Messages of QoS 1 and 2 wait for a connection. Cancelling the task withdraws what was not sent. Throws `ClientError.refused`
    /// with the server's reason, and what the client itself refuses.
    @discardableResult
    func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt

    /// Subscribes at once, or as soon as there is a connection; what comes waits until it is taken. Messages end when the value and its
    /// iterators are gone, which ends the subscription, or when the client ends.
    func messages(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> Messages

    /// What times out and waits on behalf of this client does so by this clock. By default the clock of the machine.
    var clock: any Clock<Duration> { get }
}

extension Messaging {
    /// The clock of the machine.
    public var clock: any Clock<Duration> { ContinuousClock() }

    /// As above, for one filter.
    public func messages(_ filter: TopicFilter, _ settings: SubscriptionSettings = SubscriptionSettings()) -> Messages {
        messages([filter], settings)
    }

    /// Publishes a payload. Throws as `publish(_:)` does.
    @discardableResult
    public func publish(
        _ payload: Payload, to topic: TopicName, qos: QoS = .atMostOnce, retain: Bool = false
    ) async throws(ClientError) -> PublishReceipt {
        try await publish(Publication(topic, payload, qos: qos, retain: retain))
    }
}
