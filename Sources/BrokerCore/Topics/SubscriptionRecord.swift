import BrokerModel
import MQTTCodec

/// One subscription in the tree: a link in the chain of its node and in the chain of its session.
struct SubscriptionRecord {
    var node: UInt32
    var subscriber: Subscriber
    var terms: SubscriptionTerms
    var nextOfNode: UInt32
    var previousOfNode: UInt32
    var nextOfSession: UInt32
    var previousOfSession: UInt32
    /// The key of its row in the store in two halves, which need no alignment; 0 for none.
    private var storeNumberHigh: UInt32 = 0
    private var storeNumberLow: UInt32 = 0

    /// The end of a chain.
    static let none: UInt32 = .max

    /// The key of its row in the store, 0 for none.
    var storeNumber: UInt64 {
        get { UInt64(storeNumberHigh) << 32 | UInt64(storeNumberLow) }
        set {
            (storeNumberHigh, storeNumberLow) = (UInt32(truncatingIfNeeded: newValue >> 32), UInt32(truncatingIfNeeded: newValue))
        }
    }

    init(node: UInt32, subscriber: Subscriber, terms: SubscriptionTerms, nextOfNode: UInt32) {
        self.node = node
        self.subscriber = subscriber
        self.terms = terms
        self.nextOfNode = nextOfNode
        previousOfNode = Self.none
        nextOfSession = Self.none
        previousOfSession = Self.none
    }
}

/// The holder of a subscription in the tree: a session of this shard, a share group, another shard that wants the
/// messages, or a session of another shard that has a full queue.
///
///     0 …………… 0xefff_ffff   the index of a session
///     0xf000_0000 …          the index of a share group
///     0xf800_0000 …          the index in the table of full queues
///     0xffff_ff00 …          a shard
struct Subscriber: Hashable {
    let rawValue: UInt32

    private static let groupBase: UInt32 = 0xf000_0000
    private static let shardBase: UInt32 = 0xffff_ff00
    private static let fullBase: UInt32 = 0xf800_0000

    static func session(_ index: UInt32) -> Self { Self(rawValue: index) }
    static func group(_ index: UInt32) -> Self { Self(rawValue: groupBase + index) }
    static func shard(_ index: Int) -> Self { Self(rawValue: shardBase + UInt32(index)) }
    static func fullQueue(_ index: UInt32) -> Self { Self(rawValue: fullBase + index) }

    var isSession: Bool { rawValue < Self.groupBase }
    var isGroup: Bool { rawValue >= Self.groupBase && rawValue < Self.fullBase }
    var isShard: Bool { rawValue >= Self.shardBase }
    /// The index of the session, the group, the full queue or the shard.
    var index: UInt32 {
        if isSession { return rawValue }
        if isGroup { return rawValue - Self.groupBase }
        return rawValue - (isShard ? Self.shardBase : Self.fullBase)
    }
}

extension TopicName {
    /// The topic as it is called inside the broker, behind a listener's mount point; nil if that is too long to be a
    /// topic.
    func mounted(_ mountPoint: [UInt8]) -> TopicName? {
        mountPoint.isEmpty ? self : TopicName(mountPoint + bytes)
    }
}
