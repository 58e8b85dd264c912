/// A client without a server, for tests and previews: subscribers get samples, requests are answered with samples, and what is published
/// comes to its own subscribers, also of other tasks; responders of its own go before samples.
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
    /// Who change what is published, and are told how requests end.
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
        try await interceptors.publish(publication, clock: clock) { (publication) throws(ClientError) in try take(publication) }
    }

    private func take(_ publication: Publication) throws(ClientError) -> PublishReceipt {
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
