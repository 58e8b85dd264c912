/// A session in a share group, as every shard knows it.
struct GroupMember: Sendable {
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The group's serial number on the member's own shard.
    let serial: UInt32
    var terms: SubscriptionTerms
    var isConnected: Bool
    /// Whether its queue takes no more just now: `Session.isFull`.
    var isFull = false
}
