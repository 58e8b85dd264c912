/// When a bridge connects.
public enum BridgeStart: String, Sendable, Equatable, CaseIterable {
    case automatic
    case lazy
    case once
}
