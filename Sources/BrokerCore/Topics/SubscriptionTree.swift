import BrokerModel

/// All subscriptions that a shard knows, as a tree of topic levels.
///
///     root ── "home" ── + ── "temperature" ─► record ─► record     (chains: one record a subscriber)
///       └──── # ─► record
///
/// Levels are numbers (`LevelTable`), nodes are 24 bytes in one array, literal children are edges in one table; the
/// wildcards are fields of their parent. A node lives as long as it has a record or a child. Belongs to one shard.
struct SubscriptionTree: ~Copyable {
    struct Node: BitwiseCopyable {
        var parent: UInt32
        var level: UInt32
        var children: UInt32
        var singleLevelChild: UInt32
        var multiLevelChild: UInt32
        var firstRecord: UInt32
    }

    static let none: UInt32 = .max
    /// What stands in `Node.level` for the wildcards, which have no text in the table.
    static let singleLevelWildcard: UInt32 = .max - 1
    static let multiLevelWildcard: UInt32 = .max - 2
    static let root: UInt32 = 0

    private(set) var levels: LevelTable
    private(set) var edges: EdgeTable
    private(set) var nodes: Pool<Node>
    private(set) var index: SubscriptionIndex
    private(set) var records: Pool<SubscriptionRecord>
    private var frontier = IndexList()
    private var nextFrontier = IndexList()
    private(set) var generations: TopicGenerations

    init(hashing: TopicHash) {
        levels = LevelTable(hashing: hashing)
        edges = EdgeTable(hashing: hashing)
        nodes = Pool()
        index = SubscriptionIndex(hashing: hashing)
        records = Pool()
        generations = TopicGenerations(hashing: hashing)
        _ = nodes.insert(Self.emptyNode(parent: Self.none, level: Self.none))
    }

    /// The bytes of memory that the tree takes, and all records.
    var heldBytes: Int {
        (nodes.count - 1) * MemoryLayout<Node>.stride + records.count * (MemoryLayout<SubscriptionRecord>.stride + 8)
            + edges.heldBytes + levels.heldBytes
    }

    /// Notes which row of the store keeps a record; 0 for none.
    mutating func setStoreNumber(_ number: UInt64, of record: UInt32) { records[record].storeNumber = number }

    /// Adds or replaces the subscription of `subscriber` to `filter`; O(levels).
    ///
    /// - Returns: the record's index, and whether it is new. [MQTT-3.8.4-3 v5]
    mutating func insert(
        _ filter: UnsafeRawBufferPointer, subscriber: Subscriber, terms: SubscriptionTerms
    ) -> (record: UInt32, isNew: Bool) {
        generations.advance(filter)
        let node = makeNode(filter)
        let known = index.find(node: node, subscriber: subscriber, in: records.base)
        if known != SubscriptionRecord.none {
            records[known].terms = terms
            return (known, false)
        }
        let first = nodes[node].firstRecord
        let record = records.insert(
            SubscriptionRecord(
                node: node, subscriber: subscriber, terms: terms, nextOfNode: first))
        if first != SubscriptionRecord.none { records[first].previousOfNode = record }
        nodes[node].firstRecord = record
        index.insert(record, in: records.base)
        return (record, true)
    }

    /// The record of `subscriber` for exactly this filter, or `SubscriptionRecord.none`. [MQTT-3.10.4-1 v5]
    func find(_ filter: UnsafeRawBufferPointer, subscriber: Subscriber) -> UInt32 {
        let node = findNode(filter)
        return node == Self.none ? SubscriptionRecord.none : index.find(node: node, subscriber: subscriber, in: records.base)
    }

    /// Whether a session of this shard subscribes to exactly this filter.
    func hasSession(_ filter: UnsafeRawBufferPointer) -> Bool {
        let node = findNode(filter)
        guard node != Self.none else { return false }
        var record = nodes[node].firstRecord
        while record != SubscriptionRecord.none {
            if records[record].subscriber.isSession { return true }
            record = records[record].nextOfNode
        }
        return false
    }

    /// Whether a filter may match topics that begin with these levels and have others behind them; it looks at few
    /// nodes, save where many of those levels have wildcards beside them.
    func hasFilters(below topic: UnsafeRawBufferPointer) -> Bool {
        hasFilters(below: LevelSequence(topic), at: Self.root, wildcardsMatch: topic.first != UInt8(ascii: "$"))
    }

    private func hasFilters(below levels: LevelSequence, at node: UInt32, wildcardsMatch: Bool) -> Bool {
        var rest = levels
        guard let text = rest.next() else { return nodes[node].children > 0 }
        if wildcardsMatch {
            if nodes[node].multiLevelChild != Self.none { return true }
            let child = nodes[node].singleLevelChild
            if child != Self.none, hasFilters(below: rest, at: child, wildcardsMatch: true) { return true }
        }
        let level = self.levels.find(text)
        guard level != LevelTable.none else { return false }
        let child = edges.child(of: node, level: level)
        return child != EdgeTable.none && hasFilters(below: rest, at: child, wildcardsMatch: true)
    }

