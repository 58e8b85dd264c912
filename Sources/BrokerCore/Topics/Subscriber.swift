/// Who holds a subscription in the tree: a session of this shard, a share group, or another shard that wants the messages; or that a
/// session of another shard that holds it has a full queue.
///
///     0 …………… 0xefff_ffff   the index of a session
///     0xf000_0000 …          the index of a share group
///     0xffff_ff00 …          a shard
///     0xffff_ff80 …          the full queues of a shard
struct Subscriber: Hashable {
    let rawValue: UInt32

    private static let groupBase: UInt32 = 0xf000_0000
    private static let shardBase: UInt32 = 0xffff_ff00
    private static let fullBase: UInt32 = 0xffff_ff80

    static func session(_ index: UInt32) -> Self { Self(rawValue: index) }
    static func group(_ index: UInt32) -> Self { Self(rawValue: groupBase + index) }
    static func shard(_ index: Int) -> Self { Self(rawValue: shardBase + UInt32(index)) }
    static func fullQueues(of shard: Int) -> Self { Self(rawValue: fullBase + UInt32(shard)) }

    var isSession: Bool { rawValue < Self.groupBase }
    var isGroup: Bool { rawValue >= Self.groupBase && rawValue < Self.shardBase }
    var isShard: Bool { rawValue >= Self.shardBase && rawValue < Self.fullBase }
    /// The index of the session, the group or the shard.
    var index: UInt32 {
        if isSession { return rawValue }
        if isGroup { return rawValue - Self.groupBase }
        return rawValue - (isShard ? Self.shardBase : Self.fullBase)
    }
}
