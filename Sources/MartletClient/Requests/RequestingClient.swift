/// A client that sends requests as messages: what conforms keeps its requests, and sends by `exchange`.
package protocol RequestingClient: RequestClient, ConnectionObserving {
    /// The requests of this client alone.
    var requests: PendingRequests { get }
}

extension RequestingClient {
    /// As `send` of `RequestClient`.
    package func exchange<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
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