    /// Removes a record; O(levels), and the nodes that it leaves empty.
    ///
    /// - Returns: how many levels its filter has.
    @discardableResult
    mutating func remove(_ record: UInt32) -> Int {
        let removed = records[record]
        let depth = markChanged(below: removed.node)
        index.remove(record, in: records.base)
        if removed.previousOfNode == SubscriptionRecord.none {
            nodes[removed.node].firstRecord = removed.nextOfNode
        } else {
            records[removed.previousOfNode].nextOfNode = removed.nextOfNode
        }
        if removed.nextOfNode != SubscriptionRecord.none { records[removed.nextOfNode].previousOfNode = removed.previousOfNode }
        records.remove(record)
        prune(removed.node)
        return depth
    }

    /// Makes the matches old that may have found something at the node; O(levels), and no text is put together for it.
    ///
    /// - Returns: how many levels there are to the node.
    private mutating func markChanged(below start: UInt32) -> Int {
        var node = start
        var depth = 1
        while nodes[node].parent != Self.root {
            node = nodes[node].parent
            depth += 1
        }
        switch nodes[node].level {
        case Self.singleLevelWildcard, Self.multiLevelWildcard: generations.advanceAll()
        default: generations.advance(firstLevel: levels.text(of: nodes[node].level))
        }
        return depth
    }

    /// Makes every match found so far old.
    mutating func forgetMatches() { generations.advanceAll() }

    /// The filter of a record, without a `$share` prefix; O(levels).
    func filter(of record: UInt32) -> [UInt8] {
        var path: [UInt32] = []
        var node = records[record].node
        while node != Self.root {
            path.append(node)
            node = nodes[node].parent
        }
        var text: [UInt8] = []
        for (position, node) in path.reversed().enumerated() {
            if position > 0 { text.append(UInt8(ascii: "/")) }
            switch nodes[node].level {
            case Self.singleLevelWildcard: text.append(UInt8(ascii: "+"))
            case Self.multiLevelWildcard: text.append(UInt8(ascii: "#"))
            default: text.append(contentsOf: levels.text(of: nodes[node].level))
            }
        }
        return text
    }

    /// Above the index of every record.
    var recordLimit: UInt32 { UInt32(records.end) }

    /// Calls `body` with the index of each record whose filter matches `topic`, in no particular order.
    ///
    /// Walks the tree level by level; costs two table look-ups for each node that matches so far.
    mutating func match(_ topic: UnsafeRawBufferPointer, _ body: (UInt32) -> Void) {
        frontier.removeAll()
        frontier.append(Self.root)
        // Wildcards at the first level do not match topics that begin with $. [MQTT-4.7.2-1 v5] [MQTT-4.7.2-1 v3.1.1]
        var wildcardsMatch = topic.first != UInt8(ascii: "$")
        var sequence = LevelSequence(topic)
        while let text = sequence.next(), frontier.count > 0 {
            let level = levels.find(text)
            nextFrontier.removeAll()
            for position in 0..<frontier.count {
                let node = nodes[frontier[position]]
                if wildcardsMatch {
                    if node.multiLevelChild != Self.none { visit(node.multiLevelChild, body) }
                    if node.singleLevelChild != Self.none { nextFrontier.append(node.singleLevelChild) }
                }
                if level != LevelTable.none {
                    let child = edges.child(of: frontier[position], level: level)
                    if child != EdgeTable.none { nextFrontier.append(child) }
                }
            }
            swap(&frontier, &nextFrontier)
            wildcardsMatch = true
        }
        for position in 0..<frontier.count {
            let node = nodes[frontier[position]]
            visit(frontier[position], body)
            // `a/#` matches `a` too: # stands for the parent and what is below it.
            if node.multiLevelChild != Self.none { visit(node.multiLevelChild, body) }
        }
    }

    @inline(__always)
    private func visit(_ node: UInt32, _ body: (UInt32) -> Void) {
        var record = nodes[node].firstRecord
        while record != SubscriptionRecord.none {
            body(record)
            record = records[record].nextOfNode
        }
    }

    private func findNode(_ filter: UnsafeRawBufferPointer) -> UInt32 {
        var node = Self.root
        var sequence = LevelSequence(filter)
        while let text = sequence.next() {
            if LevelSequence.isSingleLevelWildcard(text) {
                node = nodes[node].singleLevelChild
            } else if LevelSequence.isMultiLevelWildcard(text) {
                node = nodes[node].multiLevelChild
            } else {
                let level = levels.find(text)
                node = level == LevelTable.none ? Self.none : edges.child(of: node, level: level)
            }
            if node == Self.none { return Self.none }
        }
        return node
    }

