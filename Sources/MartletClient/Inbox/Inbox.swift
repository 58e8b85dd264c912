public import ClientCore
internal import ClientStore
public import MQTTCodec
internal import Platform

/// Messages that are kept: each once, by conversation, in the order in which they came, with counts of those that
/// nobody has read.
///
/// ```
///   server ──► store ──► PUBACK or PUBREC, arrivals, unread counts
/// ```
/// It has its subscription for as long as the client lives, and its messages for as long as the store does, within its
/// ``InboxLimits``. Values are decoded when they are read: what cannot be is left out, and counted. What is sent by
/// ``send(_:to:)`` stands in its conversation beside what has come, at once and with its delivery; it is not unread,
/// and stands there once, also when the server sends it back.
public struct Inbox<Value: Sendable>: Sendable {
    let core: InboxCore
    let decode: @Sendable (ReceivedMessage) throws(ClientError) -> Value

    /// The name that it was opened by.
    public var name: String { core.name }

    /// How many messages nobody has read.
    public var unread: Int { core.unread.value.total }

    /// How many messages nobody has read, in all and by conversation, and each newer count; counts that come too
    /// quickly are left out.
    public var unreadCounts: LatestValues<UnreadCount> { core.unread.values }

    /// What comes from now on and what has come since the inbox was made, in batches: on the disk, acknowledged,
    /// without repeats, in order.
    ///
    /// One consumer: several share the batches. Before there is one, the latest thousand wait; while there is one, all
    /// do: beyond the first thousand they are read from the store, each conversation in its order.
    public var arrivals: some AsyncSequence<[InboxItem<Value>], ClientError> & Sendable { Arrivals(self) }

    /// How many messages, of those that were read, could not be decoded.
    public var undecodableCount: Int { core.undecodable.value }

    /// Waits until the server has granted the subscription. Throws `ClientError.refused` with its reason.
    public func granted() async throws(ClientError) { _ = try await core.pipe.waitForGrant() }

    /// The conversations with the latest messages first.
    public func conversations(limit: Int) async throws(ClientError) -> [Conversation] {
        let messages = try await core.read(InboxBook.recent(name, limit: limit)).compactMap { RecentRow($0)?.last }
        let deliveries = try await core.deliveries(of: messages)
        let counts = core.unread.value
        return zip(messages, deliveries).compactMap { last, delivery in
            item(last, delivery).map { Conversation(key: last.conversation, last: $0, unread: counts[last.conversation]) }
        }
    }

    /// Messages of a conversation, the latest first.
    ///
    /// - `number`: only those before this one; nil for all.
    /// - `limit`: how many at most.
    public func messages(
        in conversation: String, before number: UInt64? = nil, limit: Int
    ) async throws(ClientError) -> [InboxItem<Value>] {
        let rows = try await core.read(InboxBook.messages(name, in: conversation, before: number, limit: limit))
        let messages = rows.compactMap { InboxMessage($0, of: name) }
        return zip(messages, try await core.deliveries(of: messages)).compactMap { item($0, $1) }
    }

