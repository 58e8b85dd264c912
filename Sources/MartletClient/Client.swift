internal import ClientStore
internal import Platform
internal import Synchronization

/// An MQTT client: one session with a server, over connections that come and go.
///
/// ```swift
/// let client = try Client(ClientSettings(server: "mqtt://broker.example"))
/// let readings = client.messages("home/+/temperature")    // before connecting: nothing is missed
/// try await client.connect()
/// try await client.publish("21.5", to: "home/kitchen/temperature", qos: .atLeastOnce)
/// for try await reading in readings { print(reading.topic, reading.payload) }
/// ```
/// All clients of a process share one thread. Any task may call. When the last reference is gone the client says
/// goodbye to the server.
public final class Client: Messaging, Sendable {
    package let engine: ClientEngine
    /// The requests that wait for answers.
    package let requests: PendingRequests
    /// What `answerCache` gives again.
    let answers: StoredAnswers

    /// A client that is not connected yet. Throws `ClientError.settings`, which says which setting cannot be.
    public convenience init(_ settings: ClientSettings) throws(ClientError) {
        try self.init(settings, loop: try ClientLoop.shared())
    }

    /// As above, on a loop of its own.
    package init(_ settings: ClientSettings, loop: ClientLoop) throws(ClientError) {
        engine = try ClientEngine(settings, loop: loop)
        requests = PendingRequests { loop.random() }
        answers = StoredAnswers(engine.records?.restoredAnswers ?? [], now: loop.wallMilliseconds) { [weak engine] changes in
            engine?.post(.records { $0.records?.add(changes) })
        }
    }

    deinit {
        // Whoever opens it next must not find it taken.
        engine.records?.storage.close()
        engine.post(.end)
    }

    /// The clock by which requests time out: the machine's, or a simulation's.
    public var clock: any Clock<Duration> { engine.loop.clock }

    /// Runs tasks on the thread of the client: `Task(executorPreference: client.loopExecutor)`.
    ///
    /// For tasks that do little but wait for the client: each wait costs two changes of threads less. All clients of
    /// the process stand still while such a task works, so it must neither compute for long nor block.
    @_spi(Benchmarks) public var loopExecutor: any TaskExecutor { engine.loop.taskExecutor ?? engine.loop.executor }

    /// What it was made with.
    public var settings: ClientSettings { engine.settings }
}

// MARK: - Connection

extension Client {
    /// How it stands now.
    public var state: ConnectionState { engine.state.value }

    /// How it stands, and each newer state; states that come too quickly are left out.
    public var states: LatestValues<ConnectionState> { engine.state.values }

    /// How many messages have come that nobody got. `Interceptor.didDrop` tells of each.
    public var dropped: DroppedMessages.Counts { engine.dropped.value }

