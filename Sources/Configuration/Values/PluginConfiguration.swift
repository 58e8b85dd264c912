/// One `plugin` line and the `plugin_opt_*` lines after it.
public struct PluginConfiguration: Sendable, Equatable {
    public var plugin: BuiltInPlugin
    /// NAME to value of `plugin_opt_NAME`.
    public var options: [String: String] = [:]

    public init(plugin: BuiltInPlugin) {
        self.plugin = plugin
    }
}

/// A plug-in of mosquitto that Martlet has built in. Its library is never loaded; the file's name tells which one is meant.
public enum BuiltInPlugin: String, Sendable, Equatable, CaseIterable {
    case dynamicSecurity = "mosquitto_dynamic_security"
    case passwordFile = "mosquitto_password_file"
    case accessControlFile = "mosquitto_acl_file"
    case persistSQLite = "mosquitto_persist_sqlite"
    case sparkplugAware = "mosquitto_sparkplug_aware"

    /// Whether this version of Martlet has it. A configuration that uses one it has not is refused.
    public var isAvailable: Bool {
        switch self {
        case .dynamicSecurity, .passwordFile, .accessControlFile, .persistSQLite: true
        case .sparkplugAware: false
        }
    }

    /// The plug-in that the library at `path` holds, or nil if it is none of mosquitto's own.
    public init?(path: String) {
        let fileName = path.split(separator: "/").last.map(String.init) ?? path
        self.init(rawValue: fileName.hasSuffix(".so") ? String(fileName.dropLast(3)) : fileName)
    }
}