    /// Somebody has read a conversation up to a message. Returns when that is stored.
    public func markRead(_ conversation: String, through number: UInt64) async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        core.engine.ask(call, withoutStore: .failure(.ended)) { [core] records, _ in
            records.markRead(core, conversation, number, call)
        }
        try await call.outcome(cancelled: {}).get()
    }

    /// Removes messages of a conversation, for good and also for what they count as unread. Returns when they are gone
    /// from the disk. One's own that wait or are on their way are sent all the same, unless they are withdrawn from the
    /// ``Outbox``.
    ///
    /// Throws `ClientError.store`, and `ClientError.ended`; messages that are not there are none.
    ///
    /// - `numbers`: of the first and the last of them; a conversation without any is no more.
    public func remove(_ conversation: String, _ numbers: ClosedRange<UInt64> = 0...UInt64.max) async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        core.engine.ask(call, withoutStore: .failure(.ended)) { [core] records, _ in
            records.remove(core, conversation, numbers, call)
        }
        try await call.outcome(cancelled: {}).get()
    }

    /// Ends the subscription. What is stored stays.
    public func end() { core.pipe.close() }

    func item(_ message: InboxMessage, _ delivery: Delivery? = nil) -> InboxItem<Value>? {
        var received = ReceivedMessage(
            topic: message.topic, payload: message.payload, qos: message.publication.qos, retain: message.publication.retain,
            duplicate: false, token: nil)
        if message.publication.hasProperties { received.properties = message.properties }
        guard let value = try? decode(received) else {
            core.countUndecodable()
            return nil
        }
        return InboxItem(
            conversation: message.conversation, number: message.number, topic: message.topic, payload: value,
            arrivedAt: .milliseconds(message.arrivedAt),
            sentAt: (delivery == nil ? message.sentAt : message.arrivedAt).map { .milliseconds($0) },
            properties: message.properties, delivery: delivery)
    }

    /// Batches of messages that have come.
    struct Arrivals: AsyncSequence, Sendable {
        typealias Element = [InboxItem<Value>]
        typealias Failure = ClientError

        private let inbox: Inbox

        init(_ inbox: Inbox) { self.inbox = inbox }

        func makeAsyncIterator() -> Iterator { Iterator(inbox: inbox, lease: InboxCore.Lease(inbox.core)) }

        struct Iterator: AsyncIteratorProtocol {
            fileprivate let inbox: Inbox
            fileprivate let lease: InboxCore.Lease

            /// The next batch; nil when the client or the subscription has ended, or the task was cancelled.
            mutating func next() async throws(ClientError) -> Element? { try await next(isolation: #isolation) }

            mutating func next(isolation: isolated (any Actor)?) async throws(ClientError) -> Element? {
                while !Task.isCancelled {
                    if let taken = try await inbox.core.take() {
                        let batch = taken.compactMap { inbox.item($0) }
                        if !batch.isEmpty { return batch }
                        continue
                    }
                    switch inbox.core.pipe.end {
                    case .finished: return nil
                    case .failed(let error): throw error
                    case nil: await inbox.core.waitForArrival()
                    }
                }
                return nil
            }
        }
    }
}

/// A message in an inbox, another's or one's own.
public struct InboxItem<Value: Sendable>: Sendable, Identifiable {
    /// Where it stands in the inbox.
    public var id: InboxItemID { InboxItemID(conversation: conversation, number: number) }
    /// The conversation that it belongs to.
    public let conversation: String
    /// Its number in the conversation: 1 for the first.
    public let number: UInt64
    /// The topic that it was published to.
    public let topic: TopicName
    /// The message's value.
    public let payload: Value
    /// When it came and was stored here, or was given to `send`: the time since 1970-01-01 00:00 UTC, in whole
    /// milliseconds.
    public let arrivedAt: Duration
    /// When it was sent, by the clock there: the time since 1970-01-01 00:00 UTC; nil where its publisher does not say.
    /// Inboxes say it by the User Property `sent-at`, in MQTT 5.0.
    public let sentAt: Duration?
    /// The message's properties; none before MQTT 5.0.
    public let properties: Properties
    /// How far one's own message has come, in this run and any later one; nil of another's.
    public let delivery: Delivery?

    /// Whether it was sent from here.
    public var isOwn: Bool { delivery != nil }
}

/// Where a message stands in an inbox.
public struct InboxItemID: Hashable, Sendable {
    /// The conversation that it belongs to.
    public let conversation: String
    /// Its number in the conversation.
    public let number: UInt64
}

/// How much an inbox keeps. What is beyond goes, the oldest first, whether it was read or not.
public struct InboxLimits: Hashable, Sendable {
    /// Messages of all conversations.
    public var messages = 1_000_000
    /// Their bytes in the store.
    public var bytes = 1 << 30
    /// How long a message is kept after it came or was sent; nil for ever. To the millisecond, while the client lives.
    public var age: Duration?

    /// - Parameters:
    ///   - messages: of all conversations; what is beyond goes, the oldest first.
    ///   - bytes: of these in the store; the same.
    ///   - age: how long a message is kept; nil for ever.
    public init(messages: Int = 1_000_000, bytes: Int = 1_073_741_824, age: Duration? = nil) {
        (self.messages, self.bytes, self.age) = (messages, bytes, age)
    }

    var bounds: InboxBounds {
        InboxBounds(messages: max(0, messages), bytes: max(0, bytes), milliseconds: age.map { $0.milliseconds })
    }
}

extension Inbox {
    /// A conversation of an inbox.
    public struct Conversation: Sendable {
        /// What the conversation is called: the inbox's `conversation` of its messages.
        public let key: String
        /// Its last message.
        public let last: InboxItem<Value>
        /// How many of its messages nobody has read.
        public let unread: Int
    }
}

extension Client {
    /// Opens an inbox of what comes for a filter; it is subscribed to from now on. Needs a store, and to miss nothing a
    /// kept session.
    ///
    /// Throws `ClientError.settings` without a store, or if the inbox is open, and `ClientError.store`.
    ///
    /// - `name`: the same in every run.
    /// - `limits`: how much is kept.
    /// - `conversation`: to what a message belongs; runs on the client's thread, and takes no time.
    public func inbox(
        _ name: String, of filter: TopicFilter, _ settings: SubscriptionSettings = SubscriptionSettings(),
        keeping limits: InboxLimits = InboxLimits(),
        by conversation: @escaping @Sendable (ReceivedMessage) -> String = { $0.topic.description }
    ) throws(ClientError) -> Inbox<Payload> {
        let core = try engine.inbox(name, filter, settings, limits.bounds, by: conversation)
        return Inbox(core: core) { message throws(ClientError) in message.payload }
    }

    /// Opens an inbox of all that comes to an endpoint's topics.
    ///
    /// - `limits`: how much is kept.
    /// - `conversation`: to what a message belongs: `\.0` for the first of several parameters of its topic, `\.self`
    ///   for the only one.
    public func inbox<Value, each Part, Key>(
        _ name: String, of endpoint: Endpoint<Value, repeat each Part>, keeping limits: InboxLimits = InboxLimits(),
        by conversation: any KeyPath<(repeat each Part), Key> & Sendable
    ) throws(ClientError) -> Inbox<Value> {
        let filter = try endpoint.pattern.filter(repeat Optional<each Part>.none)
        let reader = ConversationReader(endpoint: endpoint, conversation: conversation)
        let core = try engine.inbox(name, filter, SubscriptionSettings(qos: endpoint.qos), limits.bounds) {
            reader.key(of: $0.topic)
        }
        return Inbox(core: core) { message throws(ClientError) in try endpoint.coding.decode(message) }
    }
}

/// Takes a message's conversation out of its topic.
private struct ConversationReader<Value: Sendable, each Part: TopicParameter, Key>: Sendable {
    let endpoint: Endpoint<Value, repeat each Part>
    let conversation: any KeyPath<(repeat each Part), Key> & Sendable

    /// Nil if the topic is none of the endpoint's.
    func key(of topic: TopicName) -> String? {
        do {
            let parameters = try endpoint.parameters(of: topic)
            let key = parameters[keyPath: conversation]
            return (key as? any TopicParameter)?.topicLevel ?? "\(key)"
        } catch {
            return nil
        }
    }
}

/// Sending from an inbox.
extension Inbox {
    /// Stores one's own message in its conversation and in the outbox, both or neither, and returns when it is on the
    /// disk: it stands in `messages` and `conversations` at once, as sending. It is sent in its turn, in this run or a
    /// later one, as by `Client.enqueue`; what becomes of it says ``InboxItem/delivery``, also in later runs, and of a
    /// message that the server refused for what reason.
    ///
    /// It goes at QoS 1 at least. Receivers learn when it was sent, in MQTT 5.0. What the server sends back of it is
    /// not taken for another's: in MQTT 5.0 it is known by its identifier, before by its contents, for a day.
    ///
    /// Throws what `Client.enqueue` throws; `ClientError.topic` for a topic that belongs to no conversation, and
    /// `ClientError.ended` if the inbox has ended.
    @discardableResult
    public func send(_ publication: Publication) async throws(ClientError) -> InboxItem<Value> {
        var publication = publication
        publication.qos = max(publication.qos, .atLeastOnce)
        for interceptor in core.engine.settings.interceptors { try interceptor.willPublish(&publication) }
        var received = ReceivedMessage(
            topic: publication.topic, payload: publication.payload, qos: publication.qos, retain: publication.retain,
            duplicate: false, token: nil)
        if publication.hasProperties { received.properties = publication.properties }
        guard let conversation = core.key(received) else {
            throw .topic("\(publication.topic) belongs to no conversation of the inbox \(name)")
        }
        let value = try decode(received)
        let call = EnqueueCall(publication, for: .inbox(name, conversation: conversation))
        core.engine.ask(call.call, withoutStore: .failure(.ended)) { $0.enqueue(call, $1) }
        let delivery = try await call.call.outcome(cancelled: { [core] in
            core.engine.post(.records { $0.records?.blockedCancelled() })
        }).get()
        guard let message = call.item.withLock({ $0 }) else { throw .ended }
        return InboxItem(
            conversation: message.conversation, number: message.number, topic: message.topic, payload: value,
            arrivedAt: .milliseconds(message.arrivedAt), sentAt: .milliseconds(message.arrivedAt), properties: message.properties,
            delivery: delivery)
    }

    /// As above, for a value of an endpoint.
    @discardableResult
    public func send(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> InboxItem<Value> {
        try await send(try topic.publication(value))
    }
}

extension Inbox where Value == Payload {
    /// As above, for bytes.
    @discardableResult
    public func send(
        _ payload: Payload, to topic: TopicName, qos: QoS = .atLeastOnce
    ) async throws(ClientError) -> InboxItem<Payload> {
        try await send(Publication(topic, payload, qos: qos, retain: false))
    }
}

extension ClientRecords {
    /// Follows messages of the outbox; those that are not over alone. Ends when what is over is stored.
    func follow(_ open: [(number: UInt64, byteCount: Int)], _ call: AwaitedOutcome<[UInt64: DeliveryTracking]>) {
        guard failure == nil else {
            call.complete(.failure(failure ?? .ended))
            return
        }
        var trackings: [UInt64: DeliveryTracking] = [:]
        for (number, byteCount) in open where owners[number] != nil {
            trackings[number] = board.tracking(
                number, byteCount: byteCount,
                outbox.isInFlight(number) ? .sent : .queued(ahead: outbox.countAhead(of: number)))
        }
        let found = trackings
        guard found.count < open.count else {
            call.complete(.success(found))
            return
        }
        afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(found)) }
    }

    func remove(_ core: InboxCore, _ conversation: String, _ numbers: ClosedRange<UInt64>, _ call: AwaitedOutcome<Void>) {
        guard failure == nil, let sink = inboxes[core.name] else {
            call.complete(.failure(failure ?? .ended))
            return
        }
        sink.add(InboxJob(work: .remove(conversation, numbers), call: call), self)
    }
}
