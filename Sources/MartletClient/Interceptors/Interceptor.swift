/// Looks at every message that a client publishes and gets, and may change it: for what all have in common.
///
/// ```swift
/// var settings = ClientSettings(server: "mqtt://broker.example")
/// settings.interceptors = [AddUserProperties(["app": "panel"]), OnRefusal(of: .notAuthorized) { _ in .logOut }]
/// ```
/// They are asked in their order before a message leaves, and in the opposite order for what comes.
public protocol Interceptor: Sendable {
    /// A message is about to be published, in the task that publishes it. What this throws, `publish` throws.
    func willPublish(_ publication: inout Publication) throws(ClientError)

    /// What became of a message, and how long that took: at QoS 0 until it was on its way. Also told of one that another interceptor threw for.
    func didPublish(_ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration)

    /// A message has come, and nobody has it yet. On the client's own thread, where everything waits for it.
    func didReceive(_ message: inout ReceivedMessage)

    /// A request has its answer, or will have none, and whoever asked is not told yet: what is to be done about it. In the task that asked, which
    /// waits for this. Also told of what `StubClient` and other clients of requests answer.
    func didFinish(_ request: FinishedRequest) async -> FinishedRequest.Action

    /// The server has refused something, and whoever asked for it is told. On the client's own thread, where everything waits for it.
    func didRefuse(_ refusal: Refusal) -> Refusal.Action

    /// Messages have come that nobody gets. Told once in a turn of the client's thread for each subscription, and on that thread, where everything
    /// waits for it.
    func didDrop(_ messages: DroppedMessages)
}

extension Interceptor {
    /// Does nothing.
    public func didDrop(_ messages: DroppedMessages) {}
    /// Leaves the message as it is.
    public func willPublish(_ publication: inout Publication) throws(ClientError) {}
    /// Does nothing.
    public func didPublish(_ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration) {}
    /// Leaves the message as it is.
    public func didReceive(_ message: inout ReceivedMessage) {}
    /// Does nothing.
    public func didFinish(_ request: FinishedRequest) async -> FinishedRequest.Action { .none }
    /// Does nothing.
    public func didRefuse(_ refusal: Refusal) -> Refusal.Action { .none }
}

/// Gives every message and request User Properties, beside its own: who uses the program, when it was asked, for which company. MQTT 5.0 only.
///
/// ```swift
/// settings.interceptors = [
///     AddUserProperties(["app": "panel"]),
///     AddUserProperties { message in ["user": account.name, "company": account.company] },
/// ]
/// ```
public struct AddUserProperties: Interceptor {
    private let added: @Sendable (Publication) throws(ClientError) -> [UserProperty]

    /// The same for all. Names and values that are no UTF-8 Encoded String of MQTT are an error of every `publish`.
    public init(_ properties: KeyValuePairs<String, String>) {
        let legal = Result { () throws(ClientError) in try Self.legal(properties) }
        added = { (_) throws(ClientError) in try legal.get() }
    }

    /// Asked for each message, when it is published: in the task that publishes, so that it must not wait. What is enqueued is asked for once.
    ///
    /// Names and values that are no UTF-8 Encoded String of MQTT are an error of that `publish`.
    public init(_ properties: @escaping @Sendable (Publication) -> KeyValuePairs<String, String>) {
        added = { (publication) throws(ClientError) in try Self.legal(properties(publication)) }
    }

    /// Adds the properties. Throws `ClientError.settings` if one of them is not legal.
    public func willPublish(_ publication: inout Publication) throws(ClientError) {
        publication.properties.userProperties += try added(publication)
    }

    private static func legal(_ properties: KeyValuePairs<String, String>) throws(ClientError) -> [UserProperty] {
        var legal: [UserProperty] = []
        for (name, value) in properties {
            guard let name = EncodedString(name), let value = EncodedString(value) else {
                throw .settings("the User Property “\(name)” is too long, or has a character that MQTT does not allow")
            }
            legal.append(UserProperty(name: name, value: value))
        }
        return legal
    }
}

/// Calls its owner when the server refuses something for one of these reasons: to log out, to ask for another login, to tell somebody.
///
/// ```swift
/// settings.interceptors = [
///     OnRefusal(of: .notAuthorized, .banned) { refusal in .logOut },
///     OnRefusal { refusal in
///         print("\(refusal.subject): \(refusal.words ?? "\(refusal.reason)")")
///         return .none
///     },
/// ]
/// ```
public struct OnRefusal: Interceptor {
    private let reasons: Set<ReasonCode>
    private let refused: @Sendable (Refusal) -> Refusal.Action

    /// - Parameters:
    ///   - reasons: those that are told; none for all.
    ///   - refused: runs on the client's own thread: it must not wait.
    public init(of reasons: ReasonCode..., perform refused: @escaping @Sendable (Refusal) -> Refusal.Action) {
        (self.reasons, self.refused) = (Set(reasons), refused)
    }

    /// Tells of a refusal for one of the reasons.
    public func didRefuse(_ refusal: Refusal) -> Refusal.Action {
        reasons.isEmpty || reasons.contains(refusal.reason) ? refused(refusal) : .none
    }
}

extension Sequence<any Interceptor> {
    /// Tells all of them; one that wants to log out is enough.
    func didRefuse(_ refusal: Refusal) -> Refusal.Action {
        var action = Refusal.Action.none
        for interceptor in self where interceptor.didRefuse(refusal) == .logOut { action = .logOut }
        return action
    }

    /// Publishes as `send` does, and asks all interceptors.
    func publish(
        _ publication: Publication, clock: any Clock<Duration>,
        _ send: (Publication) async throws(ClientError) -> PublishReceipt
    ) async throws(ClientError) -> PublishReceipt {
        var publication = publication
        let time = Stopwatch(clock)
        let outcome: Result<PublishReceipt, ClientError>
        do throws(ClientError) {
            for interceptor in self { try interceptor.willPublish(&publication) }
            outcome = .success(try await send(publication))
        } catch {
            outcome = .failure(error)
        }
        let duration = time.read()
        for interceptor in self.reversed() { interceptor.didPublish(publication, outcome, after: duration) }
        return try outcome.get()
    }
}

/// The time since it was made, by any clock. A struct: a bare closure that is put back where it came from gets a wrapper more each time.
struct Stopwatch: Sendable {
    let read: @Sendable () -> Duration

    init(_ clock: any Clock<Duration>) { read = Self.reading(clock) }

    private static func reading<Measuring: Clock<Duration>>(_ clock: Measuring) -> @Sendable () -> Duration {
        let begin = clock.now
        return { begin.duration(to: clock.now) }
    }
}
