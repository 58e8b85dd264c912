/// A session's own note of a share group it is in.
struct GroupMembership {
    let name: GroupName
    /// The group's index on this shard.
    let group: UInt32
    /// The key of its row in the store, 0 for none.
    var storeNumber: UInt64 = 0
}
