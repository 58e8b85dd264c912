/// Which layers the connections of a listener have on top of their sockets.
public struct TransportLayers: Sendable {
    public var proxyProtocol: ProxyProtocolSettings?
    public var tls: TLSServer?
    public var webSocket: WebSocketSettings?

    public init(proxyProtocol: ProxyProtocolSettings? = nil, tls: TLSServer? = nil, webSocket: WebSocketSettings? = nil) {
        self.proxyProtocol = proxyProtocol
        self.tls = tls
        self.webSocket = webSocket
    }

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
        if let webSocket { filters.append(WebSocketFilter(webSocket)) }
        return FilteredChannel(socket: socket, filters: filters, workspace: workspace)
    }
}
