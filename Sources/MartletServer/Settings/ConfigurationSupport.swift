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
            let name = ListenerName.of(listener.endpoint)
            refuse(listener.application == .httpAPI, "\(name): protocol \(listener.application.rawValue)")
            for plugin in listener.security.plugins.map(\.plugin) where !isBuilt(plugin) {
                refuse(true, "\(name): plugin \(plugin.rawValue)")
            }
        }
        for bridge in configuration.bridges { refuse(true, "connection \(bridge.name) (a bridge)") }
        refuse(configuration.general.enablesControlAPI, "enable_control_api")
        return objections
    }

    private static func isBuilt(_ plugin: BuiltInPlugin) -> Bool {
        switch plugin {
        case .passwordFile, .accessControlFile, .persistSQLite: true
        case .dynamicSecurity, .sparkplugAware: false
        }
    }
}
