public import HTTP
public import Transports

/// What a server asks of whoever knows the answers. Called on the loop's thread.
public protocol HTTPHandler: AnyObject {
    /// A request came: it is to be answered with `exchange.answer`, now or later. One that is let go without is answered with 500.
    func handle(_ exchange: HTTPExchange)

    /// Whether a peer may connect to a listener; asked once its address is known, which behind a proxy is when that has told.
    func admits(_ peer: PeerAddress, listener: Int) -> Bool

    /// Something that an operator may want to know.
    func note(_ report: HTTPReport)

    /// Whether a request is answered where there is no place for others: one of a few bytes by which somebody learns how the server is.
    func isUrgent(_ request: HTTPRequest) -> Bool

    /// Whether many come by this address, as by a proxy: then it has more than one party's share of a listener's places.
    func isProxy(_ peer: PeerAddress, listener: Int) -> Bool
}

extension HTTPHandler {
    public func isUrgent(_ request: HTTPRequest) -> Bool { false }
    public func isProxy(_ peer: PeerAddress, listener: Int) -> Bool { false }
}

/// What happens on a server besides requests.
public enum HTTPReport: Sendable {
    /// A listener has trouble, or has none any more.
    case listener(Int, ListenerReport)
    /// A connection was closed as soon as it came, for its listener has as many as it may, and all are of use.
    case full(listener: Int, PeerAddress)
    /// A proxy that is not trusted has connected.
    case untrustedProxy(listener: Int, PeerAddress)
    /// A layer below HTTP does not go on with a peer.
    case layer(HTTPPeer, FilterRefusal)
    /// What a peer sent is no request that is taken.
    case refused(HTTPPeer, HTTPRefusal)
}
