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
}
