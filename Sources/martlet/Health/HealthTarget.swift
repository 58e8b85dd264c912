import Configuration

/// Where a broker is asked, and through which layers.
struct HealthTarget {
    /// nil for a Unix socket.
    var host: String?
    var port: UInt16 = 1883
    var path: String?
    var usesTLS = false
    var usesWebSocket = false

    /// What the operator calls it: `127.0.0.1:1883`, `[::1]:1883`, `/run/martlet/mqtt.sock`.
    var name: String {
        if let path { return path }
        let host = host ?? ""
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// This machine's port 1883.
    init() { host = "127.0.0.1" }

    /// The listener that is the easiest to ask: without TLS if there is one. nil if each of them demands what only its clients have: a PROXY
    /// header, a certificate, a pre-shared key.
    init?(easiestOf configuration: BrokerConfiguration) {
        let open = configuration.listeners.filter { listener in
            let tls = listener.tls
            return listener.application != .httpAPI && listener.proxyProtocolVersion == nil
                && (!tls.isEnabled || tls.certificateFile != nil && !tls.requiresCertificate)
        }
        guard let listener = open.first(where: { !$0.tls.isEnabled }) ?? open.first else { return nil }
        switch listener.endpoint {
        case .tcp(let port, let host): (self.host, self.port) = (Self.reachable(host, listener.addressFamily), port)
        case .loopback(let port): (host, self.port) = (listener.addressFamily == .ipv6 ? "::1" : "127.0.0.1", port)
        case .unixSocket(let path): self.path = path
        }
        usesTLS = listener.tls.isEnabled
        usesWebSocket = listener.application == .webSockets
    }

    /// A listener on all addresses is asked on the loopback one.
    static func reachable(_ host: String?, _ family: AddressFamily?) -> String {
        switch host {
        case nil: family == .ipv6 ? "::1" : "127.0.0.1"
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        case let host?: host
        }
    }
}
