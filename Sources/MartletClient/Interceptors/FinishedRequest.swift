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

    /// Why it has no response: the responder's failure or the client's error; nil where it has one. A request whose task was cancelled has not
    /// failed.
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
    /// What is done about an answer, before whoever asked gets it.
    public enum Action: Hashable, Sendable {
        /// Nothing: whoever asked gets the outcome.
        case none
        /// The request is sent once more after that time, where its timeout is not over by then; what it says then is told again.
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

    /// - `failed`: in the task that asked, which waits for it: it may log in anew before it says `.retry`. Not told of cancelled requests.
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
