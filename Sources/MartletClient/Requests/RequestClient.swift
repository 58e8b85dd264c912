internal import Platform

/// Sends requests and gets their answers: a `Client`, a `StubClient`, or a double of a program's own.
public protocol RequestClient: Sendable {
    /// Sends a request and returns its answer.
    ///
    /// It ends once and in time: with the answer, or with `.answered` and what the responder says instead, or with
    /// `.client`: `.timedOut`, `.noResponder` when the server knows of nobody who subscribes there or the last one
    /// leaves, `.cancelled` with its task, `.ended` with the client, `.unsupported` where the server speaks no MQTT
    /// 5.0, and what else may happen to a message.
    func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response
}

extension RequestClient {
    /// As above, to the topic of the request's type; without a timeout within 30 seconds.
    public func send<Asked: Request>(
        _ request: Asked, timeout: Duration = .seconds(30)
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        try await send(request, to: CallTopic(), timeout: timeout)
    }

    /// As above, within 30 seconds.
    public func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        try await send(request, to: topic, timeout: .seconds(30))
    }
}

/// Why a request has no response.
public enum RequestError<Failure: Error>: Error {
    /// The responder answered with this instead.
    case answered(Failure)
    /// There is no answer.
    case client(ClientError)
}

extension RequestError: Equatable where Failure: Equatable {}
extension RequestError: Hashable where Failure: Hashable {}

extension RequestError: CustomStringConvertible {
    /// The error as a sentence for people.
    public var description: String {
        switch self {
        case .answered(let failure): "the answer is: \(failure)"
        case .client(let error): "\(error)"
        }
    }
}

/// A client that sends requests as messages: what conforms keeps its requests, and sends by `exchange`.
package protocol RequestingClient: AnyObject, RequestClient, ConnectionObserving {
    /// The requests of this client alone.
    var requests: PendingRequests { get }
    /// The interceptors, which are told how each request ends and may have it sent again.
    var interceptors: [any Interceptor] { get }
    /// Ends all subscriptions but those for answers to requests.
    func endAllSubscriptions() async
}

extension RequestingClient {
    package var interceptors: [any Interceptor] { [] }

    /// As `send` of `RequestClient`.
    package func exchange<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        let interceptors = interceptors
        if interceptors.isEmpty { return try await ask(request, topic, timeout) }
        let time = Stopwatch(clock)
        var attempt = 1
        while true {
            let left = timeout - time.read()
            let outcome: Result<Asked.Response, RequestError<Asked.Failure>>
            do throws(RequestError<Asked.Failure>) {
                outcome = .success(try await ask(request, topic, left))
            } catch {
                outcome = .failure(error)
            }
            let finished = FinishedRequest(
                request, to: try? topic.name, FinishedRequest.Outcome(outcome), attempt: attempt, after: time.read())
            switch await interceptors.didFinish(finished) {
            case .none: return try outcome.get()
            case .logOut:
                (self as? Client)?.engine.post(.disconnect(.normalDisconnection, Properties(), nil))
                return try outcome.get()
            case .retry(let pause):
                guard time.read() + pause < timeout else { return try outcome.get() }
                do { try await clock.sleep(for: pause) } catch { throw .client(.cancelled) }
                attempt += 1
            }
        }
    }

    private func ask<Asked: Request>(
        _ request: Asked, _ topic: CallTopic<Asked>, _ timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        let publication: Publication
        do throws(ClientError) {
            publication = try Self.publication(request, topic)
        } catch {
            throw .client(error)
        }
        switch await requests.exchange(publication, timeout: timeout, through: self) {
        case .failure(let error): throw .client(error)
        case .success(let message): return try Self.response(message, to: Asked.self)
        }
    }

    private static func publication<Asked: Request>(
        _ request: Asked, _ topic: CallTopic<Asked>
    ) throws(ClientError) -> Publication {
        // At QoS 1 the server says when nobody is there to answer.
        var publication = Publication(try topic.name, Payload(), qos: .atLeastOnce, retain: false)
        try Asked.coding.encode(request, into: &publication)
        return publication
    }

    private static func response<Asked: Request>(
        _ message: ReceivedMessage, to type: Asked.Type
    ) throws(RequestError<Asked.Failure>) -> Asked.Response {
        let failure: Asked.Failure
        do throws(ClientError) {
            switch AnswerStatus(message) {
            case nil: return try Asked.responseCoding.decode(message)
            case .internal: throw .responderFailed
            case .unavailable: throw .noResponder
            case .undecodable: throw .undecodable("the responder cannot read the request")
            case .failure: failure = try Asked.failureCoding.decode(message)
            }
        } catch {
            throw .client(error)
        }
        throw .answered(failure)
    }
}

