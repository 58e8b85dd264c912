package import ClientCore
internal import Glibc
internal import Platform

/// A client without a server, for tests and previews: subscribers get samples, requests are answered with samples, and
/// what is published comes to its own subscribers, also of other tasks; responders of its own go before samples.
///
/// ```swift
/// let client = StubClient(Home.self)                                  // the samples of a catalogue
/// let slow = StubClient(Home.self, answering: .after(.seconds(1)))
/// let refusing = StubClient(Home.self, answering: .failing(.notAuthorized))
/// let network = StubClient(PlaceSearch.self)                          // the sample of one request
/// let local = StubClient(.folder("Samples"))                          // Samples/map/place/search.json
/// ```
public final class StubClient: RequestingClient {
    package let server = StubServer()
    package let requests = PendingRequests()
    /// By which samples are late and requests time out.
    public let clock: any Clock<Duration>
    /// The interceptors, which may change what is published and are told how requests end.
    public let interceptors: [any Interceptor]
    private let samples: StubSamples
    private let answering: Answering

    /// When samples come.
    public enum Answering: Hashable, Sendable {
        /// At once.
        case immediately
        /// After so long, by the client's clock.
        case after(Duration)
        /// Never: what is published and subscribed to is refused for this reason.
        case failing(ReasonCode)
    }

    /// - `clock`: by which samples are late and requests time out.
    /// - `interceptors`: asked as a `Client` asks them.
    public init(
        _ samples: StubSamples = .none, answering: Answering = .immediately, clock: any Clock<Duration> = ContinuousClock(),
        interceptors: [any Interceptor] = []
    ) {
        (self.samples, self.answering, self.clock, self.interceptors) = (samples, answering, clock, interceptors)
    }

    /// With the samples of a catalogue.
    public convenience init<Catalogue: EndpointCatalogue>(
        _ catalogue: Catalogue.Type, answering: Answering = .immediately, clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.init(.declared(Catalogue.all), answering: answering, clock: clock)
    }

    /// With the sample of one request.
    public convenience init<Asked: Request & Sampled>(
        _ request: Asked.Type, answering: Answering = .immediately, clock: any Clock<Duration> = ContinuousClock()
    ) where Asked.Sample == Asked.Response {
        self.init(.declared([Call(Asked.self) { "\(Asked.topic)" }]), answering: answering, clock: clock)
    }

    deinit { server.end() }

    /// Sends a request and returns its answer, or throws why there is none within the timeout.
    public func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        try await exchange(request, to: topic, timeout: timeout)
    }

    /// Ends all requests that have no answer yet, with `ClientError.cancelled`.
    public func cancelAllRequests() { requests.endAll(.cancelled) }

    /// Always there: the first connection.
    public var connection: ConnectedServer? { ConnectedServer(connectionNumber: 1) }

    /// The one connection, which stays.
    public func connections() -> AsyncStream<ConnectedServer?> {
        AsyncStream { $0.yield(ConnectedServer(connectionNumber: 1)) }
    }

    /// Publishes, and returns when the server has taken the message over; at QoS 0 when it is on its way to the
    /// connection.
    ///
    /// Messages of QoS 1 and 2 wait for a connection. Cancelling the task withdraws what was not sent. Throws
    /// `ClientError.refused` with the server's reason, `ClientError.queueFull` by ``ClientSettings/queue``,
    /// `ClientError.notConnected` at QoS 0 by ``ClientSettings/offlineAtMostOnce``, and what an interceptor throws.
    @discardableResult
    public func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt {
        try await interceptors.publish(publication, clock: clock) { (publication) throws(ClientError) in try accept(publication) }
    }

    private func accept(_ publication: Publication) throws(ClientError) -> PublishReceipt {
        if case .failing(let reason) = answering { throw .refused(reason) }
        if server.publish(publication) || publication.qos == .atMostOnce { return PublishReceipt() }
        guard publication.properties.responseTopic != nil, let answer = try samples.answer(to: publication) else {
            return PublishReceipt(reason: .noMatchingSubscribers)
        }
        whenAnswering { server in server.publish(answer) }
        return PublishReceipt()
    }

    /// Ends all subscriptions that have this name in their `SubscriptionSettings`.
    public func endSubscriptions(named name: String) async { server.endSubscriptions { $0.name == name } }

    /// Ends all subscriptions. Requests go on to have answers.
    public func endAllSubscriptions() async { server.endSubscriptions { _ in true } }

    /// Subscribes, and gets what is published here, what was retained, and the samples of topics that match.
    public func messages(_ wanted: [TopicFilter], _ settings: SubscriptionSettings) -> Messages {
        let filters: [TopicFilter]
        do throws(ClientError) { filters = try settings.serverFilters(wanted) } catch { return Messages(failing: error) }
        if case .failing(let reason) = answering { return Messages(failing: .refused(reason)) }
        let pipe = server.subscribe(filters, settings)
        do throws(ClientError) {
            for filter in filters where !filter.isShared {
                let kept = Set(server.retained)
                for sample in try samples.messages(for: filter) where !kept.contains(sample.topic) {
                    whenAnswering { server in server.publish(sample, to: pipe, retain: sample.retain) }
                }
            }
        } catch {
            pipe.end(error)
        }
        return Messages(pipe)
    }

    private func whenAnswering(_ action: @escaping @Sendable (StubServer) -> Void) {
        guard case .after(let duration) = answering else { return action(server) }
        Task { [server, clock] in
            try await clock.sleep(for: duration)
            action(server)
        }
    }
}

