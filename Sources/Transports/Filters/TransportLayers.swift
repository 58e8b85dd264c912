internal import Bytes
internal import Glibc
public import Platform

/// Which layers the connections of a listener have on top of their sockets.
public struct TransportLayers: Sendable {
    public var proxyProtocol: ProxyProtocolSettings?
    public var tls: TLSServer?
    public var webSocket: WebSocketSettings?
    /// The proxies that are believed when HTTP's fields say for whom they ask. Empty: none is.
    public var forwarders: [TrustedNetwork]
    /// What of a client's certificate says who it is.
    public var certificateNaming = CertificateNaming()

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

/// The memory that a loop lends to its filtered connections while one of them reads or writes. Owned by the loop's
/// thread.
public final class FilterWorkspace {
    /// What was read from the socket.
    let input = ByteBlock(capacity: Limits.filteredReadBytesMax)
    /// What one layer has decoded for the next. Two, because a layer reads from one while it writes into the other.
    let stages = (ByteBlock(capacity: stageBytes), ByteBlock(capacity: stageBytes))
    /// What goes down, layer by layer.
    let output = (ByteBlock(capacity: 32 << 10), ByteBlock(capacity: 32 << 10))
    /// What a layer answers by itself.
    let reply = ByteBlock(capacity: 4 << 10)

    public init() {}

    private static let stageBytes = Limits.filteredReadBytesMax + 2 * Limits.filteredSlackBytes
}

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

/// Bytes on their way between two layers: plain memory that grows, reused for every connection of a loop.
///
/// `count <= capacity`; the memory belongs to the block. Used on one thread at a time.
final class ByteBlock {
    private(set) var count = 0
    private var capacity: Int
    private var base: UnsafeMutableRawPointer

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 64)
    }

    deinit {
        base.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    /// The bytes that are in the block. Valid until it changes.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// The bytes that are in the block, as one slice. Valid until it changes.
    var slice: ByteSlice { ByteSlice(base: UnsafeRawPointer(base), count: count) }

    /// The whole memory, for a read that replaces what is in it.
    var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base, count: capacity) }

    func removeAll() {
        count = 0
    }

    func append(_ source: UnsafeRawPointer, count added: Int) {
        guard added > 0 else { return }
        extend(by: added).copyMemory(from: source, byteCount: added)
    }

    func append(_ bytes: some Collection<UInt8>) {
        let start = extend(by: bytes.count)
        UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyBytes(from: bytes)
    }

    /// Adds that many bytes, which the caller fills in at once.
    func extend(by added: Int) -> UnsafeMutableRawPointer {
        if capacity &- count < added { grow(to: count &+ added) }
        count &+= added
        return base + (count &- added)
    }

    private func grow(to needed: Int) {
        let larger = max(needed, capacity * 2)
        let grown = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 64)
        grown.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = grown
        capacity = larger
    }
}
