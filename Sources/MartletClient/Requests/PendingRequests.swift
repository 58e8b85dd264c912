internal import ClientCore
internal import Platform

/// The requests of one client that wait for answers, and the one topic to which all its answers come.
///
/// The topic is subscribed to before the first request leaves: `PREFIX/` and 64 random bits, where the prefix is the
/// server's Response Information if it gives any, which it does where `ClientSettings.requestsResponseInformation` asks
/// for it. An answer is matched by that topic and its Correlation Data.
///
/// Answers come at QoS 0: those of QoS 1 and 2 would stand behind the messages that the server has sent and that are
/// not acknowledged, among them the one whose handler asks. An answer that is on its way when the connection breaks is
/// lost, and its request times out.
package final class PendingRequests: Sendable {
    typealias Table = CorrelationTable<AwaitedOutcome<ReceivedMessage>>

    private struct State {
        var table = Table(bytesMax: Limits.requestBytesMax)
        var responses = Responses.none
        /// Tells one attempt to subscribe from the next.
        var attempt = 0
        /// Rings at the first deadline of open requests, or before. One for all: a timer of each would live on when its
        /// request has ended.
        var alarm: (deadline: Duration, task: Task<Void, Never>)?
        /// Since the first request, by the client's clock.
        var stopwatch: Stopwatch?
    }

    /// The subscription for answers.
    private enum Responses {
        case none
        /// Waits for the server.
        case subscribing(Task<Result<TopicName, ClientError>, Never>)
        case standing(TopicName, Messages)
    }

    private let state = Locked(State())
    private let prefix: String
    private let chance: @Sendable () -> UInt64

    /// - Parameter prefix: what topics of answers begin with, where the server gives no Response Information.
    package convenience init(prefix: String = "responses") { self.init(prefix: prefix) { RandomBytes.seed() } }

    /// - Parameter chance: random bits.
    init(prefix: String = "responses", chance: @escaping @Sendable () -> UInt64) { (self.prefix, self.chance) = (prefix, chance) }

    deinit {
        state.withLock { state in
            state.alarm?.task.cancel()
            switch state.responses {
            case .none: break
            case .subscribing(let task): task.cancel()
            // The subscription ends with its last reference.
            case .standing: break
            }
        }
    }

    /// How many requests have no answer yet.
    package var count: Int { state.withLock(\.table.count) }

    /// The requests that wait, with their bytes: at most `Limits.requestBytesMax`.
    var size: ClientSize.Part { state.withLock { ClientSize.Part(messages: $0.table.count, bytes: $0.table.byteCount) } }

    /// How many answers came after their request had ended.
    package var lateAnswerCount: Int { state.withLock(\.table.lateCount) }

    /// How many messages came that answer nothing that was asked.
    package var strangeAnswerCount: Int { state.withLock(\.table.strangeCount) }

    /// Sends a request and returns its answer's message, or why there is none.
    func exchange(
        _ publication: Publication, timeout: Duration, through client: some RequestingClient
    ) async -> Result<ReceivedMessage, ClientError> {
        let call = AwaitedOutcome<ReceivedMessage>()
        guard let number = open(call, publication.byteCount, timeout, client.clock) else { return .failure(.queueFull) }
        let stopSending = begin(publication, number, timeout, client)
        let outcome = await call.outcome { self.end(number, .cancelled) }
        if case .failure = outcome { stopSending() }
        giveUpSubscribingIfIdle()
        return outcome
    }

    /// Sends a request, and returns what stops that.
    private func begin(
        _ publication: Publication, _ number: UInt64, _ timeout: Duration, _ client: some RequestingClient
    ) -> () -> Void {
        if let client = client as? Client, let topic = standingTopic {
            let request = request(publication, number, timeout, answeredTo: topic)
            if let stop = client.publish(request, heardBy: { self.published(number, $0) }) { return stop }
        }
        // Not a child of this task: a request ends when it ends, whatever a double's `publish` does about cancellation.
        let sending = Task { await send(publication, number, timeout, client) }
        return { sending.cancel() }
    }

    func endAll(_ error: ClientError) {
        for call in state.withLock({ $0.table.endAll() }) { call.complete(.failure(error)) }
    }

    private func end(_ number: UInt64, _ error: ClientError) {
        _ = state.withLock { $0.table.end(number) }?.complete(.failure(error))
    }

    private func send(
        _ publication: Publication, _ number: UInt64, _ timeout: Duration, _ client: some RequestingClient
    ) async {
        let stopwatch = Stopwatch(client.clock)
        do throws(ClientError) {
            let responseTopic = try await responseTopic(client).get()
            guard state.withLock({ $0.table.isOpen(number) }) else { return }
            let request = request(publication, number, timeout - stopwatch.read(), answeredTo: responseTopic)
            published(number, .success(try await client.publish(request)))
        } catch {
            // Its expiry is the request's timeout.
            end(number, error == .expired ? .timedOut : error)
        }
    }

    /// What the server says of a request. The answer comes by itself.
    private func published(_ number: UInt64, _ outcome: Result<PublishReceipt, ClientError>) {
        switch outcome {
        case .success(let receipt): if receipt.reason == .noMatchingSubscribers { end(number, .noResponder) }
        case .failure(let error): end(number, error)
        }
    }

    private func request(
        _ publication: Publication, _ number: UInt64, _ timeout: Duration, answeredTo topic: TopicName
    ) -> Publication {
        var publication = publication
        var properties = publication.properties
        properties.responseTopic = topic.text
        properties.correlationData = Table.correlationData(number)
        properties.messageExpiryInterval = Self.expirySeconds(timeout)
        publication.properties = properties
        return publication
    }

    /// The Message Expiry Interval of a request, in whole seconds, at least 1: the server forgets what nobody waits for
    /// any more.
    private static func expirySeconds(_ duration: Duration) -> UInt32 {
        let (seconds, attoseconds) = duration.components
        return UInt32(clamping: max(1, seconds + (attoseconds > 0 ? 1 : 0)))
    }
}

