/// One `plugin` line and the `plugin_opt_*` lines after it.
public struct PluginConfiguration: Sendable, Equatable {
    public var plugin: BuiltInPlugin
    /// NAME to value of `plugin_opt_NAME`.
    public var options: [String: String] = [:]

    public init(plugin: BuiltInPlugin) {
        self.plugin = plugin
    }
}
