/// A client that sends requests as messages: what conforms keeps its requests, and sends by `exchange`.
package protocol RequestingClient: AnyObject, RequestClient, ConnectionObserving {
    /// The requests of this client alone.
    var requests: PendingRequests { get }
    /// Who are told how each request ends, and may have it sent again.
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