// MARK: - Deadlines

extension PendingRequests {
    private func open(
        _ call: AwaitedOutcome<ReceivedMessage>, _ byteCount: Int, _ timeout: Duration, _ clock: any Clock<Duration>
    ) -> UInt64? {
        state.withLock { state in
            let stopwatch = state.stopwatch ?? Stopwatch(clock)
            state.stopwatch = stopwatch
            let now = stopwatch.read()
            // A century, so that no sum overflows.
            let deadline = now + min(timeout, .seconds(3_155_760_000))
            let number = state.table.open(call, deadline: deadline, byteCount: byteCount)
            if let alarm = state.alarm, alarm.deadline <= deadline { return number }
            state.alarm?.task.cancel()
            state.alarm = alarm(at: deadline, now, clock)
            return number
        }
    }

    private func alarm(
        at deadline: Duration, _ now: Duration, _ clock: any Clock<Duration>
    ) -> (deadline: Duration, task: Task<Void, Never>) {
        let task = Task { [weak self] in
            guard (try? await clock.sleep(for: deadline - now)) != nil else { return }
            self?.endDue(clock)
        }
        return (deadline, task)
    }

    /// Ends what is due. What comes due less than a millisecond later ends with the next.
    private func endDue(_ clock: any Clock<Duration>) {
        let due = state.withLock { state -> [AwaitedOutcome<ReceivedMessage>] in
            guard let now = state.stopwatch?.read() else { return [] }
            let due = state.table.endDue(now: now)
            state.alarm?.task.cancel()
            state.alarm = state.table.nextDeadline.map { alarm(at: max($0, now + .milliseconds(1)), now, clock) }
            return due
        }
        for call in due { call.complete(.failure(.timedOut)) }
    }
}

// MARK: - The topic of answers

extension PendingRequests {
    private func responseTopic(_ client: some RequestingClient) async -> Result<TopicName, ClientError> {
        let responses = state.withLock { state in
            if case .none = state.responses {
                state.attempt += 1
                let attempt = state.attempt
                state.responses = .subscribing(Task { await self.subscribe(client, attempt) })
            }
            return state.responses
        }
        switch responses {
        case .none: return .failure(.cancelled)
        case .subscribing(let task): return await task.value
        case .standing(let topic, _): return .success(topic)
        }
    }

    private var standingTopic: TopicName? {
        state.withLock { if case .standing(let topic, _) = $0.responses { topic } else { nil } }
    }

    private func subscribe(_ client: some RequestingClient, _ attempt: Int) async -> Result<TopicName, ClientError> {
        let result: Result<(TopicName, Messages), ClientError>
        do throws(ClientError) {
            let server = try await client.firstConnection()
            guard server.version == .v5 else { throw .unsupported("requests need MQTT 5.0, which the server does not speak") }
            let (topic, filter) = try responseTopic(server)
            let messages = client.messages([filter], Self.settings)
            try await messages.grantedUnlessCancelled()
            result = .success((topic, messages))
        } catch {
            result = .failure(error)
        }
        let isWanted = state.withLock { state in
            guard state.attempt == attempt, case .subscribing = state.responses else { return false }
            state.responses = if case .success((let topic, let messages)) = result { .standing(topic, messages) } else { .none }
            return true
        }
        guard isWanted else { return .failure(.cancelled) }
        // Last: it may have ended already.
        if case .success((_, let messages)) = result { messages.deliver(to: self) }
        return result.map(\.0)
    }

    private static var settings: SubscriptionSettings {
        var settings = SubscriptionSettings(qos: .atMostOnce, backlog: .hold, acknowledging: .atOnce)
        settings.retainHandling = .doNotSend
        settings.isForAnswers = true
        return settings
    }

    private func responseTopic(_ server: ConnectedServer) throws(ClientError) -> (TopicName, TopicFilter) {
        var text = server.responseInformation ?? prefix
        if text.utf8.last != UInt8(ascii: "/") { text += "/" }
        let digits = String(chance(), radix: 16)
        text += String(repeating: "0", count: 16 - digits.count) + digits
        guard let topic = TopicName(text), let filter = TopicFilter(text), !filter.isShared else {
            throw .unsupported("answers cannot come to “\(text)”")
        }
        return (topic, filter)
    }

    /// Gives up the subscription for answers when no request waits, so that it does not keep a client alive whose
    /// server never comes.
    private func giveUpSubscribingIfIdle() {
        let task = state.withLock { state -> Task<Result<TopicName, ClientError>, Never>? in
            guard state.table.count == 0, case .subscribing(let task) = state.responses else { return nil }
            state.responses = .none
            return task
        }
        task?.cancel()
    }
}

extension PendingRequests: MessageReceiver {
    /// An answer.
    func received(_ message: ReceivedMessage) {
        let correlationData = message.correlationData
        _ = state.withLock { $0.table.answer(correlationData) }?.complete(.success(message))
    }

    func ended(_ error: ClientError) {
        let ended = state.withLock { state in
            defer { state.responses = .none }
            return state.responses
        }
        withExtendedLifetime(ended) { endAll(error) }
    }
}

extension Limits {
    /// Bytes of requests that wait for their answers; what is more is refused.
    static let requestBytesMax = 64 << 20
}
