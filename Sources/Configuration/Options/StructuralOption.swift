/// The options that open a section, name a plug-in or change how the file is read.
enum StructuralOption: Sendable {
    case listener
    case port
    case bindAddress
    case connection
    case includeDirectory
    case perListenerSettings
    case plugin
    case globalPlugin
    case pluginLoad
    case pluginUse
    case pluginOption(prefix: String)

    /// How much of the line it reads.
    var extent: ValueExtent {
        switch self {
        case .connection: .words
        case .port, .perListenerSettings: .word
        // A comment can stand behind a port and an address, and not behind a socket's path: that is seen later.
        case .listener, .bindAddress, .includeDirectory, .plugin, .globalPlugin, .pluginLoad, .pluginUse, .pluginOption: .line
        }
    }
}