/// Where a `StubClient` has its samples from.
public struct StubSamples: Sendable {
    private let source: any StubSource

    /// No samples: only what is published comes.
    public static let none = declared([])

    /// The samples of endpoints and calls. Where a subscription leaves a parameter open, its sample comes once, at the
    /// first case of an enumeration, or at the parameter's name or 1, whichever is a value of its type.
    public static func declared(_ declarations: [any EndpointDeclaration]) -> StubSamples {
        StubSamples(source: DeclaredSamples(declarations: declarations.map(\.declaration)))
    }

    /// Files below a folder, named by their topic and what they are: `map/place/search.json` (JSON), `.txt` (text) or
    /// `.bin`. They are read when they are asked for; filters with wildcards find none.
    public static func folder(_ path: String) -> StubSamples { StubSamples(source: SampleFolder(path: path)) }

    /// The samples for a subscription.
    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] { try source.messages(for: filter) }

    /// The answer to a request, nil if there is no sample for it.
    func answer(to request: Publication) throws(ClientError) -> Publication? {
        guard let responseTopic = request.properties.responseTopic.flatMap({ TopicName($0.bytes) }) else { return nil }
        guard var answer = try source.answer(at: request.topic) else { return nil }
        answer.topic = responseTopic
        answer.properties.correlationData = request.properties.correlationData
        return answer
    }
}

private protocol StubSource: Sendable {
    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication]
    /// The topic of what is returned does not matter.
    func answer(at topic: TopicName) throws(ClientError) -> Publication?
}

private struct DeclaredSamples: StubSource {
    let declarations: [EndpointDescription]

    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] {
        var samples: [Publication] = []
        for declaration in declarations where declaration.kind != .call {
            guard let topic = declaration.template.topic(chosenBy: filter) else { continue }
            if let sample = try declaration.sampleMessage(topic) { samples.append(sample) }
        }
        return samples
    }

    func answer(at topic: TopicName) throws(ClientError) -> Publication? {
        for declaration in declarations where declaration.kind == .call {
            if try declaration.template.filter().matches(topic) { return try declaration.sampleMessage(topic) }
        }
        return nil
    }
}

private struct SampleFolder: StubSource {
    let path: String
    private static let kinds: [(suffix: String, contentType: EncodedString?)] = [
        (".json", "application/json"), (".txt", "text/plain"), (".bin", nil),
    ]

    func messages(for filter: TopicFilter) throws(ClientError) -> [Publication] {
        guard let topic = TopicName(filter.bytes), let sample = try answer(at: topic) else { return [] }
        return [sample]
    }

