public import HTTP

/// One request and the way back for its answer. Belongs to the loop's thread.
///
///     open ──► answered        answer(_:), or 500 when it is let go without
///       └────► gone            the connection has ended: an answer has no effect
public final class HTTPExchange {
    public let request: HTTPRequest
    public let peer: HTTPPeer
    /// Called when the connection ends before the answer is given.
    public var onGone: (() -> Void)?
    private var connection: HTTPConnection?
    private let number: UInt64

    init(_ request: HTTPRequest, from peer: HTTPPeer, number: UInt64, on connection: HTTPConnection) {
        self.request = request
        self.peer = peer
        self.number = number
        self.connection = connection
    }

    deinit {
        connection?.answered(number, .text("No answer was found.\n", status: .internalServerError))
    }

    /// Whether an answer still reaches the peer.
    public var isOpen: Bool { connection != nil }

    /// Gives the answer. Every call but the first does nothing.
    public func answer(_ response: HTTPResponse) {
        guard let connection else {
            response.body.abandon()
            return
        }
        self.connection = nil
        onGone = nil
        connection.answered(number, response)
    }

    /// The connection has ended.
    func abandon() {
        connection = nil
        let tell = onGone
        onGone = nil
        tell?()
    }
}

extension HTTPBody {
    /// Nothing of it reaches the peer.
    func abandon() {
        switch self {
        case .bytes, .content: return
        case .stream(let stream), .upgraded(let stream, _): stream.abandon()
        }
    }
}
