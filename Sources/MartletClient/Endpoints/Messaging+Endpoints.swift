internal import ClientCore

extension Messaging {
    /// Publishes a value, and returns when the server has taken it over; at QoS 0 when it is on its way to the connection.
    ///
    /// Throws `ClientError.topic` and `ClientError.unencodable` before anything is sent, else as `publish(_:)` does.
    @discardableResult
    public func publish<Value>(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> PublishReceipt {
        try await publish(try topic.publication(value))
    }

    /// Subscribes at once, or as soon as there is a connection, at no more than the endpoint's QoS; values end as `Messages` do. A selection with
    /// an illegal parameter throws `ClientError.topic` where its values are waited for.
    ///
    /// - `settings`: how they are asked for, wait and are acknowledged, and who shares them.
    /// - `undecodable`: what happens to messages that are none of the endpoint's.
    public func messages<Value, each Part>(
        _ selection: Endpoint<Value, repeat each Part>.Selection, _ settings: SubscriptionSettings = SubscriptionSettings(),
        undecodable: SubscriptionSettings.Undecodable = .skip
    ) -> Readings<Value, repeat each Part> {
        var settings = settings
        settings.qos = min(settings.qos, selection.endpoint.qos)
        let messages =
            switch selection.result {
            case .success(let filter): messages([filter], settings)
            case .failure(let error): Messages(failing: error)
            }
        return Readings(messages, selection.endpoint, undecodable, settlesRest: settings.acknowledging == .whenDone)
    }

    /// Lends the values of a selection for as long as the body runs: then the subscription ends, also when the body throws or its task
    /// is cancelled.
    public func withMessages<Value, each Part, Answer, Failure>(
        _ selection: Endpoint<Value, repeat each Part>.Selection, _ settings: SubscriptionSettings = SubscriptionSettings(),
        undecodable: SubscriptionSettings.Undecodable = .skip, isolation: isolated (any Actor)? = #isolation,
        _ body: (Readings<Value, repeat each Part>) async throws(Failure) -> Answer
    ) async throws(Failure) -> Answer {
        let readings = messages(selection, settings, undecodable: undecodable)
        defer { readings.cancel() }
        return try await body(readings)
    }

    /// As above, for the messages of a filter.
    public func withMessages<Answer, Failure>(
        _ filter: TopicFilter, _ settings: SubscriptionSettings = SubscriptionSettings(),
        isolation: isolated (any Actor)? = #isolation, _ body: (Messages) async throws(Failure) -> Answer
    ) async throws(Failure) -> Answer {
        let messages = messages([filter], settings)
        defer { messages.cancel() }
        return try await body(messages)
    }
}

extension Messages {
    /// Of a subscription that cannot be: each wait throws the error.
    init(failing error: ClientError) {
        let pipe = MessagePipe(filters: [], settings: SubscriptionSettings(), backlog: .hold(1), source: NoSource())
        pipe.end(error)
        self.init(pipe)
    }

    private final class NoSource: MessageSource {
        func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {}
        func resume(_ pipe: MessagePipe) {}
        func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) {}
    }
}
