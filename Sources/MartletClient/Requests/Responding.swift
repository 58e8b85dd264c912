internal import ClientCore
internal import Glibc
internal import Platform
internal import Synchronization

extension ConnectionObserving {
    /// Subscribes to the requests of a call, and returns when the server has granted that: from then on nobody who asks
    /// is told that there is no responder. What comes waits until `Responder.run()`, which answers.
    ///
    /// ```swift
    /// let responder = try await client.responder(for: Home.setTarget) { request, context in try await heat(request, context.parameters) }
    /// try await responder.run()
    /// ```
    /// A request is acknowledged after its answer. One that comes again is answered from a bounded memory of 1000
    /// answers and 4 MiB in this process, and does not run again. What the body throws as the request's `Failure` is
    /// the answer; of anything else the asking client learns only that the responder failed. A request without Response
    /// Topic runs and is not answered.
    ///
    /// Waits for a connection where there is none. Throws `ClientError.unsupported` where the server speaks no MQTT
    /// 5.0, `ClientError.refused` if it refuses the subscription, `ClientError.cancelled` with its task.
    ///
    /// - `group`: responders that name the same group share the requests, each of which comes to one of them: a shared
    ///   subscription.
    /// - `concurrency`: how many requests run at a time; others wait.
    public func responder<Asked: Request, each Part>(
        for call: Call<Asked, repeat each Part>, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<repeat each Part>) async throws -> Asked.Response
    ) async throws(ClientError) -> Responder {
        let responder = try begin(call, group, concurrency, body)
        do throws(ClientError) {
            try await responder.ready()
            return responder
        } catch {
            responder.cancel()
            throw error
        }
    }

    /// As above, for the topic of the request's type.
    public func responder<Asked: Request>(
        for type: Asked.Type, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<>) async throws -> Asked.Response
    ) async throws(ClientError) -> Responder {
        let call = Call(Asked.self) { "\(Asked.topic)" }
        return try await responder(for: call, sharedBy: group, concurrency: concurrency, body)
    }

    /// Answers the requests of a call until the task is cancelled or the client ends: `responder(for:)` and its `run()`
    /// in one, for whoever need not know when it is ready.
    public func respond<Asked: Request, each Part>(
        to call: Call<Asked, repeat each Part>, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<repeat each Part>) async throws -> Asked.Response
    ) async throws(ClientError) {
        try await begin(call, group, concurrency, body).run()
    }

    /// As above, for the topic of the request's type.
    public func respond<Asked: Request>(
        to type: Asked.Type, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<>) async throws -> Asked.Response
    ) async throws(ClientError) {
        let call = Call(Asked.self) { "\(Asked.topic)" }
        try await respond(to: call, sharedBy: group, concurrency: concurrency, body)
    }

    private func begin<Asked: Request, each Part>(
        _ call: Call<Asked, repeat each Part>, _ group: String?, _ concurrency: Int,
        _ body: @escaping @Sendable (Asked, CallContext<repeat each Part>) async throws -> Asked.Response
    ) throws(ClientError) -> Responder {
        let filter = try call.pattern.template.filter()
        var settings = SubscriptionSettings(
            qos: .exactlyOnce, backlog: .hold, acknowledging: .whenDone, sharedBy: group)
        settings.retainHandling = .doNotSend
        return Responder(client: self, messages: messages([filter], settings), concurrency: max(1, concurrency)) {
            (message, topic) throws(ClientError) in
            try await answer(message, to: topic, call, body)
        }
    }
}

/// Runs the body for a request and returns the answer to the topic. Throws what makes the request unreadable.
private func answer<Asked: Request, each Part>(
    _ message: Message, to topic: TopicName, _ call: Call<Asked, repeat each Part>,
    _ body: @Sendable (Asked, CallContext<repeat each Part>) async throws -> Asked.Response
) async throws(ClientError) -> Publication {
    let context = try CallContext(message, call)
    let request = try Asked.coding.decode(message.received)
    var answer = Publication(topic, Payload(), qos: .atLeastOnce, retain: false)
    do {
        try Asked.responseCoding.encode(try await body(request, context), into: &answer)
    } catch let failure as Asked.Failure {
        let status: AnswerStatus = (try? Asked.failureCoding.encode(failure, into: &answer)) == nil ? .internal : .failure
        answer.properties.userProperties = [status.userProperty]
    } catch {
        answer.properties.userProperties = [AnswerStatus.internal.userProperty]
    }
    return answer
}

/// Answers requests: subscribed from when it is made, until `run()` has returned, or it is cancelled or given up.
public struct Responder: Sendable {
    private let client: any ConnectionObserving
    private let messages: Messages
    private let concurrency: Int
    private let answer: @Sendable (Message, TopicName) async throws(ClientError) -> Publication
    private let cache = Locked(ResponseCache())
    private let stopFlag = Flag()
    private let isRunning = Flag()

    private final class Flag: Sendable {
        let value = Atomic(false)
    }

    init(
        client: any ConnectionObserving, messages: Messages, concurrency: Int,
        answer: @escaping @Sendable (Message, TopicName) async throws(ClientError) -> Publication
    ) {
        (self.client, self.messages, self.concurrency, self.answer) = (client, messages, concurrency, answer)
    }

    private var isStopped: Bool { stopFlag.value.load(ordering: .relaxed) }

