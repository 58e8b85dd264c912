/// An answer: what a handler gives back, whole or with a body that comes over time.
public struct HTTPResponse {
    public var status: HTTPStatus
    /// Without those that say where the message ends, which whoever writes it adds: Content-Length, Transfer-Encoding,
    /// Connection; and Date.
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

    /// Events as HTML, section 9.2, has them; see `ServerSentEvent`. The body ends when the peer goes or when it is
    /// finished.
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
    /// A body that is kept somewhere else, with its length in the head; it is taken piece by piece, as the peer reads.
    case content(any HTTPContent)
    /// A body that is written piece by piece until it is finished, and sent in chunks.
    case stream(HTTPStream)
    /// Another protocol, of an answer with the status 101: what is written to the stream goes out as it is, and what
    /// the peer sends from now on is given to the closure. The connection ends with the stream.
    case upgraded(HTTPStream, received: (UnsafeRawBufferPointer) -> Void)
}

/// A body of known length that is kept somewhere else, such as a file: many answers share it, and none holds a copy.
/// Owned by the thread that serves HTTP.
public protocol HTTPContent: AnyObject {
    /// How long it is, in bytes: it does not change.
    var byteCount: Int { get }

    /// The bytes that are in memory for its answers alone.
    var heldByteCount: Int { get }

    /// The bytes from a place on, so many of them or fewer; empty when it cannot be read any more, which ends the
    /// connection.
    func bytes(from offset: Int, count: Int) -> [UInt8]
}

/// A body that comes over time: events, a log, a download. Its producer writes, and hears when there is room again and
/// when the peer has gone.
///
/// ```
///             finish()             all of it is taken
///   open ──────────────► finished ────────────────────► gone
///     └──────────────────────────────────────────────────▲
///                     the peer goes, or abandon()
/// ```
/// `waiting.count <= bytesMax`: what does not fit is not taken. Owned by the thread that serves HTTP; it and its
/// producer share it.
public final class HTTPStream {
    private enum State {
        case open
        case finished
        case gone
    }

    /// Bytes that may wait for the peer.
    public let bytesMax: Int
    /// Called when a write was refused and half of the room is free again.
    public var onRoom: (() -> Void)?
    /// Called once, when nothing more reaches the peer: it has gone, the server ends, or all that was to be said was
    /// taken.
    public var onGone: (() -> Void)?

    private var state = State.open
    private var waiting: [UInt8] = []
    private var owesRoom = false
    /// The server's: called when there is something to take. Set while the answer is being written.
    private var onChange: (() -> Void)?

    public init(bytesMax: Int = Limits.streamBytesMax) { self.bytesMax = bytesMax }

    // MARK: The producer's side

    /// Bytes that the next write may have.
    public var room: Int { state == .open ? bytesMax - waiting.count : 0 }

    /// Whether what is written may still reach the peer.
    public var isOpen: Bool { state == .open }

    /// Hands bytes to the peer; false when they do not fit, and `onRoom` will be called, or when the stream is not
    /// open.
    @discardableResult
    public func write(_ bytes: some Collection<UInt8>) -> Bool {
        guard state == .open else { return false }
        guard bytes.count <= room else {
            owesRoom = true
            return false
        }
        guard !bytes.isEmpty else { return true }
        waiting.append(contentsOf: bytes)
        onChange?()
        return true
    }

    /// Ends the body after what was written.
    public func finish() {
        guard state == .open else { return }
        state = .finished
        onChange?()
    }

    // MARK: The server's side

    /// Whether the body ends with what waits.
    public var isFinished: Bool { state != .open }

    /// Bytes that wait to be taken.
    public var waitingByteCount: Int { waiting.count }

    /// Calls `body` whenever there is something to take, once per write.
    public func serve(_ body: @escaping () -> Void) { onChange = body }

    /// Takes all that waits. Tells the producer of the room.
    public func take() -> [UInt8] {
        let taken = waiting
        waiting = []
        if owesRoom, state == .open {
            owesRoom = false
            onRoom?()
        }
        return taken
    }