    private mutating func makeNode(_ filter: UnsafeRawBufferPointer) -> UInt32 {
        var node = Self.root
        var sequence = LevelSequence(filter)
        while let text = sequence.next() {
            if LevelSequence.isSingleLevelWildcard(text) {
                if nodes[node].singleLevelChild == Self.none {
                    let child = newChild(of: node, level: Self.singleLevelWildcard)
                    nodes[node].singleLevelChild = child
                }
                node = nodes[node].singleLevelChild
            } else if LevelSequence.isMultiLevelWildcard(text) {
                if nodes[node].multiLevelChild == Self.none {
                    let child = newChild(of: node, level: Self.multiLevelWildcard)
                    nodes[node].multiLevelChild = child
                }
                node = nodes[node].multiLevelChild
            } else {
                node = literalChild(of: node, text)
            }
        }
        return node
    }

    private mutating func literalChild(of node: UInt32, _ text: UnsafeRawBufferPointer) -> UInt32 {
        let known = levels.find(text)
        if known != LevelTable.none {
            let child = edges.child(of: node, level: known)
            if child != EdgeTable.none { return child }
        }
        let level = levels.retain(text)
        let child = newChild(of: node, level: level)
        edges.insert(parent: node, level: level, child: child)
        return child
    }

    private mutating func newChild(of parent: UInt32, level: UInt32) -> UInt32 {
        nodes[parent].children &+= 1
        return nodes.insert(Self.emptyNode(parent: parent, level: level))
    }

    /// Removes `start` and its ancestors as far as they hold nothing.
    private mutating func prune(_ start: UInt32) {
        var node = start
        while node != Self.root, nodes[node].children == 0, nodes[node].firstRecord == SubscriptionRecord.none {
            let (parent, level) = (nodes[node].parent, nodes[node].level)
            switch level {
            case Self.singleLevelWildcard: nodes[parent].singleLevelChild = Self.none
            case Self.multiLevelWildcard: nodes[parent].multiLevelChild = Self.none
            default:
                edges.remove(parent: parent, level: level)
                levels.release(level)
            }
            nodes[parent].children &-= 1
            nodes.remove(node)
            node = parent
        }
    }

    private static func emptyNode(parent: UInt32, level: UInt32) -> Node {
        Node(
            parent: parent, level: level, children: 0, singleLevelChild: none, multiLevelChild: none,
            firstRecord: SubscriptionRecord.none)
    }
}

/// Counts the changes of subscriptions, so that a cached match knows when it is old.
///
/// One count would make every subscription anywhere forget every match. There are 256, chosen by the first level, and
/// one for the filters that begin with a wildcard and may match any topic.
struct TopicGenerations: ~Copyable {
    private static let bucketCount = 256

    private let hashing: TopicHash
    private let buckets: UnsafeMutablePointer<UInt32>
    private var wildcards: UInt32 = 0

    init(hashing: TopicHash) {
        self.hashing = hashing
        buckets = .allocate(capacity: Self.bucketCount)
        buckets.initialize(repeating: 0, count: Self.bucketCount)
    }

    deinit { buckets.deallocate() }

    /// Notes that who matches `filter` has changed.
    mutating func advance(_ filter: UnsafeRawBufferPointer) {
        var sequence = LevelSequence(filter)
        guard let first = sequence.next() else { return }
        if LevelSequence.isSingleLevelWildcard(first) || LevelSequence.isMultiLevelWildcard(first) {
            wildcards &+= 1
        } else {
            advance(firstLevel: first)
        }
    }

    /// Notes that who matches a filter has changed whose first level is this text, and no wildcard.
    mutating func advance(firstLevel text: UnsafeRawBufferPointer) {
        let bucket = buckets + (Int(truncatingIfNeeded: hashing.hash(text)) & (Self.bucketCount - 1))
        bucket.pointee &+= 1
    }

    /// Notes that who matches anything may have changed.
    mutating func advanceAll() { wildcards &+= 1 }

    /// Which count a topic belongs to.
    func bucket(of topic: UnsafeRawBufferPointer) -> Int {
        var sequence = LevelSequence(topic)
        guard let first = sequence.next() else { return 0 }
        return Int(truncatingIfNeeded: hashing.hash(first)) & (Self.bucketCount - 1)
    }

    /// The state that a match made now belongs to; another state later means that it may be old.
    @inline(__always)
    func stamp(bucket: Int) -> UInt64 { UInt64(buckets[bucket]) << 32 | UInt64(wildcards) }
}

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
        put(index, records)
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

    private mutating func put(_ index: UInt32, _ records: UnsafeMutablePointer<SubscriptionRecord>) {
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
        for slot in 0..<oldCount where old[slot] != SubscriptionRecord.none { put(old[slot], records) }
        old.deallocate()
    }
}
