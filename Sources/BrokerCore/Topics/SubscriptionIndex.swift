import BrokerModel

/// Finds the subscription of a subscriber at a node: open addressing over the indices of the records.
///
/// With it, a thousand clients on one filter subscribe and unsubscribe without walking each other's chain.
struct SubscriptionIndex: ~Copyable {
    private let hashing: TopicHash
    private var slots: UnsafeMutablePointer<UInt32>
    private var mask = 127
    private(set) var count = 0

    init(hashing: TopicHash) {
        self.hashing = hashing
        slots = .allocate(capacity: 128)
        slots.initialize(repeating: SubscriptionRecord.none, count: 128)
    }

    deinit { slots.deallocate() }

    /// The record of `subscriber` at `node`, or `SubscriptionRecord.none`.
    func find(node: UInt32, subscriber: Subscriber, in records: UnsafeMutablePointer<SubscriptionRecord>) -> UInt32 {
        var slot = home(node, subscriber)
        while slots[slot] != SubscriptionRecord.none {
            let record = records + Int(slots[slot])
            if record.pointee.node == node, record.pointee.subscriber == subscriber { return slots[slot] }
            slot = (slot &+ 1) & mask
        }
        return SubscriptionRecord.none
    }

    mutating func insert(_ index: UInt32, in records: UnsafeMutablePointer<SubscriptionRecord>) {
        if count &* 4 >= mask &* 3 { grow(records) }
        place(index, records)
        count &+= 1
    }

    mutating func remove(_ index: UInt32, in records: UnsafeMutablePointer<SubscriptionRecord>) {
        var gap = home(records[Int(index)].node, records[Int(index)].subscriber)
        while slots[gap] != index { gap = (gap &+ 1) & mask }
        var next = (gap &+ 1) & mask
        while slots[next] != SubscriptionRecord.none {
            let record = records + Int(slots[next])
            let nextHome = home(record.pointee.node, record.pointee.subscriber)
            if (next &- nextHome) & mask >= (next &- gap) & mask {
                slots[gap] = slots[next]
                gap = next
            }
            next = (next &+ 1) & mask
        }
        slots[gap] = SubscriptionRecord.none
        count &-= 1
    }

    private func home(_ node: UInt32, _ subscriber: Subscriber) -> Int {
        Int(truncatingIfNeeded: hashing.hash(node, subscriber.rawValue)) & mask
    }

    private mutating func place(_ index: UInt32, _ records: UnsafeMutablePointer<SubscriptionRecord>) {
        var slot = home(records[Int(index)].node, records[Int(index)].subscriber)
        while slots[slot] != SubscriptionRecord.none { slot = (slot &+ 1) & mask }
        slots[slot] = index
    }

    private mutating func grow(_ records: UnsafeMutablePointer<SubscriptionRecord>) {
        let old = slots
        let oldCount = mask + 1
        mask = oldCount * 2 - 1
        slots = .allocate(capacity: oldCount * 2)
        slots.initialize(repeating: SubscriptionRecord.none, count: oldCount * 2)
        for slot in 0..<oldCount where old[slot] != SubscriptionRecord.none { place(old[slot], records) }
        old.deallocate()
    }
}