    /// Nothing more reaches the peer.
    public func abandon() {
        guard state != .gone else { return }
        state = .gone
        waiting = []
        onChange = nil
        onRoom = nil
        let tell = onGone
        onGone = nil
        tell?()
    }
}

/// How a request went, RFC 9110, section 15: a number of three digits.
public struct HTTPStatus: RawRepresentable, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) { self.rawValue = rawValue }

    public static let `continue` = HTTPStatus(rawValue: 100)
    public static let switchingProtocols = HTTPStatus(rawValue: 101)
    public static let ok = HTTPStatus(rawValue: 200)
    public static let created = HTTPStatus(rawValue: 201)
    public static let accepted = HTTPStatus(rawValue: 202)
    public static let noContent = HTTPStatus(rawValue: 204)
    public static let movedPermanently = HTTPStatus(rawValue: 301)
    public static let found = HTTPStatus(rawValue: 302)
    public static let seeOther = HTTPStatus(rawValue: 303)
    public static let notModified = HTTPStatus(rawValue: 304)
    public static let permanentRedirect = HTTPStatus(rawValue: 308)
    public static let badRequest = HTTPStatus(rawValue: 400)
    public static let unauthorized = HTTPStatus(rawValue: 401)
    public static let forbidden = HTTPStatus(rawValue: 403)
    public static let notFound = HTTPStatus(rawValue: 404)
    public static let methodNotAllowed = HTTPStatus(rawValue: 405)
    public static let notAcceptable = HTTPStatus(rawValue: 406)
    public static let requestTimeout = HTTPStatus(rawValue: 408)
    public static let conflict = HTTPStatus(rawValue: 409)
    public static let gone = HTTPStatus(rawValue: 410)
    public static let lengthRequired = HTTPStatus(rawValue: 411)
    public static let preconditionFailed = HTTPStatus(rawValue: 412)
    public static let contentTooLarge = HTTPStatus(rawValue: 413)
    public static let targetTooLong = HTTPStatus(rawValue: 414)
    public static let unsupportedMediaType = HTTPStatus(rawValue: 415)
    public static let expectationFailed = HTTPStatus(rawValue: 417)
    public static let misdirectedRequest = HTTPStatus(rawValue: 421)
    public static let unprocessableContent = HTTPStatus(rawValue: 422)
    public static let upgradeRequired = HTTPStatus(rawValue: 426)
    public static let tooManyRequests = HTTPStatus(rawValue: 429)
    public static let fieldsTooLarge = HTTPStatus(rawValue: 431)
    public static let internalServerError = HTTPStatus(rawValue: 500)
    public static let notImplemented = HTTPStatus(rawValue: 501)
    public static let serviceUnavailable = HTTPStatus(rawValue: 503)
    public static let gatewayTimeout = HTTPStatus(rawValue: 504)
    public static let versionNotSupported = HTTPStatus(rawValue: 505)

    /// The words that RFC 9110 and RFC 6585 give it; empty for a number that they do not name.
    public var reason: String { Self.reasons[rawValue] ?? "" }

    /// Whether an answer with it never has a body.
    public var hasNoBody: Bool { rawValue < 200 || self == .noContent || self == .notModified }

    private static let reasons: [Int: String] = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
        301: "Moved Permanently", 302: "Found",
        303: "See Other", 304: "Not Modified", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
        403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout",
        409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large",
        414: "URI Too Long", 415: "Unsupported Media Type", 417: "Expectation Failed", 421: "Misdirected Request",
        422: "Unprocessable Content", 426: "Upgrade Required", 429: "Too Many Requests",
        431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
        503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
    ]
}

extension HTTPStatus: CustomStringConvertible {
    /// `404 Not Found`.
    public var description: String { "\(rawValue) \(reason)" }
}

extension Limits {
    /// Bytes of an answer's stream that wait for its peer; what does not fit is not taken, and the producer is told.
    public static let streamBytesMax = 256 << 10
}
