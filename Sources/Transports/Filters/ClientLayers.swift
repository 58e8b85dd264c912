internal import Glibc
public import Platform

/// Which layers a connection that we make has on top of its socket.
public struct ClientLayers: Sendable {
    /// The proxy that the socket is connected to.
    public var tunnel: ProxyTunnel?
    public var tls: TLSClientContext?
    public var webSocket: WebSocketClientSettings?

    public init(tunnel: ProxyTunnel? = nil, tls: TLSClientContext? = nil, webSocket: WebSocketClientSettings? = nil) {
        self.tunnel = tunnel
        self.tls = tls
        self.webSocket = webSocket
    }

    /// Nothing: the bytes of the socket are MQTT's.
    public var isEmpty: Bool { tunnel == nil && tls == nil && webSocket == nil }

    /// Begins to connect. The channel becomes writable when it is done; the first write begins the layers' handshakes.
    ///
    /// Throws when the kernel or OpenSSL has no memory left.
    public func connecting(to address: SocketAddress, workspace: FilterWorkspace) throws(SystemError) -> any ByteChannel {
        try put(on: SocketChannel.connecting(to: address), workspace: workspace)
    }

    /// Puts the layers on a channel; the first write begins their handshakes. Throws when OpenSSL has no memory left.
    public func put(on socket: any ByteChannel, workspace: FilterWorkspace) throws(SystemError) -> any ByteChannel {
        if isEmpty { return socket }
        var filters: [any StreamFilter] = []
        if let tunnel { filters.append(ProxyTunnelFilter(tunnel)) }
        if let tls {
            guard let filter = TLSFilter(tls) else { throw SystemError(errno: ENOMEM, operation: "SSL_new") }
            filters.append(filter)
        }
        if let webSocket { filters.append(WebSocketFilter(webSocket)) }
        return FilteredChannel(socket: socket, filters: filters, workspace: workspace)
    }
}
