internal import ClientCore
internal import Platform
internal import Synchronization

extension Messaging {
    /// Publishes a value, and returns when the server has taken it over; at QoS 0 when it is on its way to the
    /// connection.
    ///
    /// Throws `ClientError.topic` and `ClientError.unencodable` before anything is sent, else as `publish(_:)` does.
    @discardableResult
    public func publish<Value>(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> PublishReceipt {
        try await publish(try topic.publication(value))
    }

    /// Subscribes at once, or as soon as there is a connection, at no more than the endpoint's QoS; values end as
    /// `Messages` do. A selection with an illegal parameter throws `ClientError.topic` where its values are waited for.
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

    /// Lends the values of a selection for as long as the body runs: then the subscription ends, also when the body
    /// throws or its task is cancelled.
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

extension Messaging {
    /// Removes the message that the server keeps at the topic, if there is one; returns when the server has done so.
    public func clearRetained(_ topic: TopicName) async throws(ClientError) {
        try await publish(Publication(topic, Payload(), qos: .atLeastOnce, retain: true))
    }

    /// As above, at an endpoint's topic.
    public func clearRetained<Value>(_ topic: EndpointTopic<Value>) async throws(ClientError) {
        try await clearRetained(try topic.name)
    }

    /// Removes all messages that the server keeps at topics that match, and returns how many.
    ///
    /// What there is to remove is a guess: the standard lets nobody see when a server has sent all that it keeps. All
    /// is taken to be there when nothing more has come for the time `quiet`; a slower server keeps the rest. What is
    /// published meanwhile may stay, too.
    ///
    /// Throws `ClientError.cancelled` when the task is cancelled; what was removed until then stays so.
    @discardableResult
    public func clearRetained(matching filter: TopicFilter, quiet: Duration = .milliseconds(250)) async throws(ClientError) -> Int {
        var count = 0
        while true {
            let (topics, isAll) = try await retainedTopics(filter, quiet)
            for topic in topics {
                if Task.isCancelled { throw .cancelled }
                try await clearRetained(topic)
            }
            count += topics.count
            // What came faster than it could be looked at comes again.
            if isAll || topics.isEmpty { return count }
        }
    }

    /// The topics of the retained messages that a subscription brings, and whether none was dropped.
    private func retainedTopics(_ filter: TopicFilter, _ quiet: Duration) async throws(ClientError) -> ([TopicName], isAll: Bool) {
        var settings = SubscriptionSettings(qos: .atLeastOnce, backlog: .hold)
        settings.retainHandling = .sendAtSubscribe
        let messages = messages([filter], settings)
        defer { messages.cancel() }
        try await messages.grantedUnlessCancelled()
        return (try await retainedTopics(messages, quiet), messages.droppedCount == 0)
    }

    /// The topics of all retained messages, in the order in which they came, until none has come for a while.
    private func retainedTopics(_ messages: Messages, _ quiet: Duration) async throws(ClientError) -> [TopicName] {
        let found = Locked(FoundTopics())
        let gathering = Task {
            defer { found.withLock { $0.isOver = true } }
            for try await message in messages where message.retain && !message.payload.isEmpty {
                found.withLock { $0.topics.append(message.topic) }
            }
        }
        defer { gathering.cancel() }
        var count = -1
        while true {
            let state = found.value
            if state.isOver || (state.topics.count == count && messages.isConsumerWaiting) { return state.topics }
            count = state.topics.count
            do { try await clock.sleep(for: quiet) } catch { throw .cancelled }
        }
    }
}

private struct FoundTopics {
    var topics: [TopicName] = []
    /// Whether the subscription has ended.
    var isOver = false
}

/// The values that come for a selection of topics, in the order of their messages: an asynchronous sequence.
///
/// As with `Messages`, the subscription begins when the value is made and ends when it and its iterators are gone, or
/// when a task that waits is cancelled. A message that says the removal of a retained value (an empty payload, where
/// the endpoint retains) is no value and is passed over.
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

        /// Lets the server forget the message, for subscriptions that acknowledge `.whenDone`. A second call does
        /// nothing.
        public func done() { message.done() }

        /// Tells the server that the message was not processed, and why; it sends it no more. Before MQTT 5.0 the same
        /// as `done()`.
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
        /// They are answered with 0x99, and thrown as `ClientError.undecodable`. Who goes on with another iterator gets
        /// what follows.
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

/// Topics of one kind, and what is published to them: declared once, checked by the compiler at each use.
///
/// ```swift
/// enum Room: String, TopicParameter { case kitchen, cellar }
/// enum Home {
///     static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
///         "home"; Parameter("room", Room.self); "sensor"; Parameter("number", Int.self); "temperature"
///     }
/// }
/// try await client.publish(21.5, to: Home.temperature(.kitchen, 3))
/// for try await reading in client.messages(Home.temperature.matching(.kitchen, nil)) { print(reading.payload) }
/// ```
/// Wrong count or type of parameters or payload does not compile.
public struct Endpoint<Value: Sendable, each Part: TopicParameter>: Sendable {
    /// How values become payloads, and back.
    public let coding: MessageCoding<Value>
    /// At which QoS values are published, and at most come to subscribers.
    public let qos: QoS
    /// Whether the server keeps the last value of each topic. An empty payload there removes it, and is no value.
    public let retain: Bool
    let pattern: TopicPattern<repeat each Part>
    private let givenSample: @Sendable () -> Value?

    /// - `sample`: an example for stubs and checks; without one, that of the `Sampled` value.
    /// - `topic`: the levels of the topics.
    public init(
        _ type: Value.Type = Value.self, coding: MessageCoding<Value>, qos: QoS = .atMostOnce, retain: Bool = false,
        sample: @autoclosure @escaping @Sendable () -> Value? = nil,
        @TopicBuilder topic: () -> TopicPattern<repeat each Part>
    ) {
        (self.coding, self.qos, self.retain, pattern, givenSample) = (coding, qos, retain, topic(), sample)
    }

    /// The topic with these parameters. A value that makes no legal level is an error where the topic is used.
    public func callAsFunction(_ parameters: repeat each Part) -> EndpointTopic<Value> {
        EndpointTopic(
            result: Result { () throws(ClientError) in try pattern.topic(repeat each parameters) }, coding: coding, qos: qos,
            retain: retain)
    }

    /// All topics with these parameters, where nil stands for any value. A value that makes no legal level is an error
    /// where the selection is used.
    public func matching(_ parameters: repeat (each Part)?) -> Selection {
        Selection(
            endpoint: self, result: Result { () throws(ClientError) in try pattern.filter(repeat each parameters) })
    }

    /// An example of a value, if one was given.
    public var sample: Value? { givenSample() ?? sampled(Value.self) }

    /// The parameters in a topic: a tuple, or the value itself if there is one. Throws `ClientError.undecodable` if it
    /// is none of these.
    public func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) { try pattern.parameters(of: topic) }
}

/// One topic of an endpoint.
public struct EndpointTopic<Value: Sendable>: Sendable {
    let result: Result<TopicName, ClientError>
    let coding: MessageCoding<Value>
    let qos: QoS
    let retain: Bool

    /// Throws `ClientError.topic` where a parameter makes no legal level.
    public var name: TopicName { get throws(ClientError) { try result.get() } }

    /// The message that says this value. Throws `ClientError.topic` and `ClientError.unencodable`.
    public func publication(_ value: Value) throws(ClientError) -> Publication {
        var publication = Publication(try name, Payload(), qos: qos, retain: retain)
        try coding.encode(value, into: &publication)
        return publication
    }
}

extension Endpoint {
    /// Topics of an endpoint, some of whose parameters may be any.
    public struct Selection: Sendable {
        /// The endpoint whose topics these are.
        public let endpoint: Endpoint<Value, repeat each Part>
        let result: Result<TopicFilter, ClientError>

        /// Throws `ClientError.topic` where a parameter makes no legal level.
        public var filter: TopicFilter { get throws(ClientError) { try result.get() } }
    }
}
