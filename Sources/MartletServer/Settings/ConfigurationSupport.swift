public import Configuration

/// What a configuration may ask for and this version does not do yet. Such a configuration is refused: a broker that drops a password
/// file or a certificate in silence is open.
public enum ConfigurationSupport {
    /// A sentence for each thing asked for that cannot be had.
    public static func objections(to configuration: BrokerConfiguration) -> [String] {
        var objections: [String] = []
        func refuse(_ isAsked: Bool, _ what: String) {
            if isAsked {
                objections.append("\(what) is not available in this version of Martlet; remove it from the configuration.")
            }
        }
        for listener in configuration.listeners {
            let name = name(of: listener.endpoint)
            if case .unixSocket = listener.endpoint { refuse(true, "\(name): a Unix socket listener") }
            refuse(listener.application != .mqtt, "\(name): protocol \(listener.application.rawValue)")
            refuse(listener.tls.isEnabled, "\(name): TLS")
            refuse(listener.proxyProtocolVersion != nil, "\(name): enable_proxy_protocol")
            refuse(listener.interface != nil, "\(name): bind_interface")
            refuse(listener.security.passwordFile != nil, "\(name): password_file")
            refuse(listener.security.accessControlFile != nil, "\(name): acl_file")
            refuse(listener.security.preSharedKeyFile != nil, "\(name): psk_file")
            refuse(!listener.security.plugins.isEmpty, "\(name): plugin")
        }
        refuse(configuration.persistence.isEnabled, "persistence")
        refuse(!configuration.bridges.isEmpty, "connection (a bridge)")
        refuse(configuration.limits.connectionsPerSecondPerAddressMax != nil, "martlet_max_connections_per_second_per_address")
        refuse(configuration.general.enablesControlAPI, "enable_control_api")
        return objections
    }

    private static func name(of endpoint: ListenerEndpoint) -> String {
        switch endpoint {
        case .tcp(let port, let host): "listener \(port)\(host.map { " \($0)" } ?? "")"
        case .loopback(let port): "listener \(port)"
        case .unixSocket(let path): "listener 0 \(path)"
        }
    }
}
