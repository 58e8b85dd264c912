internal import ClientCore

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

    /// What became of a message, and how long that took: at QoS 0 until it was on its way. Also told of one that
    /// another interceptor threw for.
    func didPublish(_ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration)

    /// A message has come, and nobody has it yet. On the client's own thread, where everything waits for it.
    func didReceive(_ message: inout ReceivedMessage)

    /// A request has its answer, or will have none, and whoever asked is not told yet: what is to be done about it. In
    /// the task that asked, which waits for this. Also told of what `StubClient` and other clients of requests answer.
    func didFinish(_ request: FinishedRequest) async -> FinishedRequest.Action

    /// The server has refused something, and whoever asked for it is told. On the client's own thread, where everything
    /// waits for it.
    func didRefuse(_ refusal: Refusal) -> Refusal.Action

    /// Messages have come that nobody gets. Told once in a turn of the client's thread for each subscription, and on
    /// that thread, where everything waits for it.
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

/// Gives every message and request User Properties, beside its own: who uses the program, when it was asked, for which
/// company. MQTT 5.0 only.
///
/// ```swift
/// settings.interceptors = [
///     AddUserProperties(["app": "panel"]),
///     AddUserProperties { message in ["user": account.name, "company": account.company] },
/// ]
/// ```
public struct AddUserProperties: Interceptor {
    private let added: @Sendable (Publication) throws(ClientError) -> [UserProperty]

    /// Gives all messages and requests the same properties. Names and values that are no UTF-8 Encoded String of MQTT
    /// are an error of every `publish`.
    public init(_ properties: KeyValuePairs<String, String>) {
        let legal = Result { () throws(ClientError) in try Self.legal(properties) }
        added = { (_) throws(ClientError) in try legal.get() }
    }

    /// Asked for each message, when it is published: in the task that publishes, so that it must not wait. What is
    /// enqueued is asked for once.
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

/// Calls its owner when the server refuses something for one of these reasons: to log out, to ask for another login, to
/// tell somebody.
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

/// The time since it was made, by any clock. A struct: a bare closure that is put back where it came from gets a
/// wrapper more each time.
struct Stopwatch: Sendable {
    let read: @Sendable () -> Duration

    init(_ clock: any Clock<Duration>) { read = Self.reading(clock) }

    private static func reading<Measuring: Clock<Duration>>(_ clock: Measuring) -> @Sendable () -> Duration {
        let begin = clock.now
        return { begin.duration(to: clock.now) }
    }
}

/// What a server refuses, and why.
public struct Refusal: Hashable, Sendable {
    /// What was refused.
    public enum Subject: Hashable, Sendable {
        /// CONNACK, or the server's DISCONNECT.
        case connection
        /// A message to this topic.
        case publication(TopicName)
        /// A subscription to these filters.
        case subscription([TopicFilter])
    }

    /// What the server refused.
    public var subject: Subject
    /// Why, by the standard's reason code.
    public var reason: ReasonCode
    /// The server's own words, where it has any.
    public var words: String?
    /// The User Properties of its answer.
    public var userProperties: [UserProperty]

    /// A refusal, with the server's own words and User Properties if it has any.
    public init(
        _ subject: Subject, _ reason: ReasonCode, _ words: String? = nil, userProperties: [UserProperty] = []
    ) {
        (self.subject, self.reason, self.words, self.userProperties) = (subject, reason, words, userProperties)
    }
}

extension Refusal {
    init(_ subject: Subject, _ reason: ReasonCode, _ texts: AnswerTexts?) {
        self.init(subject, reason, texts?.words, userProperties: texts?.userProperties ?? [])
    }
}

extension Refusal {
    /// What a client does about a refusal, beside telling whoever asked.
    public enum Action: Hashable, Sendable {
        /// The client goes on.
        case none
        /// It says goodbye and stays offline until `start()` or `connect()`.
        case logOut
    }
}

/// Messages that came and that nobody gets.
public struct DroppedMessages: Hashable, Sendable {
    /// Why nobody gets a message.
    public enum Reason: Hashable, Sendable {
        /// Its subscription had no room for it, or made room for a later one: see `SubscriptionSettings.Backlog`.
        case backlogFull
        /// No subscription wanted it: of a session that the server has kept, and for which none was declared in
        /// `ClientSettings.graceTime`. At QoS 1 and 2 the server was told that it was taken.
        case noSubscription
    }

    /// Why nobody gets them.
    public var reason: Reason
    /// How many.
    public var count: Int
    /// The filters of the subscription; none where there was no subscription.
    public var filters: [TopicFilter]
    /// The topic of one of them, where there was no subscription.
    public var topic: TopicName?