/// A request with the type of its response: a value, and nothing of how it travels.
///
/// ```swift
/// struct PlaceSearch: Request, Codable {
///     static let topic: TopicName = "map/place/search"
///     typealias Response = [Place]
///     var region: String
///     var keyword: String
/// }
/// let places = try await client.send(PlaceSearch(region: "Beijing", keyword: "noodles"))
/// ```
/// With MartletClientJSON all three codings are JSON where the types are `Codable`; else they have to be given.
public protocol Request: Sendable {
    /// What the answer says.
    associatedtype Response: Sendable
    /// What the responder may answer instead; none if it says nothing else.
    associatedtype Failure: Error = Never

    /// Where it is asked when no call is given. By default `requests/` and the type's name.
    static var topic: TopicName { get }

    /// How requests become payloads, and back.
    static var coding: MessageCoding<Self> { get }
    /// How responses become payloads, and back.
    static var responseCoding: MessageCoding<Response> { get }
    /// How failures become payloads, and back; nothing has to be said where `Failure` is `Never`.
    static var failureCoding: MessageCoding<Failure> { get }
}

extension Request {
    /// `requests/` and the type's name.
    public static var topic: TopicName { TopicName("requests/\(Self.self)") ?? "requests" }
}

extension Request where Failure == Never {
    /// Of no values: there are no failures.
    public static var failureCoding: MessageCoding<Never> { MessageCoding(NoPayload()) }
}

/// Of a type that has no values.
private struct NoPayload: PayloadCoding {
    var contentType: EncodedString? { nil }

    func encode(_ value: Never) -> Payload {}
    func decode(_ payload: Payload) throws -> Never { throw NotAValue(description: "the request has no failures") }
}

/// What an answer is, where it is not the response: the value of a User Property of its message.
enum AnswerStatus: String {
    /// The payload is the request's failure.
    case failure
    /// The responder failed and does not tell how.
    case `internal`
    /// The responder could not read the request.
    case undecodable
    /// The responder is leaving and has not run the request.
    case unavailable

    private static let name: EncodedString = "martlet-answer"

    /// Nil for a response, also for those of others than this library.
    init?(_ message: ReceivedMessage) {
        guard message.hasUserProperties, let property = message.properties.userProperties.first(where: { $0.name == Self.name })
        else { return nil }
        self.init(rawValue: "\(property.value)")
    }

    var userProperty: UserProperty {
        UserProperty(name: Self.name, value: EncodedString(rawValue) ?? EncodedString())
    }
}

/// The user of a program: login and logout as calls of the application's own service, beside the login of MQTT, which
/// is the connection's.
///
/// ```swift
/// let session = ApplicationSession(userPropertyName: "user")
/// settings.interceptors = [session, OnFailure { request in
///     guard request.failure is LoginExpired else { return .none }
///     await session.logOut()
///     return .none
/// }]
/// let client = try Client(settings)
/// session.attach(to: client)
/// try await session.logIn(LogIn(name: "anna", password: "…")) { $0.userID }
/// for await event in session.events { … }                    // didLogIn, didLogOut
/// ```
/// What belongs to a user hangs together: as an interceptor the session gives every message and request the user's name
/// as a User Property; at logout requests that wait end with `ClientError.cancelled`, all subscriptions end, and the
/// answers that were kept in the user's scope are forgotten.
public final class ApplicationSession: Interceptor {
    /// What happens to the session.
    public enum Event: Hashable, Sendable {
        /// The application's service has agreed.
        case didLogIn(user: String)
        /// The user has left, was logged out, or another one has come.
        case didLogOut(user: String)
    }

