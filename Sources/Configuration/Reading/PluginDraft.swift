/// A plug-in whose options are being read.
struct PluginDraft: Sendable {
    var configuration: PluginConfiguration
    var scope: Scope
    var position: SourcePosition
    /// Whether the plug-in is built in and stands where it may; otherwise an error was reported.
    var isUsable: Bool
    /// Whether the plug-in is built in, wherever it stands.
    var isBuiltIn: Bool

    /// Whom it serves.
    enum Scope: Sendable, Equatable {
        /// Every listener that takes the broker's security settings.
        case broker
        /// Every listener.
        case everyListener
        case listener(Int)
        /// The listeners that name it with `plugin_use`.
        case named(String)
    }
}

/// A `plugin_use` line.
struct PluginUse: Sendable {
    var name: String
    var scope: PluginDraft.Scope
}
