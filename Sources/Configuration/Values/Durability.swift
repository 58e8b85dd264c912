/// What an acknowledgement promises.
public enum Durability: Sendable, Equatable {
    /// What was acknowledged survives `kill -9` and a power cut.
    case commit
    /// What was acknowledged begins to be written at most that many seconds later; a crash costs what was not.
    case interval(seconds: Int)
    /// Nothing before an orderly stop.
    case none
}
