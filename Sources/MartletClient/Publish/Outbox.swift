internal import ClientStore
internal import Platform

/// The messages that a client has stored and the server has not acknowledged.
public struct Outbox: Sendable {
    private let engine: ClientEngine

    init(_ engine: ClientEngine) { self.engine = engine }

    /// The deliveries that are not over, in order: after a restart, those of earlier runs.
    ///
    /// - Parameter limit: how many at most; each takes memory until it is let go.
    public func open(limit: Int = .max) async throws(ClientError) -> [Delivery] {
        let reading = DeliveryReading(limit: limit)
        engine.post(.records { $0.openDeliveries(reading) })
        return try await reading.call.outcome(cancelled: {}).get()
    }

    /// How many messages wait or are on their way, and their bytes in the store.
    public func measure() async throws(ClientError) -> (messages: Int, bytes: Int) {
        let call = AwaitedOutcome<(messages: Int, bytes: Int)>()
        engine.post(.records { $0.measureOutbox(call) })
        return try await call.outcome(cancelled: {}).get()
    }

    /// Takes a message back if it was not sent. Returns whether it was; its last status is then `.failed(.cancelled)`.
    @discardableResult
    public func withdraw(_ delivery: Delivery) async throws(ClientError) -> Bool {
        let call = AwaitedOutcome<Bool>()
        engine.post(.records { $0.withdraw(delivery.tracking, call) })
        return try await call.outcome(cancelled: {}).get()
    }

    /// The messages that the server has refused, the oldest first, in this run and in earlier ones: they stay until ``forgetRefused(_:)``. The
    /// latest 1000, of 4 MiB together, are kept.
    ///
    /// Nothing sends them again: publish or enqueue anew what makes sense after its cause is away. Throws `ClientError.store`.
    public func refused() async throws(ClientError) -> [RefusedMessage] {
        let call = AwaitedOutcome<[RefusedMessage]>()
        engine.post(.records { $0.readRefused(call) })
        return try await call.outcome(cancelled: {}).get()
    }

    /// Forgets messages that were refused, and returns when that is on the disk. Throws `ClientError.store`.
    public func forgetRefused(_ messages: [RefusedMessage]) async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        engine.post(.records { $0.forgetRefused(messages.map(\.number), call) })
        try await call.outcome(cancelled: {}).get()
    }
}

extension Outbox {
    /// A message of the outbox that the server has refused: it was taken out, and does not arrive.
    public struct RefusedMessage: Hashable, Sendable, Identifiable {
        /// As its `Delivery` had it.
        public let id: String
        /// The message, as it was to be sent.
        public let publication: Publication
        /// Why, as `Delivery.status` says it: `ClientError.refused` with the server's words.
        public let error: ClientError
        /// The time since 1970-01-01 00:00 UTC at which the server refused it.
        public let time: Duration
        let number: UInt64

        init(_ row: RefusedRow) {
            id = row.publication.properties.messageIdentifier ?? "\(row.number)"
            (publication, number) = (row.publication, row.number)
            error = ClientError(refused: row.reason, row.texts)
            time = .milliseconds(Int64(clamping: row.refusedAt))
        }
    }
}

extension Client {
    /// The messages that `enqueue` has stored.
    public var outbox: Outbox { Outbox(engine) }

    /// Stores a message and returns when it is on the disk. It is sent when it is its turn, in this run or a later one, in the order of these
    /// calls; receivers know repeats by its User Property `message-id`. A Message Expiry Interval counts from now.
    ///
    /// Throws `ClientError.store` when it cannot be stored, for want of room for example, and `ClientError.queueFull` by the outbox's limits.
    /// Cancelling the task while it waits for room takes the message back.
    public func enqueue(_ publication: Publication) async throws(ClientError) -> Delivery {
        var publication = publication
        for interceptor in settings.interceptors { try interceptor.willPublish(&publication) }
        let call = EnqueueCall(publication)
        engine.post(.records { $0.enqueue(call) })
        return try await call.call.outcome(cancelled: { [engine] in engine.post(.records { $0.records?.blockedCancelled() }) })
            .get()
    }

    /// As above. At QoS 0 a message that is lost on its way is not sent again.
    public func enqueue(
        _ payload: Payload, to topic: TopicName, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws(ClientError) -> Delivery {
        try await enqueue(Publication(topic, payload, qos: qos, retain: retain))
    }

    /// As above, for a value of an endpoint. An endpoint of QoS 0 is taken for one of QoS 1: what is stored is to arrive.
    public func enqueue<Value>(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> Delivery {
        var publication = try topic.publication(value)
        publication.qos = max(publication.qos, .atLeastOnce)
        return try await enqueue(publication)
    }
}

/// A message that is to be stored, and the task that waits for it.
final class EnqueueCall: Sendable {
    let publication: Publication
    let destination: Destination
    /// A message of an inbox in its place.
    let item = Locked<InboxMessage?>(nil)
    let call = AwaitedOutcome<Delivery>()

    /// What a message belongs to beside the outbox.
    enum Destination {
        case none
        /// The collection of a filter; and who hears how far it has come, from when it is stored, on the loop's thread.
        case collection(String, OutboxOwners.Observer)
        /// An inbox, and a conversation there.
        case inbox(String, conversation: String)
    }

    init(_ publication: Publication, for destination: Destination = .none) {
        (self.publication, self.destination) = (publication, destination)
    }
}

extension EnqueueCall {
    /// Who hears how far it has come.
    var observer: OutboxOwners.Observer? { if case .collection(_, let observer) = destination { observer } else { nil } }
}
