import BrokerModel

/// The retained messages of the topics that belong to a shard, as a tree of topic levels.
///
/// A node lives as long as it holds a message or a child, or a scan is to go on with it: so a scan's place in the tree
/// stays right over many turns, and one whose receiver does not read keeps a few nodes only, one for each level at
/// most.
struct RetainedStore: ~Copyable {
    struct Node: BitwiseCopyable {
        var parent: UInt32
        var level: UInt32
        var firstChild: UInt32
        var nextSibling: UInt32
        var previousSibling: UInt32
        /// How many scans are to go on with it.
        var scans: UInt32 = 0
        /// Which change of the store set the message.
        var stamp: UInt64
        /// The retained message, or nil.
        var message: Reference<Message>?
        /// The key of its row, 0 for none.
        var storeNumber: UInt64
    }

    static let none: UInt32 = .max
    static let root: UInt32 = 0

    private(set) var levels: LevelTable
    private(set) var edges: EdgeTable
    private(set) var nodes: Pool<Node>
    private(set) var count = 0
    /// The look for messages that have expired.
    var sweep = RetainedSweep()
    private(set) var byteCount = 0
    /// Counts the changes, so that a scan knows which messages are newer than itself.
    private(set) var stamp: UInt64 = 0

    init(hashing: TopicHash) {
        levels = LevelTable(hashing: hashing)
        edges = EdgeTable(hashing: hashing)
        nodes = Pool()
        _ = nodes.insert(Self.emptyNode(parent: Self.none, level: LevelTable.none))
    }

    /// The retained message of exactly this topic, if it was set no later than at `stamp`.
    func find(_ topic: UnsafeRawBufferPointer, until stamp: UInt64 = .max) -> Message? {
        let node = findNode(topic)
        return node == Self.none || nodes[node].stamp > stamp ? nil : message(of: node)
    }

    /// The key of the row of a topic's retained message, 0 for none.
    func storeNumber(_ topic: UnsafeRawBufferPointer) -> UInt64 {
        let node = findNode(topic)
        return node == Self.none ? 0 : nodes[node].storeNumber
    }

    /// Keeps `message` as the retained message of its topic, in place of any other. [MQTT-3.3.1-5 v5]
    ///
    /// - Parameter isLive: whether subscribers get it live, so that scans that are under way leave it out.
    mutating func set(_ message: Message, storeNumber: UInt64 = 0, isLive: Bool = true) {
        let node = makeNode(message.topic)
        if isLive { stamp &+= 1 }
        releaseMessage(of: node)
        nodes[node].message = Reference(retaining: message)
        if isLive { nodes[node].stamp = stamp }
        nodes[node].storeNumber = storeNumber
        count += 1
        byteCount += message.byteCount
    }

    /// Removes the retained message of the topic; false if there was none. [MQTT-3.3.1-6 v5]
    mutating func remove(_ topic: UnsafeRawBufferPointer) -> Bool {
        let node = findNode(topic)
        guard node != Self.none, nodes[node].message != nil else { return false }
        stamp &+= 1
        releaseMessage(of: node)
        nodes[node].message = nil
        nodes[node].storeNumber = 0
        prune(node)
        return true
    }

    /// Removes the messages that have expired, of `count` nodes from `start` on.
    ///
    /// - Parameters:
    ///   - now: the shard's time in milliseconds.
    ///   - tellRow: given the key of the row of each message that goes, 0 for none.
    /// - Returns: the node to go on with; nil behind the last one.
    mutating func removeExpired(from start: UInt32, count: Int, now: UInt64, _ tellRow: (UInt64) -> Void) -> UInt32? {
        let end = min(Int(start) + count, nodes.end)
        for node in Int(start)..<max(Int(start), end) {
            let node = UInt32(node)
            guard let message = message(of: node), message.hasExpired(at: now) else { continue }
            tellRow(nodes[node].storeNumber)
            stamp &+= 1
            releaseMessage(of: node)
            nodes[node].message = nil
            nodes[node].storeNumber = 0
            prune(node)
        }
        return end < nodes.end ? UInt32(end) : nil
    }

    /// The node of a topic's retained message; nil for none.
    func index(of topic: UnsafeRawBufferPointer) -> UInt32? {
        let node = findNode(topic)
        return node == Self.none || nodes[node].message == nil ? nil : node
    }

