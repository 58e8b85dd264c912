public import ClientCore
internal import ClientStore
public import MQTTCodec
internal import Platform

/// Messages that are kept: each once, by conversation, in the order in which they came, with counts of those that nobody has read.
///
/// ```
///   server ──► store ──► PUBACK or PUBREC, arrivals, unread counts
/// ```
/// It has its subscription for as long as the client lives, and its messages for as long as the store does. Values are decoded when they are
/// read: what cannot be is left out, and counted.
public struct Inbox<Value: Sendable>: Sendable {
    let core: InboxCore
    let decode: @Sendable (ReceivedMessage) throws(ClientError) -> Value

    /// The name that it was opened by.
    public var name: String { core.name }

    /// How many messages nobody has read.
    public var unread: Int { core.unread.value.total }

    /// How many messages nobody has read, in all and by conversation, and each newer count; counts that come too quickly are left out.
    public var unreadCounts: LatestValues<UnreadCount> { core.unread.values }

    /// What comes from now on and what has come since the inbox was made, in batches: on the disk, acknowledged, without repeats, in order.
    ///
    /// One consumer: several share the batches. Before there is one, the latest thousand wait; while there is one, all do: beyond the first thousand
    /// they are read from the store, each conversation in its order.
    public var arrivals: some AsyncSequence<[InboxItem<Value>], ClientError> & Sendable { Arrivals(self) }

    /// How many messages, of those that were read, could not be decoded.
    public var undecodableCount: Int { core.undecodable.value }

    /// Waits until the server has granted the subscription. Throws `ClientError.refused` with its reason.
    public func granted() async throws(ClientError) { _ = try await core.pipe.waitForGrant() }

    /// The conversations with the latest messages first.
    public func conversations(limit: Int) async throws(ClientError) -> [Conversation<Value>] {
        let rows = try await core.read(InboxBook.recent(name, limit: limit))
        let counts = core.unread.value
        return rows.compactMap { RecentRow($0)?.last }.compactMap { last in
            item(last).map { Conversation(key: last.conversation, last: $0, unread: counts[last.conversation]) }
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
        return rows.compactMap { InboxMessage($0, of: name) }.compactMap { item($0) }
    }

    /// Somebody has read a conversation up to a message. Returns when that is stored.
    public func markRead(_ conversation: String, through number: UInt64) async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        core.engine.post(.records { [core] in $0.markRead(core, conversation, number, call) })
        try await call.outcome(cancelled: {}).get()
    }

    /// Ends the subscription. What is stored stays.
    public func end() { core.pipe.close() }

    func item(_ message: InboxMessage) -> InboxItem<Value>? {
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
            arrivedAt: .milliseconds(message.arrivedAt), properties: message.properties)
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

/// A message in an inbox.
public struct InboxItem<Value: Sendable>: Sendable {
    /// The conversation that it belongs to.
    public let conversation: String
    /// Its place in the conversation: 1 for the first.
    public let number: UInt64
    /// The topic that it was published to.
    public let topic: TopicName
    /// The message's value.
    public let payload: Value
    /// When it was stored here: the time since 1970-01-01 00:00 UTC, in whole milliseconds.
    public let arrivedAt: Duration
    /// The message's properties; none before MQTT 5.0.
    public let properties: Properties
}

/// A conversation of an inbox.
public struct Conversation<Value: Sendable>: Sendable {
    /// What the conversation is called: the inbox's `conversation` of its messages.
    public let key: String
    /// Its last message.
    public let last: InboxItem<Value>
    /// How many of its messages nobody has read.
    public let unread: Int
}

extension Client {
    /// Opens an inbox of what comes for a filter; it is subscribed to from now on. Needs a store, and to miss nothing a kept session.
    ///
    /// Throws `ClientError.settings` without a store, or if the inbox is open, and `ClientError.store`.
    ///
    /// - `name`: the same in every run.
    /// - `conversation`: to what a message belongs; runs on the client's thread, and takes no time.
    public func inbox(
        _ name: String, of filter: TopicFilter, _ settings: SubscriptionSettings = SubscriptionSettings(),
        by conversation: @escaping @Sendable (ReceivedMessage) -> String = { $0.topic.description }
    ) throws(ClientError) -> Inbox<Payload> {
        let core = try engine.inbox(name, filter, settings, by: conversation)
        return Inbox(core: core) { message throws(ClientError) in message.payload }
    }

    /// Opens an inbox of all that comes to an endpoint's topics.
    ///
    /// - `conversation`: to what a message belongs: `\.0` for the first of several parameters of its topic, `\.self` for the only one.
    public func inbox<Value, each Part, Key>(
        _ name: String, of endpoint: Endpoint<Value, repeat each Part>,
        by conversation: any KeyPath<(repeat each Part), Key> & Sendable
    ) throws(ClientError) -> Inbox<Value> {
        let filter = try endpoint.pattern.filter(repeat Optional<each Part>.none)
        let reader = ConversationReader(endpoint: endpoint, conversation: conversation)
        let core = try engine.inbox(name, filter, SubscriptionSettings(qos: endpoint.qos)) { reader.key(of: $0.topic) }
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