    func answer(at topic: TopicName) throws(ClientError) -> Publication? {
        let levels = "\(topic)".split(separator: "/", omittingEmptySubsequences: false)
        // Nothing outside the folder.
        guard levels.allSatisfy({ !["", ".", ".."].contains($0) }) else { return nil }
        for kind in Self.kinds {
            let file = "\(path)/\(topic)\(kind.suffix)"
            do throws(WholeFile.Failure) {
                var sample = Publication(
                    topic, Payload(try WholeFile.bytes(of: file, bytesMax: Limits.sampleBytesMax)), qos: .atLeastOnce)
                sample.retain = true
                sample.properties.contentType = kind.contentType
                return sample
            } catch .refused(let error) where [ENOENT, ENOTDIR].contains(error.errno) {
                continue
            } catch {
                throw .settings("\(file): \(error)")
            }
        }
        return nil
    }
}

extension TopicTemplate {
    /// A topic that the filter matches, where there is one: parameters are as the filter says, else some value of their
    /// type.
    func topic(chosenBy filter: TopicFilter) -> TopicName? {
        let wanted = filter.matchingBytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        var writer = TopicWriter(self)
        for case (let index, .parameter(let name, let type)) in levels.enumerated() {
            let asked = index < wanted.count ? String(decoding: wanted[index], as: UTF8.self) : "#"
            guard let level = type.level(of: asked, name) else { return nil }
            writer.add(level)
        }
        return (try? writer.topic()).flatMap { filter.matches($0) ? $0 : nil }
    }
}

extension TopicParameter {
    /// The level that is asked for, for a wildcard that of some value; nil if there is none.
    fileprivate static func level(of asked: String, _ name: String) -> String? {
        if !["+", "#"].contains(asked) { return Self(topicLevel: asked)?.topicLevel == asked ? asked : nil }
        if let type = Self.self as? any CaseIterable.Type { return (firstCase(of: type) as? Self)?.topicLevel }
        return [name, "1", "true"].first { Self(topicLevel: $0)?.topicLevel == $0 }
    }
}

private func firstCase<Type: CaseIterable>(of type: Type.Type) -> Any? { type.allCases.first }

