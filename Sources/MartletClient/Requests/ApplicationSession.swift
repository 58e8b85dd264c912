internal import Platform

/// Who uses the program: login and logout as calls of the application's own service, beside the login of MQTT, which is the connection's.
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
/// What belongs to a user hangs together: as an interceptor the session gives every message and request the user's name as a User Property; at logout
/// requests that wait end with `ClientError.cancelled`, all subscriptions end, and the answers that were kept in the user's scope are forgotten.
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
    /// - `userPropertyName`: the name of the User Property that messages say the user by; nil for none. One that MQTT does not allow is none.
    public init(user: String? = nil, userPropertyName: String? = nil) {
        state = Locked(State(user: user))
        propertyName = userPropertyName.flatMap { EncodedString($0) }
    }

    /// The client whose requests and subscriptions are the user's. It is not kept.
    public func attach(to client: Client) { attach(client) }

    /// As above, in tests and previews.
    public func attach(to client: StubClient) { attach(client) }

    package func attach(_ client: any RequestingClient) { state.withLock { $0.client = client } }

    /// Who is logged in; nil for nobody.
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
        tell(.didLogIn(user: name))
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

    /// Logs out here, and tells nobody outside. Does nothing where nobody is logged in, so that many failures at once log out once.
    public func logOut() async {
        let (user, client) = state.withLock { state in
            defer { state.user = nil }
            return (state.user, state.client)
        }
        guard let user else { return }
        client?.requests.endAll(.cancelled)
        await client?.endAllSubscriptions()
        (client as? Client)?.answerCache(scope: user).removeAll()
        tell(.didLogOut(user: user))
    }

    private func tell(_ event: Event) {
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
