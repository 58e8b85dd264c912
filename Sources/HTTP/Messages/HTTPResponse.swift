/// An answer: what a handler gives back, whole or with a body that comes over time.
public struct HTTPResponse {
    public var status: HTTPStatus
    /// Without those that say where the message ends, which whoever writes it adds: Content-Length, Transfer-Encoding, Connection; and Date.
    public var fields: HTTPFields
    public var body: HTTPBody
    /// Whether the connection ends with it, whatever the peer asked for.
    public var endsConnection = false

    public init(_ status: HTTPStatus, fields: HTTPFields = HTTPFields(), body: HTTPBody = .bytes([])) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Text in UTF-8.
    public static func text(_ text: String, status: HTTPStatus = .ok) -> HTTPResponse {
        HTTPResponse(status, fields: ["Content-Type": "text/plain; charset=utf-8"], body: .bytes(Array(text.utf8)))
    }

    /// JSON that is written already.
    public static func json(_ text: some Collection<UInt8>, status: HTTPStatus = .ok) -> HTTPResponse {
        HTTPResponse(status, fields: ["Content-Type": "application/json"], body: .bytes(Array(text)))
    }

    /// Events as HTML, section 9.2, has them; see `ServerSentEvent`. The body ends when the peer goes or when it is finished.
    public static func events(_ stream: HTTPStream) -> HTTPResponse {
        HTTPResponse(
            .ok, fields: ["Content-Type": "text/event-stream", "Cache-Control": "no-store"], body: .stream(stream))
    }

    /// The bytes of a whole body; nil of one that comes in pieces.
    public var bytes: [UInt8]? {
        switch body {
        case .bytes(let bytes): bytes
        case .content, .stream, .upgraded: nil
        }
    }
}

/// What an answer carries.
public enum HTTPBody {
    /// All of it, with its length in the head.
    case bytes([UInt8])
    /// What is somewhere else, with its length in the head; it is taken piece by piece, as the peer reads.
    case content(any HTTPContent)
    /// What is written to it until it is finished, in chunks.
    case stream(HTTPStream)
    /// Another protocol, of an answer with the status 101: what is written to the stream goes out as it is, and what the peer sends from now on
    /// is given to the closure. The connection ends with the stream.
    case upgraded(HTTPStream, received: (UnsafeRawBufferPointer) -> Void)
}
