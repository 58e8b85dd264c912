// The calls for topics, filters and payloads that are made at run time. A literal prefers these, so that a wrong one is
// an error as well.

extension Messaging {
    /// Publishes to a topic that is made at run time: `try await client.publish("on", to: "home/\(room)/lamp")`.
    ///
    /// Throws `ClientError.topic` before anything is sent if the text is no topic, else as `publish(_:)` does.
    @discardableResult
    public func publish(
        _ payload: Payload, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false
    ) async throws(ClientError) -> PublishReceipt {
        try await publish(payload, to: try TopicName(validating: topic), qos: qos, retain: retain)
    }

    /// Publishes a text. Throws `ClientError.topic` before anything is sent if the topic is none, else as `publish(_:)`
    /// does.
    @discardableResult
    public func publish(
        _ text: String, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false
    ) async throws(ClientError) -> PublishReceipt {
        try await publish(Payload(text), to: try TopicName(validating: topic), qos: qos, retain: retain)
    }

    /// Publishes a text. Throws as `publish(_:)` does.
    @discardableResult
    public func publish(
        _ text: String, to topic: TopicName, qos: QoS = .atMostOnce, retain: Bool = false
    ) async throws(ClientError) -> PublishReceipt {
        try await publish(Payload(text), to: topic, qos: qos, retain: retain)
    }

    /// Subscribes to a filter that is made at run time: `client.messages("home/\(room)/+")`. If the text is none,
    /// whoever waits for messages gets `ClientError.topic`.
    public func messages(_ filter: String, _ settings: SubscriptionSettings = SubscriptionSettings()) -> Messages {
        messages([filter], settings)
    }

    /// As above, for several filters.
    public func messages(_ filters: [String], _ settings: SubscriptionSettings = SubscriptionSettings()) -> Messages {
        do throws(ClientError) {
            return messages(try filters.validated(), settings)
        } catch {
            return Messages(failing: error)
        }
    }

    /// Lends the messages of a filter that is made at run time for as long as the body runs: then the subscription
    /// ends, also when the body throws or its task is cancelled. If the text is no filter, whoever waits for messages
    /// gets `ClientError.topic`.
    public func withMessages<Answer, Failure>(
        _ filter: String, _ settings: SubscriptionSettings = SubscriptionSettings(),
        isolation: isolated (any Actor)? = #isolation, _ body: (Messages) async throws(Failure) -> Answer
    ) async throws(Failure) -> Answer {
        let messages = messages([filter], settings)
        defer { messages.cancel() }
        return try await body(messages)
    }

    /// Removes the message that the server keeps at a topic that is made at run time. Throws `ClientError.topic` if the
    /// text is none.
    public func clearRetained(_ topic: String) async throws(ClientError) {
        try await clearRetained(try TopicName(validating: topic))
    }

    /// Removes all messages that the server keeps at topics that match a filter which is made at run time, and returns
    /// how many: a guess, as with a `TopicFilter`. Throws `ClientError.topic` if the text is none.
    @discardableResult
    public func clearRetained(matching filter: String, quiet: Duration = .milliseconds(250)) async throws(ClientError) -> Int {
        try await clearRetained(matching: try TopicFilter(validating: filter), quiet: quiet)
    }

    /// Follows what the server retains at topics that match a filter which is made at run time.
    ///
    /// Throws `ClientError.topic` if the text is no filter, `ClientError.store` if what is stored cannot be read.
    public func collection(
        of filter: String, _ settings: CollectionSettings = CollectionSettings()
    ) throws(ClientError) -> LiveCollection<Payload, TopicName> {
        try collection(of: try TopicFilter(validating: filter), settings)
    }
}

extension Client {
    /// Stores a message for a topic that is made at run time, and returns when it is on the disk. Throws
    /// `ClientError.topic` if the text is none, else as `enqueue(_:)` does.
    public func enqueue(
        _ payload: Payload, to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws(ClientError) -> Delivery {
        try await enqueue(payload, to: try TopicName(validating: topic), qos: qos, retain: retain)
    }

    /// As above, a text.
    public func enqueue(
        _ text: String, to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws(ClientError) -> Delivery {
        try await enqueue(Payload(text), to: try TopicName(validating: topic), qos: qos, retain: retain)
    }

    /// As above, a text, to a topic of the program's own.
    public func enqueue(
        _ text: String, to topic: TopicName, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws(ClientError) -> Delivery {
        try await enqueue(Payload(text), to: topic, qos: qos, retain: retain)
    }

    /// Opens an inbox of what comes for a filter that is made at run time. Throws `ClientError.topic` if the text is
    /// none, else as with a `TopicFilter`.
    public func inbox(
        _ name: String, of filter: String, _ settings: SubscriptionSettings = SubscriptionSettings(),
        by conversation: @escaping @Sendable (ReceivedMessage) -> String = { $0.topic.description }
    ) throws(ClientError) -> Inbox<Payload> {
        try inbox(name, of: try TopicFilter(validating: filter), settings, by: conversation)
    }

    /// Ends subscriptions that an earlier process has left, by filters that are made at run time. Throws
    /// `ClientError.topic` if a text is none, else as with filters.
    public func unsubscribe(_ filters: [String], properties: Properties = Properties()) async throws(ClientError) {
        try await unsubscribe(try filters.validated(), properties: properties)
    }
}

extension CallTopic {
    /// A topic that is made at run time, without a call that declares it. If the text is none, whoever sends to it gets
    /// `ClientError.topic`.
    public init(_ topic: String) {
        self.init(result: Result { () throws(ClientError) in try TopicName(validating: topic) })
    }
}

extension [String] {
    /// Throws `ClientError.topic` for the first that is no filter.
    fileprivate func validated() throws(ClientError) -> [TopicFilter] {
        var filters: [TopicFilter] = []
        for text in self { filters.append(try TopicFilter(validating: text)) }
        return filters
    }
}
