/// Whoever sends requests and gets their answers: a `Client`, a `StubClient`, or a double of a program's own.
public protocol RequestClient: Sendable {
    /// Sends a request and returns its answer.
    ///
    /// It ends once and in time: with the answer, or with `.answered` and what the responder says instead, or with `.client`: `.timedOut`,
    /// `.noResponder` when the server knows of nobody who subscribes there or the last one leaves, `.cancelled` with its task, `.ended` with the client,
    /// `.unsupported` where the server speaks no MQTT 5.0, and what else may happen to a message.
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
