/// What has happened to a member of a share group.
enum GroupChange: Sendable {
    case joined(GroupMember)
    case left(sessionKey: UInt64)
    /// Its client has come or gone.
    case presence(sessionKey: UInt64, isConnected: Bool)
    /// Its queue has become full, or has room again.
    case fullness(sessionKey: UInt64, isFull: Bool)
}
