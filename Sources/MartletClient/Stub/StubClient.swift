/// A client without a server, for tests and previews: what is published comes to its own subscribers.
public final class StubClient: Messaging {
    package let server = StubServer()

    public init() {}

    public func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt {
        let isTaken = server.publish(publication)
        return PublishReceipt(reason: isTaken || publication.qos == .atMostOnce ? .success : .noMatchingSubscribers)
    }

    public func messages(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> Messages {
        Messages(server.subscribe(filters, settings))
    }
}