    /// - Parameters:
    ///   - reason: why nobody gets them.
    ///   - count: how many they are.
    ///   - filters: those of the subscription, if there was one.
    ///   - topic: that of one of them, where there was none.
    public init(_ reason: Reason, count: Int, filters: [TopicFilter] = [], topic: TopicName? = nil) {
        (self.reason, self.count, self.filters, self.topic) = (reason, count, filters, topic)
    }
}

extension DroppedMessages: CustomStringConvertible {
    /// In words, as in “3 messages of “home/#” are dropped: its backlog is full”.
    public var description: String {
        let messages = count == 1 ? "1 message" : "\(count) messages"
        switch reason {
        case .backlogFull:
            let names = filters.map { "“\($0)”" }.joined(separator: ", ")
            return "\(messages) of \(names) \(count == 1 ? "is" : "are") dropped: its backlog is full"
        case .noSubscription:
            let place = topic.map { ", such as at “\($0)”," } ?? ""
            return "\(messages)\(place) \(count == 1 ? "is" : "are") dropped: no subscription was declared in time"
        }
    }
}

extension DroppedMessages {
    /// How many messages have come to a client that nobody got, since it was made.
    public struct Counts: Hashable, Sendable {
        /// Messages for which the backlog of their subscription had no room, of all subscriptions. Each counts its own:
        /// `Messages.droppedCount`.
        public var backlogFull = 0
        /// Messages that no subscription wanted.
        public var noSubscription = 0

        /// - Parameters:
        ///   - backlogFull: how many had no room in the backlog of their subscription.
        ///   - noSubscription: how many no subscription wanted.
        public init(backlogFull: Int = 0, noSubscription: Int = 0) {
            (self.backlogFull, self.noSubscription) = (backlogFull, noSubscription)
        }
    }
}

/// How a request ended, as interceptors are told: whatever its type.
public struct FinishedRequest: Sendable {
    /// What became of a request.
    public enum Outcome: Sendable {
        /// The answer: a value of the request's `Response`.
        case response(any Sendable)
        /// What the responder answered instead: a value of the request's `Failure`.
        case answered(any Error)
        /// There is no answer.
        case client(ClientError)
    }

    /// What was asked.
    public let request: any Request
    /// Where it was asked; nil where its parameters make no topic.
    public let topic: TopicName?
    /// What became of it.
    public let outcome: Outcome
    /// Which attempt it was, from 1.
    public let attempt: Int
    /// How long all attempts took together, by the client's clock.
    public let duration: Duration

    /// - Parameters:
    ///   - request: what was asked.
    ///   - topic: where; nil where its parameters make no topic.
    ///   - outcome: what became of it.
    ///   - attempt: which attempt it was, from 1.
    ///   - duration: how long all attempts took together.
    public init(
        _ request: any Request, to topic: TopicName?, _ outcome: Outcome, attempt: Int = 1, after duration: Duration = .zero
    ) {
        (self.request, self.topic, self.outcome, self.attempt, self.duration) = (request, topic, outcome, attempt, duration)
    }

    /// Why it has no response: the responder's failure or the client's error; nil where it has one. A request whose
    /// task was cancelled has not failed.
    public var failure: (any Error)? {
        switch outcome {
        case .response, .client(.cancelled): nil
        case .answered(let failure): failure
        case .client(let error): error
        }
    }
}

extension FinishedRequest.Outcome {
    init<Response: Sendable, Failure>(_ outcome: Result<Response, RequestError<Failure>>) {
        self =
            switch outcome {
            case .success(let response): .response(response)
            case .failure(.answered(let failure)): .answered(failure)
            case .failure(.client(let error)): .client(error)
            }
    }
}

extension FinishedRequest {
    /// What an interceptor does about an answer, before the caller gets it.
    public enum Action: Hashable, Sendable {
        /// Nothing: whoever asked gets the outcome.
        case none
        /// The request is sent once more after that time, where its timeout is not over by then; what it says then is
        /// told again.
        case retry(after: Duration = .zero)
        /// A `Client` says goodbye and stays offline until `start()` or `connect()`; whoever asked gets the outcome.
        case logOut
    }
}

/// Reads the failure of every request in one place: to ask again, to log out, to tell somebody.
///
/// ```swift
/// settings.interceptors = [
///     OnFailure { request in
///         switch request.outcome {
///         case .answered(let failure) where failure is LoginExpired: .logOut   // what the service's requests fail with
///         case .client(.noResponder) where request.attempt < 3: .retry(after: .milliseconds(200))
///         default: .none
///         }
///     }
/// ]
/// ```
public struct OnFailure: Interceptor {
    private let failed: @Sendable (FinishedRequest) async -> FinishedRequest.Action

    /// - `failed`: in the task that asked, which waits for it: it may log in anew before it says `.retry`. Not told of
    ///   cancelled requests.
    public init(perform failed: @escaping @Sendable (FinishedRequest) async -> FinishedRequest.Action) { self.failed = failed }

    /// Calls the closure for a request that has failed.
    public func didFinish(_ request: FinishedRequest) async -> FinishedRequest.Action {
        request.failure == nil ? .none : await failed(request)
    }
}

extension Sequence<any Interceptor> {
    /// Tells all of them, in the opposite order; the last word that is not `.none` counts.
    func didFinish(_ request: FinishedRequest) async -> FinishedRequest.Action {
        var action = FinishedRequest.Action.none
        for interceptor in reversed() {
            let said = await interceptor.didFinish(request)
            if said != .none { action = said }
        }
        return action
    }
}
