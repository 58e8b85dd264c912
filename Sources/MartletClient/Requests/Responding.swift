internal import ClientCore
internal import Platform
internal import Synchronization

extension ConnectionObserving {
    /// Answers the requests of a call until the task is cancelled or the client ends; then takes up no more, and returns when those that run
    /// are answered and acknowledged. Of those that wait the asking clients learn that nobody answers.
    ///
    /// A request is acknowledged after its answer. One that comes again is answered from a bounded memory of 1000 answers and 4 MiB in
    /// this process, and does not run again. What the body throws as the request's `Failure` is the answer; of anything else the asking
    /// client learns only that the responder failed. A request without Response Topic runs and is not answered.
    ///
    /// Throws `ClientError.unsupported` where the server speaks no MQTT 5.0, `ClientError.refused` if it refuses the subscription.
    ///
    /// - `group`: responders that name the same group share the requests, each of which comes to one of them: a shared subscription.
    /// - `concurrency`: how many requests run at a time; others wait.
    public func respond<Asked: Request, each Part>(
        to call: Call<Asked, repeat each Part>, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<repeat each Part>) async throws -> Asked.Response
    ) async throws(ClientError) {
        let filter = try call.pattern.template.filter(sharedBy: group)
        var settings = SubscriptionSettings(qos: .exactlyOnce, backlog: .hold, acknowledging: .whenDone)
        settings.retainHandling = .doNotSend
        let messages = messages([filter], settings)
        defer { messages.cancel() }
        let responder = Responder(client: self, messages: messages, concurrency: max(1, concurrency)) {
            (message, topic) throws(ClientError) in
            try await answer(message, to: topic, call, body)
        }
        // Not a child of this task: what runs is not cancelled with it.
        let work = Task { await responder.run() }
        let result = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            responder.stop()
        }
        try result.get()
    }

    /// As above, for the topic of the request's type.
    public func respond<Asked: Request>(
        to type: Asked.Type, sharedBy group: String? = nil, concurrency: Int = 16,
        _ body: @escaping @Sendable (Asked, CallContext<>) async throws -> Asked.Response
    ) async throws(ClientError) {
        let call = Call(Asked.self) { "\(Asked.topic)" }
        try await respond(to: call, sharedBy: group, concurrency: concurrency, body)
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

/// Takes requests, runs so many at a time, answers and acknowledges them.
private struct Responder<Client: ConnectionObserving>: Sendable {
    let client: Client
    let messages: Messages
    let concurrency: Int
    let answer: @Sendable (Message, TopicName) async throws(ClientError) -> Publication
    private let cache = Locked(ResponseCache())
    private let stopFlag = Flag()

    private final class Flag: Sendable {
        let value = Atomic(false)
    }

    init(
        client: Client, messages: Messages, concurrency: Int,
        answer: @escaping @Sendable (Message, TopicName) async throws(ClientError) -> Publication
    ) {
        (self.client, self.messages, self.concurrency, self.answer) = (client, messages, concurrency, answer)
    }

    private var isStopped: Bool { stopFlag.value.load(ordering: .relaxed) }

    /// Takes up nothing more. Any thread may call.
    func stop() {
        stopFlag.value.store(true, ordering: .relaxed)
        messages.finish()
    }

    func run() async -> Result<Void, ClientError> {
        do throws(ClientError) {
            try await checkServer()
            try await answerAll()
            return .success(())
        } catch {
            return isStopped ? .success(()) : .failure(error)
        }
    }

    private func checkServer() async throws(ClientError) {
        try await messages.granted()
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
