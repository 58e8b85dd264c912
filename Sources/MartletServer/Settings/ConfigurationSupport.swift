public import Configuration

/// What a configuration may ask for and this version does not do yet. Such a configuration is refused: a broker that drops a password
/// file or a certificate in silence is open.
public enum ConfigurationSupport {
    /// An error for each line that asks for what cannot be had, with what to do instead.
    public static func objections(to result: ConfigurationResult) -> [Diagnostic] {
        let (configuration, places) = (result.configuration, result.places)
        var objections: [Diagnostic] = []
        func refuse(_ line: ConfigurationPlaces.Line?, _ what: String, _ remedy: String) {
            objections.append(
                Diagnostic(
                    severity: .error, at: line, in: places,
                    message: "\(what) not available in this version of Martlet. \(remedy)"))
        }
        let used = Set(configuration.listeners.flatMap { $0.security.plugins.map(\.plugin) })
        for line in places.lines where ["plugin", "auth_plugin", "global_plugin", "plugin_load"].contains(line.name) {
            let path =
                line.name == "plugin_load"
                ? String(line.value.drop { $0 != " " && $0 != "\t" }.drop { $0 == " " || $0 == "\t" }) : line.value
            guard let plugin = BuiltInPlugin(path: path), !plugin.isAvailable, used.contains(plugin) else { continue }
            refuse(line, "\(plugin.rawValue) is", remedy(for: plugin))
        }
        return objections
    }

    private static func remedy(for plugin: BuiltInPlugin) -> String {
        switch plugin {
        case .sparkplugAware: "Remove the line; the messages of Sparkplug clients pass without it."
        case .dynamicSecurity, .passwordFile, .accessControlFile, .persistSQLite: "Remove the line."
        }
    }
}
