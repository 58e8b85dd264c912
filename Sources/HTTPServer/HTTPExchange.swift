public import HTTP
public import Transports

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
        let report = onGone
        onGone = nil
        report?()
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

/// The peer that asks, as far as the connection tells.
public struct HTTPPeer: Sendable {
    /// The listener that accepted it, by the number that `HTTPService.serve` was given.
    public let listener: Int
    /// Where it comes from; behind a proxy the client's address.
    public internal(set) var address: PeerAddress
    /// The file of the Unix socket that it came by; nil of any other.
    public let socketPath: String?
    /// The number of the user at the other end of a Unix socket, as the kernel tells it; nil of any other, and of one
    /// behind a proxy.
    public let user: UInt32?
    public let isEncrypted: Bool
    /// What the layers below know of it.
    public internal(set) var identity: PeerIdentity

    /// The address as the log has it, without a port.
    public var host: String {
        if address.family != .local { return address.host }
        return identity.forwardedPath ?? socketPath ?? "local"
    }

    /// Whether the connection does not leave the machine, as far as its last hop tells.
    public var isLocal: Bool { address.isLoopback }
}