    private struct State {
        var user: String?
        weak var client: (any RequestingClient)?
        var listeners: [UInt64: AsyncStream<Event>.Continuation] = [:]
        var nextListener: UInt64 = 0
    }

    private let state: Locked<State>
    private let propertyName: EncodedString?

    /// - `user`: who is logged in from an earlier run; nil for nobody.
    /// - `userPropertyName`: the name of the User Property that messages say the user by; nil for none. One that MQTT
    ///   does not allow is none.
    public init(user: String? = nil, userPropertyName: String? = nil) {
        state = Locked(State(user: user))
        propertyName = userPropertyName.flatMap { EncodedString($0) }
    }

    /// The client whose requests and subscriptions are the user's. It is not kept.
    public func attach(to client: Client) { attach(client) }

    /// As above, in tests and previews.
    public func attach(to client: StubClient) { attach(client) }

    package func attach(_ client: any RequestingClient) { state.withLock { $0.client = client } }

    /// The user who is logged in; nil for none.
    public var user: String? { state.withLock(\.user) }

    /// What happens from now on; of a consumer that is behind the latest 64 wait.
    public var events: AsyncStream<Event> {
        AsyncStream(bufferingPolicy: .bufferingNewest(64)) { continuation in
            let number = state.withLock { state in
                state.nextListener += 1
                state.listeners[state.nextListener] = continuation
                return state.nextListener
            }
            continuation.onTermination = { [weak self] _ in _ = self?.state.withLock { $0.listeners.removeValue(forKey: number) } }
        }
    }

    /// Asks the application's service, and is the user's session when it agrees. Another user is logged out before.
    ///
    /// Throws what the request throws; `ClientError.notConnected` where no client is attached.
    ///
    /// - `user`: takes the name out of the answer; it is the scope of what is kept for the user.
    @discardableResult
    public func logIn<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked> = CallTopic(), timeout: Duration = .seconds(30),
        user: (Asked.Response) -> String
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        guard let client = state.withLock(\.client) else { throw .client(.notConnected) }
        let response = try await client.send(request, to: topic, timeout: timeout)
        let name = user(response)
        if let other = self.user, other != name { await logOut() }
        state.withLock { $0.user = name }
        emit(.didLogIn(user: name))
        return response
    }

    /// Tells the application's service, and logs out here whatever it says; throws that then.
    @discardableResult
    public func logOut<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked> = CallTopic(), timeout: Duration = .seconds(30)
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        guard let client = state.withLock(\.client) else { throw .client(.notConnected) }
        let outcome: Result<Asked.Response, RequestError<Asked.Failure>>
        do throws(RequestError<Asked.Failure>) {
            outcome = .success(try await client.send(request, to: topic, timeout: timeout))
        } catch {
            outcome = .failure(error)
        }
        await logOut()
        return try outcome.get()
    }

    /// Logs out here, and tells nobody outside. Does nothing where nobody is logged in, so that many failures at once
    /// log out once.
    public func logOut() async {
        let (user, client) = state.withLock { state in
            defer { state.user = nil }
            return (state.user, state.client)
        }
        guard let user else { return }
        client?.requests.endAll(.cancelled)
        await client?.endAllSubscriptions()
        (client as? Client)?.answerCache(scope: user).removeAll()
        emit(.didLogOut(user: user))
    }

    private func emit(_ event: Event) {
        for listener in state.withLock({ $0.listeners.sorted { $0.key < $1.key }.map(\.value) }) { listener.yield(event) }
    }

    /// Adds the user's name. Throws `ClientError.settings` where it is no UTF-8 Encoded String of MQTT.
    public func willPublish(_ publication: inout Publication) throws(ClientError) {
        guard let propertyName, let user else { return }
        guard let value = EncodedString(user) else {
            throw .settings("the user's name is too long for a User Property, or has a null character")
        }
        publication.properties.userProperties.append(UserProperty(name: propertyName, value: value))
    }
}
