/// A `plugin_use` line.
struct PluginUse: Sendable {
    var name: String
    var scope: PluginDraft.Scope
}
