/// What becomes of a session when somebody connects with its client identifier who is not its owner.
public enum ForeignSessionPolicy: String, Sendable, Equatable, CaseIterable {
    /// It ends, and the newcomer gets one of its own.
    case discard
    /// The newcomer is refused with "client identifier not valid".
    case refuse
}
