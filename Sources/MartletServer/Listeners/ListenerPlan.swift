import Configuration
import Transports

/// What a listener's configuration means to the transports: where to listen, and the layers of its connections.
struct ListenerPlan {
    let address: ListenAddress
    let layers: TransportLayers
    /// What the log calls the socket: its family, or the protocol on top of it.
    private let application: ListenerProtocol

    /// Reads certificates and keys. Throws what is wrong with them.
    init(
        _ configuration: ListenerConfiguration, general: GeneralConfiguration, keyLogFile: String?,
        preSharedKey: (@Sendable (String) -> [UInt8]?)?
    ) throws(TLSFailure) {
        application = configuration.application
        address = Self.address(of: configuration)
        var layers = Self.layers(configuration, general: general)
        if let settings = TLSSettings(configuration, keyLogFile: keyLogFile, preSharedKey: preSharedKey) {
            layers.tls = try TLSServer(settings)
        }
        self.layers = layers
    }

    /// The layers but for TLS, which has files.
    static func layers(_ configuration: ListenerConfiguration, general: GeneralConfiguration) -> TransportLayers {
        var layers = TransportLayers()
        let trusted = configuration.trustedProxies.compactMap { TrustedNetwork(host: $0.host, bits: $0.bits) }
        if let version = configuration.proxyProtocolVersion {
            layers.proxyProtocol = ProxyProtocolSettings(
                version: version == 1 ? .v1 : .v2, requiresTLS: configuration.proxyProtocolRequiresTLS,
                requiresCertificate: configuration.tls.requiresCertificate && !configuration.tls.isEnabled,
                trusted: trusted)
        } else if configuration.application != .mqtt {
            // The PROXY header says it all where there is one; a field of its client's would be believed in its stead.
            layers.forwarders = trusted
        }
        if configuration.application == .webSockets {
            layers.webSocket = WebSocketSettings(
                origins: configuration.webSocketOrigins, headerBytesMax: general.webSocketHeaderBytesMax)
        }
        return layers
    }

    /// The line that says that a socket listens, in mosquitto's words.
    func announcement(of listener: Listener) -> String {
        if let path = listener.boundAddress.path { return "Opening unix listen socket on path \(path)." }
        let family = listener.boundAddress.endpoint.family == .ipv6 ? "ipv6" : "ipv4"
        let kind =
            switch application {
            case .mqtt: family
            case .webSockets: "websockets"
            case .httpAPI: "http api"
            }
        return "Opening \(kind) listen socket on port \(listener.boundPort)."
    }

    /// Where a listener listens.
    static func address(of configuration: ListenerConfiguration) -> ListenAddress {
        let family: ListenAddress.Family =
            switch configuration.addressFamily {
            case .ipv4: .ipv4
            case .ipv6: .ipv6
            case nil: .both
            }
        let interface = configuration.interface
        return switch configuration.endpoint {
        case .tcp(let port, let host?): ListenAddress(host: .named(host), port: port, family: family, interface: interface)
        case .tcp(let port, nil): ListenAddress(host: .all, port: port, family: family, interface: interface)
        case .loopback(let port): ListenAddress(host: .loopback, port: port, family: family, interface: interface)
        case .unixSocket(let path): ListenAddress(host: .path(path), port: 0)
        }
    }
}
