import Platform
import Transports

/// Makes connections to the broker, each with the layers that the load is to go through. For every worker's thread.
struct ChannelMaker: Sendable {
    /// What the host resolves to, the one that is used first.
    private(set) var addresses: [SocketAddress]
    private let layers: ClientLayers
    /// Where subscribers connect instead.
    private let subscriberPort: UInt16?

    /// Resolves the host and reads the files; throws what is wrong with them.
    init(_ options: BenchOptions) throws(BenchError) {
        let transport = options.transport
        subscriberPort = options.subscriberPort
        do throws(ResolutionError) {
            addresses = try ListenAddress(host: options.host, port: options.brokerPort).resolve()
        } catch {
            throw .unresolved(error)
        }
        do throws(TLSFailure) {
            layers = ClientLayers(
                tls: try transport.tlsSettings(host: options.host).map { settings throws(TLSFailure) in
                    try TLSClientContext(settings)
                },
                webSocket: transport.usesWebSocket
                    ? WebSocketClientSettings(host: options.brokerAddress) : nil)
        } catch {
            throw .tls(error)
        }
    }

    /// Begins to connect. The channel becomes writable when it is done; a write then tells whether it failed.
    func makeChannel(isSubscriber: Bool = false, workspace: FilterWorkspace) throws(SystemError) -> any ByteChannel {
        let address = isSubscriber ? subscriberPort.map { addresses[0].withPort($0) } : nil
        return try layers.connecting(to: address ?? addresses[0], workspace: workspace)
    }

    /// Lets all connections go to that address of the host.
    mutating func choose(_ address: SocketAddress) { addresses = [address] }

    /// Whether further connections should wait for the first, because they are to resume its session.
    var awaitsSession: Bool { layers.tls?.isReadyToResume == false }

    /// Tells what the connections went through.
    func describe(_ result: inout BenchResult) {
        guard let tls = layers.tls, tls.handshakeCount > 0 else { return }
        result.add("encryption", "encryption", .text(tls.encryption ?? ""))
        result.add("handshakes", "TLS handshakes", tls.handshakeCount)
        result.add("handshakes_resumed", "  that resumed a session", tls.resumedCount)
    }
}
