/// Who holds a subscription in the tree: a session of this shard, a share group, or another shard that wants the messages.
///
///     0 …………… 0xefff_ffff   the index of a session
///     0xf000_0000 …          the index of a share group
///     0xffff_ff00 …          a shard
struct Subscriber: Hashable {
    let rawValue: UInt32

    private static let groupBase: UInt32 = 0xf000_0000
    private static let shardBase: UInt32 = 0xffff_ff00

    static func session(_ index: UInt32) -> Self { Self(rawValue: index) }
    static func group(_ index: UInt32) -> Self { Self(rawValue: groupBase + index) }
    static func shard(_ index: Int) -> Self { Self(rawValue: shardBase + UInt32(index)) }

    var isSession: Bool { rawValue < Self.groupBase }
    var isShard: Bool { rawValue >= Self.shardBase }
    /// The index of the session, the group or the shard.
    var index: UInt32 { isSession ? rawValue : isShard ? rawValue - Self.shardBase : rawValue - Self.groupBase }
}
