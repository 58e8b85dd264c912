/// How much a store has given back.
public struct RecoverySummary: Sendable, Equatable {
    public internal(set) var sessions = 0
    public internal(set) var subscriptions = 0
    /// Messages on their way to sessions.
    public internal(set) var messages = 0
    public internal(set) var retained = 0

    public init() {}
}
