/// When a reload of the configuration reaches a bridge: at its next connection, or at once.
public enum BridgeReload: String, Sendable, Equatable, CaseIterable {
    case lazy
    case immediate
}
