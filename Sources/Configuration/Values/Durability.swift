/// What an acknowledgement promises.
public enum Durability: Sendable, Equatable {
    /// What was acknowledged survives `kill -9` and a power cut.
    case commit
    /// A power cut costs at most that many seconds.
    case interval(seconds: Int)
    /// The state is kept only by an orderly stop.
    case none
}
