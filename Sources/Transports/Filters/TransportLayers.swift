/// Which layers the connections of a listener have on top of their sockets.
public struct TransportLayers: Sendable {
    public var proxyProtocol: ProxyProtocolSettings?
    public var tls: TLSServer?
    public var webSocket: WebSocketSettings?
    /// The proxies that are believed when HTTP's fields say for whom they ask. Empty: none is.
    public var forwarders: [TrustedNetwork]

    public init(
        proxyProtocol: ProxyProtocolSettings? = nil, tls: TLSServer? = nil, webSocket: WebSocketSettings? = nil,
        forwarders: [TrustedNetwork] = []
    ) {
        self.proxyProtocol = proxyProtocol
        self.tls = tls
        self.webSocket = webSocket
        self.forwarders = forwarders
    }

    /// The peer as a proxy that is believed when HTTP's fields say for whom it asks; nil of any other.
    public func forwardingProxy(_ peer: PeerAddress) -> ForwardingProxy? { ForwardingProxy(peer, trusted: forwarders) }

    /// Nothing: the bytes of the socket are MQTT's.
    public var isEmpty: Bool { proxyProtocol == nil && tls == nil && webSocket == nil }

    /// Puts the layers on a socket; nil when there is no memory for one.
    public func channel(on socket: any ByteChannel, workspace: FilterWorkspace) -> FilteredChannel? {
        var filters: [any StreamFilter] = []
        if let proxyProtocol { filters.append(ProxyFilter(proxyProtocol)) }
        if let tls {
            guard let filter = TLSFilter(tls.current) else { return nil }
            filters.append(filter)
        }
        if let webSocket { filters.append(WebSocketFilter(webSocket, proxy: forwardingProxy(socket.peerAddress))) }
        return FilteredChannel(socket: socket, filters: filters, workspace: workspace)
    }
}
