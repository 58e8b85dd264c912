/// What becomes of a session when somebody connects with its Client Identifier who is not its owner: a session belongs to its user name and
/// its listener's mount point.
public enum ForeignSession: Sendable {
    /// It ends, as with Clean Start, and the newcomer gets one of its own.
    case discards
    /// It stays as it is, and so does its connection; the newcomer is refused.
    case refusesNewcomer
}