    /// The message of a node. It stays while the store holds it.
    func message(of node: UInt32) -> Message? {
        nodes[node].message?.object
    }

    /// How many messages there are below a topic, at any depth, up to `maximum`; that many as well if there are more
    /// than `nodesMax` levels. Takes a step for each of these.
    func count(below topic: [UInt8], upTo maximum: Int, nodesMax: Int) -> Int {
        let top = topic.withUnsafeBytes { findNode($0) }
        guard top != Self.none else { return 0 }
        var (count, steps, node) = (0, 0, nodes[top].firstChild)
        while node != Self.none {
            if nodes[node].message != nil { count += 1 }
            steps += 1
            guard count < maximum, steps <= nodesMax else { return maximum }
            if nodes[node].firstChild != Self.none {
                node = nodes[node].firstChild
                continue
            }
            while nodes[node].nextSibling == Self.none {
                node = nodes[node].parent
                if node == top { return count }
            }
            node = nodes[node].nextSibling
        }
        return count
    }

    /// The number of a topic level's text, `LevelTable.none` if no topic has it.
    func level(_ text: [UInt8]) -> UInt32 { text.withUnsafeBytes { levels.find($0) } }

    /// A scan is to go on with the node, which stays until it does.
    mutating func pin(_ node: UInt32) { nodes[node].scans &+= 1 }

    /// A scan has gone on with the node, or has ended.
    mutating func unpin(_ node: UInt32) {
        nodes[node].scans &-= 1
        prune(node)
    }

    /// The bytes of memory that the tree takes, without the messages in it.
    var heldBytes: Int { (nodes.count - 1) * MemoryLayout<Node>.stride + edges.heldBytes + levels.heldBytes }

    deinit {
        // Trivial nodes hold their messages by hand.
        var stack = [Self.root]
        while let node = stack.popLast() {
            nodes[node].message?.release()
            var child = nodes[node].firstChild
            while child != Self.none {
                stack.append(child)
                child = nodes[child].nextSibling
            }
        }
    }

    private mutating func releaseMessage(of node: UInt32) {
        guard let message = nodes[node].message?.take() else { return }
        count -= 1
        byteCount -= message.byteCount
    }

    private func findNode(_ topic: UnsafeRawBufferPointer) -> UInt32 {
        var node = Self.root
        var sequence = LevelSequence(topic)
        while let text = sequence.next() {
            let level = levels.find(text)
            guard level != LevelTable.none else { return Self.none }
            node = edges.child(of: node, level: level)
            guard node != EdgeTable.none else { return Self.none }
        }
        return node
    }

    private mutating func makeNode(_ topic: UnsafeRawBufferPointer) -> UInt32 {
        var node = Self.root
        var sequence = LevelSequence(topic)
        while let text = sequence.next() {
            let known = levels.find(text)
            let child = known == LevelTable.none ? EdgeTable.none : edges.child(of: node, level: known)
            node = child == EdgeTable.none ? newChild(of: node, text) : child
        }
        return node
    }

    private mutating func newChild(of parent: UInt32, _ text: UnsafeRawBufferPointer) -> UInt32 {
        let level = levels.retain(text)
        let child = nodes.insert(Self.emptyNode(parent: parent, level: level))
        let first = nodes[parent].firstChild
        nodes[child].nextSibling = first
        if first != Self.none { nodes[first].previousSibling = child }
        nodes[parent].firstChild = child
        edges.insert(parent: parent, level: level, child: child)
        return child
    }

    private mutating func prune(_ start: UInt32) {
        var node = start
        while node != Self.root, nodes[node].firstChild == Self.none, nodes[node].message == nil, nodes[node].scans == 0 {
            let removed = nodes[node]
            if removed.previousSibling == Self.none {
                nodes[removed.parent].firstChild = removed.nextSibling
            } else {
                nodes[removed.previousSibling].nextSibling = removed.nextSibling
            }
            if removed.nextSibling != Self.none { nodes[removed.nextSibling].previousSibling = removed.previousSibling }
            edges.remove(parent: removed.parent, level: removed.level)
            levels.release(removed.level)
            nodes.remove(node)
            node = removed.parent
        }
    }

    private static func emptyNode(parent: UInt32, level: UInt32) -> Node {
        Node(
            parent: parent, level: level, firstChild: none, nextSibling: none, previousSibling: none, stamp: 0, message: nil,
            storeNumber: 0)
    }
}