    /// Connects and returns when the server has let us in; from then on connections that are lost are made again.
    ///
    /// Throws when none of the servers can be reached or lets us in, each tried once: then it is offline again, and
    /// nothing more is tried. When the task is cancelled it stops too, unless somebody else wants the connection:
    /// another call, or `start()`.
    public func connect() async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        engine.post(.start(call))
        let outcome = await call.outcome { [engine] in engine.post(.withdrawStart(call)) }
        if case .failure(let error) = outcome { throw error }
    }

    /// Connects in the background, and goes on until a server's refusal is final or there were as many attempts as the
    /// settings' `reconnect` says, which by default has no end: then ``state`` says so, and calls that wait for the
    /// connection throw it. Subscriptions wait on, for the next `connect()` or `start()`.
    public func start() { engine.post(.start(nil)) }

    /// Does not wait for the next attempt: the network has come back.
    public func reconnectNow() { engine.post(.reconnectNow) }

    /// Says goodbye, so that the server publishes no will. Messages of QoS 1 and 2 that were not acknowledged wait for
    /// the next `connect`.
    ///
    /// - Parameters:
    ///   - reason: `.disconnectWithWillMessage` has the will published.
    ///   - properties: of DISCONNECT. MQTT 5.0 only.
    public func disconnect(_ reason: ReasonCode = .normalDisconnection, properties: Properties = Properties()) async {
        let call = AwaitedOutcome<Void>()
        engine.post(.disconnect(reason, properties, call))
        // A task of its own: who was cancelled says goodbye in full too.
        await Task(executorPreference: engine.loop.taskExecutor) { _ = await call.outcome(cancelled: {}) }.value
    }

    /// Shows once more who it is, on the connection that stands: for servers that want that now and then, and for
    /// secrets that have changed. Messages flow meanwhile. Calls while one is under way wait for its end.
    ///
    /// Only for a login by an authenticator, such as SCRAM-SHA-256. Throws `ClientError.unsupported` before MQTT 5.0,
    /// `ClientError.settings` with another login, `ClientError.notConnected` without a connection or when it is lost;
    /// `ClientError.refused` if the server refuses, which ends the connection, or if what the server says is not right,
    /// which does so too; `ClientError.unreachable` if the authenticator fails, which ends the connection where the
    /// server has heard of it; `ClientError.timedOut` if the server does not answer within the settings'
    /// `connectTimeout`, after which the client connects anew. Who is cancelled does not wait any longer; it goes on.
    public func reauthenticate() async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        engine.post(.reauthenticate(call))
        if case .failure(let error) = await call.outcome(cancelled: {}) { throw error }
    }

    /// Stays connected until the task is cancelled; then says goodbye. Throws what the server refuses for good.
    public func run() async throws(ClientError) {
        start()
        for await state in states {
            switch state {
            case .refused(let error): throw error
            case .ended: throw .ended
            case .offline, .connecting, .online, .waiting: continue
            }
        }
        await disconnect()
    }
}

// MARK: - Messages

extension Client {
    /// Publishes, and returns when the server has taken the message over; at QoS 0 when it is on its way to the
    /// connection.
    ///
    /// Messages of QoS 1 and 2 wait for a connection. Cancelling the task withdraws what was not sent. Throws
    /// `ClientError.refused` with the server's reason, `ClientError.queueFull` by ``ClientSettings/queue``,
    /// `ClientError.notConnected` at QoS 0 by ``ClientSettings/offlineAtMostOnce``, and what an interceptor throws.
    @discardableResult
    public func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt {
        if engine.isIntercepted {
            return try await engine.settings.interceptors.publish(publication, clock: clock) {
                (publication) throws(ClientError) in try await send(publication)
            }
        }
        return try await send(publication)
    }

    private func send(_ publication: Publication) async throws(ClientError) -> PublishReceipt {
        let call: PublishCall
        if publication.qos == .atMostOnce {
            if engine.isOnline.load(ordering: .relaxed), engine.outputByteCount.load(ordering: .relaxed) < Limits.outputBytesMax,
                !publication.hasProperties, publication.byteCount <= engine.unaskedByteCount.load(ordering: .relaxed),
                let isFirst = engine.box.post(publication, bytesMax: Limits.outputBytesMax)
            {
                if isFirst { engine.loop.mailbox.post(engine) }
                return PublishReceipt()
            }
            call = PublishCall(publication)
            engine.post(.publishWhenRoom(call))
        } else {
            call = PublishCall(publication)
            engine.post(.publish(call))
        }
        switch await call.call.outcome(cancelled: { [engine] in engine.post(.withdraw(call)) }) {
        case .success(let receipt): return receipt
        case .failure(let error): throw error
        }
    }

    /// Publishes a message of QoS 1 or 2 for nobody who waits: the body hears of its end, on the loop's thread. Returns
    /// what takes it back if it was not sent; nil where interceptors want a task.
    func publish(
        _ publication: Publication, heardBy body: @escaping @Sendable (Result<PublishReceipt, ClientError>) -> Void
    ) -> (() -> Void)? {
        if engine.isIntercepted { return nil }
        let call = PublishCall(publication, AwaitedOutcome(heardBy: body))
        engine.post(.publish(call))
        return { [engine] in if call.call.complete(.failure(.cancelled)) { engine.post(.withdraw(call)) } }
    }

