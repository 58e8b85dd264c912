internal import Synchronization

/// The values that come for a selection of topics, in the order of their messages: an asynchronous sequence.
///
/// As with `Messages`, the subscription begins when the value is made and ends when it and its iterators are gone, or when a task that
/// waits is cancelled. A message that says the removal of a retained value (an empty payload, where the endpoint retains) is no
/// value and is passed over.
public struct Readings<Value: Sendable, each Part: TopicParameter>: AsyncSequence, Sendable {
    /// What comes, one at a time.
    public typealias Element = Reading
    /// What waiting may throw.
    public typealias Failure = ClientError

    private let messages: Messages
    private let reader: ReadingReader<Value, repeat each Part>

    init(
        _ messages: Messages, _ endpoint: Endpoint<Value, repeat each Part>, _ undecodable: SubscriptionSettings.Undecodable,
        settlesRest: Bool
    ) {
        self.messages = messages
        reader = ReadingReader(endpoint, undecodable, settlesRest: settlesRest)
    }

    /// Waits until the server has granted the subscription. Throws `ClientError.refused` with its reason.
    public func granted() async throws(ClientError) { try await messages.granted() }

    /// How many messages the backlog's policy has dropped: of `.hold` those of QoS 0 that came beyond it.
    public var droppedCount: Int { messages.droppedCount }

    /// How many messages wait to be taken.
    public var waitingCount: Int { messages.waitingCount }

    /// How many messages were none of the endpoint's: in their payload, or in the parameters of their topic.
    public var undecodableCount: Int { reader.undecodableCount.load(ordering: .relaxed) }

    /// Ends the subscription; what waits is gone.
    public func cancel() { messages.cancel() }

    /// For `for await`: an iterator of its own for each who asks.
    public func makeAsyncIterator() -> Iterator { Iterator(messages: messages.makeAsyncIterator(), reader: reader) }

    /// Takes what comes, for one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        private var messages: Messages.Iterator
        private let reader: ReadingReader<Value, repeat each Part>

        fileprivate init(messages: Messages.Iterator, reader: ReadingReader<Value, repeat each Part>) {
            (self.messages, self.reader) = (messages, reader)
        }

        /// The next value; nil when the subscription has ended or the task was cancelled.
        public mutating func next() async throws(ClientError) -> Element? { try await next(isolation: #isolation) }

        /// As above, in the isolation of its caller.
        public mutating func next(isolation: isolated (any Actor)?) async throws(ClientError) -> Element? {
            while let message = try await messages.next(isolation: isolation) {
                if let reading = try reader.read(message) { return reading }
            }
            return nil
        }
    }
}

extension Readings {
    /// A value that came, with the parameters of its topic.
    public struct Reading: Sendable {
        /// The parameters of the topic: a tuple, or the value itself if there is one parameter.
        public let parameters: (repeat each Part)
        /// The value.
        public let payload: Value
        /// The message that said it.
        public let message: Message

        init(_ message: Message, _ endpoint: Endpoint<Value, repeat each Part>) throws(ClientError) {
            self.message = message
            payload = try endpoint.coding.decode(message.received)
            // Last: the compiler fails on what would have to end these when a later line throws.
            parameters = try endpoint.parameters(of: message.topic)
        }

        /// The topic that the value was published to.
        public var topic: TopicName { message.topic }
        /// Whether the server kept it before this client subscribed.
        public var retain: Bool { message.retain }
        /// Whether the server may have sent it before.
        public var duplicate: Bool { message.duplicate }
        /// The message's properties; none before MQTT 5.0.
        public var properties: Properties { message.properties }

        /// Lets the server forget the message, for subscriptions that acknowledge `.whenDone`. A second call does nothing.
        public func done() { message.done() }

        /// Tells the server that the message was not processed, and why; it sends it no more. Before MQTT 5.0 the same as `done()`.
        public func refuse(_ reason: ReasonCode) { message.refuse(reason) }
    }
}

extension SubscriptionSettings {
    /// What happens to messages that are none of their endpoint's. They are counted in any case.
    public enum Undecodable: Hashable, Sendable {
        /// They are acknowledged and passed over.
        case skip
        /// They are answered with 0x99, payload format invalid, and passed over.
        case refuse
        /// They are answered with 0x99, and thrown as `ClientError.undecodable`. Who goes on with another iterator gets what follows.
        case fail
    }
}

/// Makes values of messages.
private final class ReadingReader<Value: Sendable, each Part: TopicParameter>: Sendable {
    let undecodableCount = Atomic(0)
    private let endpoint: Endpoint<Value, repeat each Part>
    private let undecodable: SubscriptionSettings.Undecodable
    /// Whether what is passed over has to be acknowledged here, as its consumer never sees it.
    private let settlesRest: Bool

    init(_ endpoint: Endpoint<Value, repeat each Part>, _ undecodable: SubscriptionSettings.Undecodable, settlesRest: Bool) {
        (self.endpoint, self.undecodable, self.settlesRest) = (endpoint, undecodable, settlesRest)
    }

    /// Nil for what is passed over.
    func read(_ message: Message) throws(ClientError) -> Readings<Value, repeat each Part>.Reading? {
        if endpoint.retain, message.payload.isEmpty {
            if settlesRest { message.done() }
            return nil
        }
        do throws(ClientError) {
            return try Readings<Value, repeat each Part>.Reading(message, endpoint)
        } catch {
            undecodableCount.add(1, ordering: .relaxed)
            switch undecodable {
            case .skip: if settlesRest { message.done() }
            case .refuse: message.refuse(.payloadFormatInvalid)
            case .fail:
                message.refuse(.payloadFormatInvalid)
                throw error
            }
            return nil
        }
    }
}