    /// Answers until the task is cancelled, `cancel()` is called or the client ends; then takes up no more, ends the
    /// subscription, and returns when those requests that run are answered and acknowledged. Of those that wait the
    /// asking clients learn that nobody answers. To be called once.
    ///
    /// Throws what ends the subscription: `ClientError.ended` is none of it.
    public func run() async throws(ClientError) {
        defer { messages.cancel() }
        // Not a child of this task: what runs is not cancelled with it.
        let work = Task { await answerUntilEnd() }
        let result = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            stop()
        }
        try result.get()
    }

    /// Ends it: `run()` returns as if its task were cancelled; without one the subscription ends at once.
    public func cancel() { isRunning.value.load(ordering: .relaxed) ? stop() : messages.cancel() }

    /// Waits until the server has granted the subscription.
    func ready() async throws(ClientError) {
        try await messages.grantedUnlessCancelled()
        try await checkVersion()
    }

    /// Takes up nothing more. Any thread may call.
    private func stop() {
        stopFlag.value.store(true, ordering: .relaxed)
        messages.finish()
    }

    private func answerUntilEnd() async -> Result<Void, ClientError> {
        isRunning.value.store(true, ordering: .relaxed)
        do throws(ClientError) {
            try await messages.granted()
            try await checkVersion()
            try await answerAll()
            return .success(())
        } catch {
            return isStopped ? .success(()) : .failure(error)
        }
    }

    private func checkVersion() async throws(ClientError) {
        for await server in client.connections() {
            if let server, server.version != .v5 {
                throw .unsupported("requests need MQTT 5.0, which the server does not speak")
            }
            return
        }
    }

    private func answerAll() async throws(ClientError) {
        let failure = await withTaskGroup(of: Void.self) { group -> ClientError? in
            var iterator = messages.makeAsyncIterator()
            var runningCount = 0
            do throws(ClientError) {
                while let message = try await iterator.next() {
                    if runningCount == concurrency {
                        await group.next()
                        runningCount -= 1
                    }
                    if isStopped {
                        await turnAway(message)
                    } else {
                        group.addTask { await respond(to: message) }
                        runningCount += 1
                    }
                }
                await group.waitForAll()
                // What has come meanwhile.
                while let message = try await iterator.next() { await turnAway(message) }
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
    }

    /// The request is not run: whoever asks is told, so that they need not wait.
    private func turnAway(_ message: Message) async {
        defer { message.done() }
        let properties = message.properties
        guard let responseTopic = properties.responseTopic.flatMap({ TopicName($0.bytes) }) else { return }
        await publish(statusAnswer(.unavailable, responseTopic), properties)
    }

    private func statusAnswer(_ status: AnswerStatus, _ topic: TopicName) -> Publication {
        var answer = Publication(topic, Payload(), qos: .atLeastOnce, retain: false)
        answer.properties.userProperties = [status.userProperty]
        return answer
    }

    private func respond(to message: Message) async {
        defer { message.done() }
        let properties = message.properties
        guard let responseTopic = properties.responseTopic.flatMap({ TopicName($0.bytes) }) else {
            _ = try? await answer(message, message.topic)
            return
        }
        guard let correlationData = properties.correlationData else {
            await publish(await answerOrStatus(message, responseTopic), properties)
            return
        }
        let key = ResponseCache.Key(responseTopic: responseTopic, correlationData: correlationData)
        switch cache.withLock({ $0.admit(key) }) {
        case .isRunning: break
        case .answered(let answer): await publish(answer, properties)
        case .run:
            let answer = await answerOrStatus(message, responseTopic)
            cache.withLock { $0.finish(key, answer) }
            await publish(answer, properties)
        }
    }

    private func answerOrStatus(_ message: Message, _ topic: TopicName) async -> Publication {
        do throws(ClientError) {
            return try await answer(message, topic)
        } catch {
            return statusAnswer(.undecodable, topic)
        }
    }

    /// An answer that the server refuses has nobody who could be told.
    private func publish(_ answer: Publication, _ request: Properties) async {
        var answer = answer
        var properties = answer.properties
        properties.correlationData = request.correlationData
        properties.messageExpiryInterval = request.messageExpiryInterval
        answer.properties = properties
        _ = try? await client.publish(answer)
    }
}

/// What a responder knows of a request beside the request itself.
public struct CallContext<each Part: TopicParameter>: Sendable {
    /// The time since 1970-01-01 00:00 UTC, without leap seconds, at which the request was taken up.
    public let time: Duration
    /// The request's message.
    public let message: Message
    /// The parameters of its topic: a tuple, or the value itself if there is one parameter.
    public let parameters: (repeat each Part)

    /// The topic at which it was asked.
    public var topic: TopicName { message.topic }
    /// User Properties, Message Expiry and what else the request says; none before MQTT 5.0.
    public var properties: Properties { message.properties }

    init(_ message: Message, _ call: Call<some Request, repeat each Part>) throws(ClientError) {
        self.message = message
        time = .sinceEpoch
        // Last: the compiler fails on what would have to end these when a later line throws.
        parameters = try call.parameters(of: message.topic)
    }
}

extension Duration {
    /// The time since 1970-01-01 00:00 UTC.
    fileprivate static var sinceEpoch: Duration {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
