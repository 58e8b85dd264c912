import BrokerModel

/// What stands behind the `ShardMessageHeader` of a message that goes to one session, is retained, or must be taken
/// once.
struct ShardMessageDetail: BitwiseCopyable {
    /// For `.shared` and `.retained`: the session, the terms of its subscription, and the group. For `.retain` and `.settled`: the node of
    /// the change that the stamp numbers, 0 for this one.
    var sessionKey: UInt64 = 0
    var sessionIndex: UInt32 = 0
    var terms: UInt32 = 0
    var group: UInt32 = 0
    /// For `.retained`: how many more of its scan are to be granted once this one is taken; 0 for most. For `.shared`: in the highest byte
    /// `Publication.hops`, and of a message that was dealt out of the cluster's log the shard that has dealt it, and one.
    var request: UInt32 = 0
    /// For `.retained`: the stamp of the query. For `.shared`: stands for the group's name and filter. For `.retain` and `.settled`: the
    /// change's number among its node's, 0 for one that the cluster does not hear of.
    var stamp: UInt64 = 0
    /// For `.retain`: the shards that have the message already, a bit each. For `.retained`: the scan it came from. For `.shared`: where a message
    /// that was dealt stands in the log, the partition in the highest byte.
    var shards: UInt64 = 0
    /// For `.publish`, `.shared` and `.retain`: names a QoS 2 message that must be taken once; 0 for any other.
    var receipt: UInt64 = 0
    /// For `.shared`: what the cluster's log calls a message that was dealt out of it.
    var name = MessageName.none

    /// For `.shared`: which shard has dealt it out of the cluster's log, and where it stands there; nil for what does not come from there.
    var dealt: (by: Int, DealtPlaces.Place)? {
        get {
            guard request & Self.dealer != 0 else { return nil }
            let place = DealtPlaces.Place(partition: Int(shards >> 56), sequence: shards & (1 << 56 - 1))
            return (Int(request & Self.dealer) - 1, place)
        }
        set {
            request = request & ~Self.dealer | (newValue.map { UInt32($0.by) + 1 } ?? 0)
            shards = newValue.map { UInt64($0.1.partition) << 56 | $0.1.sequence } ?? 0
        }
    }

    /// For `.shared`: how often nodes have passed the message on.
    var hops: UInt8 {
        get { UInt8(truncatingIfNeeded: request >> 24) }
        set { request = request & Self.dealer | UInt32(newValue) << 24 }
    }

    private static let dealer: UInt32 = 1 << 24 - 1
}