    /// Ends subscriptions that an earlier process has left in a session that the server kept, and returns when the
    /// server has answered. Those of this client end with their `Messages`.
    ///
    /// Throws `ClientError.notConnected` without a connection, or when it is lost before the answer;
    /// `ClientError.refused` if the server does not let one of them end.
    ///
    /// - `properties`: of UNSUBSCRIBE. MQTT 5.0 only.
    public func unsubscribe(_ filters: [TopicFilter], properties: Properties = Properties()) async throws(ClientError) {
        guard !filters.isEmpty else { return }
        let call = AwaitedOutcome<Void>()
        engine.post(.forget(filters, properties, call))
        if case .failure(let error) = await call.outcome(cancelled: {}) { throw error }
    }

    /// Ends all subscriptions that have this name in their `SubscriptionSettings`, as `Messages.cancel()` does; returns
    /// when no message comes for them any more.
    public func endSubscriptions(named name: String) async { await endSubscriptions { $0.name == name } }

    /// Ends all subscriptions of this client: messages, readings, collections, responders. Inboxes go on to keep what
    /// comes, and requests to have answers.
    public func endAllSubscriptions() async { await endSubscriptions { _ in true } }

    private func endSubscriptions(where isMeant: @escaping @Sendable (SubscriptionSettings) -> Bool) async {
        let call = AwaitedOutcome<Void>()
        engine.post(.records { $0.subscriptions.end(where: isMeant, call) })
        await Task(executorPreference: engine.loop.taskExecutor) { _ = await call.outcome(cancelled: {}) }.value
    }

    /// Subscribes at once, or as soon as there is a connection; what comes waits until it is taken. Messages end when
    /// the value and its iterators are gone, which ends the subscription, or when the client ends. Without a filter
    /// they end with `ClientError.settings`.
    public func messages(_ wanted: [TopicFilter], _ settings: SubscriptionSettings) -> Messages {
        let backlog = settings.backlog ?? (engine.records == nil ? .hold : .spill)
        let filters: [TopicFilter]
        do throws(ClientError) { filters = try settings.serverFilters(wanted) } catch { return Messages(failing: error) }
        let pipe = MessagePipe(filters: filters, settings: settings, backlog: backlog, source: engine)
        if filters.isEmpty {
            pipe.end(.settings("a subscription has at least one filter"))
        } else if backlog == .spill {
            engine.subscribeByStore(pipe)
        } else {
            engine.post(.subscribe(pipe))
        }
        return Messages(pipe)
    }
}

extension Client: RequestingClient {
    package var interceptors: [any Interceptor] { engine.settings.interceptors }

    /// Sends a request and returns its answer, or throws why there is none within the timeout.
    public func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        try await exchange(request, to: topic, timeout: timeout)
    }

    /// Ends all requests that have no answer yet, with `ClientError.cancelled`.
    public func cancelAllRequests() { requests.endAll(.cancelled) }

    /// The connection as it is now, nil while there is none.
    public var connection: ConnectedServer? { ConnectedServer(state) }

    /// The connection that stands, nil while there is none: first as it is now, then after every change. A slow
    /// consumer may miss some, never the latest.
    public func connections() -> AsyncStream<ConnectedServer?> {
        let states = engine.state.values
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task(executorPreference: engine.loop.taskExecutor) {
                var last: ConnectedServer??
                for await state in states {
                    // A state may be new for what its subscriptions do alone.
                    let server = ConnectedServer(state)
                    if last != .some(server) { continuation.yield(server) }
                    last = .some(server)
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}

extension ConnectedServer {
    fileprivate init?(_ state: ConnectionState) {
        guard case .online(let facts) = state else { return nil }
        self.init(
            connectionNumber: facts.connectionNumber, version: facts.version,
            isSessionPresent: facts.isSessionPresent,
            responseInformation: facts.properties.responseInformation.map { "\($0)" })
    }
}

/// Publishes and receives messages: a `Client`, or a double of one in tests.
public protocol Messaging: Sendable {
    /// Publishes, and returns when the server has taken the message over; at QoS 0 when it is on its way to the
    /// connection.
    ///
    /// Messages of QoS 1 and 2 wait for a connection. Cancelling the task withdraws what was not sent. Throws
    /// `ClientError.refused` with the server's reason, and what the client itself refuses.
    @discardableResult
    func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt

    /// Subscribes at once, or as soon as there is a connection; what comes waits until it is taken. Messages end when
    /// the value and its iterators are gone, which ends the subscription, or when the client ends.
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