/// A server in memory for the one client that has it: matches filters, keeps retained messages, gives shared
/// subscriptions their turns, and remembers what was acknowledged. Of QoS 1 and 2 it sends on however much waits, so a
/// backlog of `.hold` has no bound for these here.
package final class StubServer: MessageSource {
    private struct Subscription {
        let pipe: MessagePipe
        let filters: [TopicFilter]
    }

    private struct State {
        var subscriptions: [Subscription] = []
        /// In the order in which their topics were first kept.
        var retained: [TopicName: Publication] = [:]
        var retainedOrder: [TopicName] = []
        var nextToken: UInt64 = 1
        var publishedCount = 0
        /// How many messages each group has got.
        var turns: [TopicFilter: Int] = [:]
    }

    /// The server's state. Whoever has the lock may hand messages to pipes, which take them from one thread at a time.
    private let state = Locked(State())
    /// Apart from the state, as pipes settle while they are handed messages.
    private let settled = Locked<[Settlement]>([])

    /// What a consumer said of a message of QoS 1 or 2.
    package struct Settlement: Hashable {
        package var token: AcknowledgementToken
        package var reason: ReasonCode
    }

    /// What was acknowledged or refused, in this order.
    package var settlements: [Settlement] { settled.value }

    /// How many messages were published to whoever wants them.
    package var publishedCount: Int { state.withLock(\.publishedCount) }

    /// The filters that are subscribed to.
    package var filters: [TopicFilter] { state.withLock { $0.subscriptions.flatMap(\.filters) } }

    /// The topics of retained messages, in the order in which they were first kept.
    package var retained: [TopicName] { state.withLock(\.retainedOrder) }

    package func subscribe(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> MessagePipe {
        let backlog: SubscriptionSettings.Backlog =
            switch settings.backlog {
            // There is no store.
            case nil, .spill: .hold
            case let given?: given
            }
        let pipe = MessagePipe(filters: filters, settings: settings, backlog: backlog, source: self)
        state.withLock { state in
            state.subscriptions.append(Subscription(pipe: pipe, filters: filters))
            guard settings.retainHandling != .doNotSend else { return }
            for topic in state.retainedOrder where filters.contains(where: { !$0.isShared && $0.matches(topic) }) {
                if let publication = state.retained[topic] { hand(publication, to: pipe, retain: true, &state) }
            }
        }
        pipe.grant()
        return pipe
    }

    /// Hands the message to all whom it concerns; returns whether there was one.
    @discardableResult
    package func publish(_ publication: Publication) -> Bool {
        state.withLock { state in
            state.publishedCount += 1
            if publication.retain { keep(publication, &state) }
            let receivers = receivers(of: publication.topic, &state)
            for pipe in receivers {
                hand(publication, to: pipe, retain: pipe.settings.retainAsPublished && publication.retain, &state)
            }
            return !receivers.isEmpty
        }
    }

    /// Hands the message to one subscription.
    package func publish(_ publication: Publication, to pipe: MessagePipe, retain: Bool) {
        state.withLock { hand(publication, to: pipe, retain: retain, &$0) }
    }

    private func keep(_ publication: Publication, _ state: inout State) {
        let topic = publication.topic
        if publication.payload.isEmpty {
            if state.retained.removeValue(forKey: topic) != nil { state.retainedOrder.removeAll { $0 == topic } }
        } else if state.retained.updateValue(publication, forKey: topic) == nil {
            state.retainedOrder.append(topic)
        }
    }

    /// Each subscription once, and of each group one.
    private func receivers(of topic: TopicName, _ state: inout State) -> [MessagePipe] {
        var receivers: [MessagePipe] = []
        var groups: [TopicFilter: [MessagePipe]] = [:]
        var groupOrder: [TopicFilter] = []
        for subscription in state.subscriptions {
            let matching = subscription.filters.filter { $0.matches(topic) }
            if !subscription.pipe.settings.noLocal, matching.contains(where: { !$0.isShared }) {
                receivers.append(subscription.pipe)
            }
            for filter in matching where filter.isShared {
                if groups[filter] == nil { groupOrder.append(filter) }
                groups[filter, default: []].append(subscription.pipe)
            }
        }
        for filter in groupOrder {
            let members = groups[filter, default: []]
            receivers.append(members[state.turns[filter, default: 0] % members.count])
            state.turns[filter, default: 0] += 1
        }
        return receivers
    }

    private func hand(_ publication: Publication, to pipe: MessagePipe, retain: Bool, _ state: inout State) {
        let qos = min(publication.qos, pipe.settings.qos)
        var token: AcknowledgementToken?
        if qos > .atMostOnce {
            token = AcknowledgementToken(number: state.nextToken)
            state.nextToken += 1
        }
        var message = ReceivedMessage(
            topic: publication.topic, payload: publication.payload, qos: qos, retain: retain, duplicate: false, token: token)
        message.properties = publication.properties
        pipe.gather(message)
        for token in pipe.flush().settled { acknowledge(token, .success, from: pipe) }
    }

    /// No more messages come.
    package func end() {
        let subscriptions = state.withLock { state in
            defer { state.subscriptions = [] }
            return state.subscriptions
        }
        for subscription in subscriptions { subscription.pipe.end(nil) }
    }

    func endSubscriptions(where isMeant: (SubscriptionSettings) -> Bool) {
        let pipes = state.withLock { $0.subscriptions.map(\.pipe) }
        for pipe in pipes where !pipe.settings.isForAnswers && isMeant(pipe.settings) { pipe.close() }
    }

    package func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {
        settled.withLock { $0.append(Settlement(token: token, reason: reason)) }
    }

    package func resume(_ pipe: MessagePipe) {}

    package func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) {
        state.withLock { state in state.subscriptions.removeAll { $0.pipe === pipe } }
    }
}

extension Limits {
    /// Bytes of a stub's sample in a file; a larger one is an error.
    static let sampleBytesMax = 64 << 20
}
