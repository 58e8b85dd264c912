public import MQTTCodec

/// The topics that were seen, as a tree: each with its latest message, and how many came.
///
/// ```
/// home ─┬─ kitchen ─┬─ temperature  21.5
///       │           └─ lamp         on
///       └─ hall ─── door            shut
/// ```
/// A value of the caller's thread. Times are milliseconds of a clock that does not go back. Bounded: beyond
/// `mirroredTopicsMax` topics new ones are counted and not kept.
public struct TopicTree {
    /// The latest message of a topic.
    public struct Leaf: Equatable, Sendable {
        public var payload: [UInt8]
        public var qos: UInt8
        /// Whether the broker keeps it, as far as was seen.
        public var isRetained: Bool
        public var count: Int
        public var time: UInt64
        /// When the payload was last another one than before.
        public var changeTime: UInt64
        /// Messages a second, smoothed over some seconds.
        var rate = RateMeter()

        public static func == (left: Leaf, right: Leaf) -> Bool {
            left.payload == right.payload && left.qos == right.qos && left.isRetained == right.isRetained
                && left.count == right.count
                && left.time == right.time && left.changeTime == right.changeTime
        }
    }

    final class Node {
        let name: String
        /// In the order of their names.
        fileprivate(set) var children: [Node] = []
        fileprivate(set) var leaf: Leaf?
        /// Topics below, without this one.
        fileprivate(set) var topicCount = 0

        init(_ name: String) { self.name = name }

        /// Where a level is among the children, or would be.
        private func position(of name: Substring) -> (index: Int, isThere: Bool) {
            var (low, high) = (0, children.count)
            while low < high {
                let middle = (low + high) / 2
                if children[middle].name < name { low = middle + 1 } else { high = middle }
            }
            return (low, low < children.count && children[low].name == name)
        }

        fileprivate func child(_ name: Substring) -> Node? {
            let (index, isThere) = position(of: name)
            return isThere ? children[index] : nil
        }

        fileprivate func madeChild(_ name: Substring) -> Node {
            let (index, isThere) = position(of: name)
            if isThere { return children[index] }
            let node = Node(String(name))
            children.insert(node, at: index)
            return node
        }
    }

    /// What comes with a message from its subscription.
    public struct Arrival: Sendable {
        public var topic: TopicName
        public var payload: [UInt8]
        public var qos: UInt8
        public var isRetained: Bool

        public init(topic: TopicName, payload: [UInt8], qos: UInt8 = 0, isRetained: Bool = false) {
            (self.topic, self.payload, self.qos, self.isRetained) = (topic, payload, qos, isRetained)
        }
    }

    let root = Node("")
    public private(set) var topicCount = 0
    public private(set) var messageCount = 0
    /// Messages of topics that were too many.
    public private(set) var overlookedCount = 0
    private(set) var rate = RateMeter()
    private let topicsMax: Int

    public init() { self.init(topicsMax: Limits.mirroredTopicsMax) }

    init(topicsMax: Int) { self.topicsMax = topicsMax }

    /// Takes a message.
    public mutating func add(_ arrival: Arrival, at now: UInt64) {
        messageCount += 1
        rate.count(at: now)
        guard topicCount < topicsMax || leaf(arrival.topic) != nil else {
            overlookedCount += 1
            return
        }
        var path = [root]
        for level in Self.levels(arrival.topic) { path.append(path[path.count - 1].madeChild(level)) }
        let node = path.removeLast()
        let payload = Array(arrival.payload.prefix(Limits.mirroredPayloadBytesMax))
        if node.leaf == nil {
            topicCount += 1
            for node in path { node.topicCount += 1 }
        }
        var leaf = node.leaf ?? Leaf(payload: payload, qos: 0, isRetained: false, count: 0, time: now, changeTime: now)
        if leaf.payload != payload { leaf.changeTime = now }
        (leaf.payload, leaf.qos, leaf.time) = (payload, arrival.qos, now)
        // Of a message that is not retained the broker's copy stays; an empty one that is removes it.
        if arrival.isRetained { leaf.isRetained = !payload.isEmpty }
        leaf.count += 1
        leaf.rate.count(at: now)
        node.leaf = leaf
    }

    /// The leaf of a topic; nil if none came.
    public func leaf(_ topic: TopicName) -> Leaf? {
        var node = root
        for level in Self.levels(topic) {
            guard let next = node.child(level) else { return nil }
            node = next
        }
        return node.leaf
    }

    private static func levels(_ topic: TopicName) -> [Substring] {
        String(decoding: topic.bytes, as: UTF8.self).split(separator: "/", omittingEmptySubsequences: false)
    }
}

/// How often something happens: a count that fades with a half-life of some seconds.
struct RateMeter: Sendable {
    private var weight = 0.0
    private var time: UInt64 = 0
    private var start: UInt64?

    mutating func count(at now: UInt64) {
        // What happened once has no rate yet.
        weight = start == nil ? 0 : faded(at: now) + 1
        time = now
        if start == nil { start = now }
    }

    /// A second, as seen at that time.
    func perSecond(at now: UInt64) -> Double {
        guard let start, now > start else { return 0 }
        // The sum of a steady stream of one a second, as far as it has run.
        let seconds = Double(now - start) / 1000
        return faded(at: now) / max(1, Self.meanSeconds * (1 - Self.exponential(-seconds / Self.meanSeconds)))
    }

    private func faded(at now: UInt64) -> Double {
        guard now > time else { return weight }
        return weight * Self.exponential(-Double(now - time) / 1000 / Self.meanSeconds)
    }

    private static let meanSeconds = 5.0

    /// e to a power that is not positive, to some six digits: (1 + x/2^10)^(2^10) with a correction.
    private static func exponential(_ power: Double) -> Double {
        guard power > -40 else { return 0 }
        var result = 1 + power / 4096 + power * power / (2 * 4096 * 4096)
        for _ in 0..<12 { result *= result }
        return result
    }
}
