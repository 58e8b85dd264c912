/// A session's own note of a share group it is in.
struct GroupMembership {
    let name: GroupName
    /// The group's index on this shard.
    let group: UInt32
}
