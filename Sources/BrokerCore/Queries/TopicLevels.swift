import BrokerModel

/// The levels below some others that were found so far, while the trees of topics are looked through.
///
/// Invariant: at most `Limits.topicLevelsMax` levels, of `Limits.topicLevelBytesMax` bytes or one; those that are remembered stand before all others
/// by name, so that a page of them is right, and the next one begins behind it.
struct TopicLevels {
    /// The levels above.
    let prefix: [[UInt8]]
    private let name: [UInt8]?
    private var rows: [[UInt8]: TopicLevelRow] = [:]
    private var byteCount = 0
    /// The last one that is kept, where there were more: those behind it are left out.
    private var end: [UInt8]?

    init(under prefix: [UInt8]?, after name: [UInt8]?) {
        self.prefix =
            prefix.map { $0.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) } } ?? []
        self.name = name
    }

    /// There are `subscriptions` and `retained` messages at a level, or below it.
    mutating func add(_ level: UnsafeRawBufferPointer, subscriptions: Int, retained: Int, isBelow: Bool) {
        let level = Array(level)
        if let name, !name.lexicographicallyPrecedes(level) { return }
        if let end, end.lexicographicallyPrecedes(level) { return }
        if rows[level] == nil { byteCount += level.count }
        rows[level, default: TopicLevelRow(name: level)].add(subscriptions, retained, isBelow)
        if rows.count > Limits.topicLevelsMax || (byteCount > Limits.topicLevelBytesMax && rows.count > 1) { forgetHalf() }
    }

    /// Forgets the later half by name: of the places or of the bytes, whichever comes first.
    private mutating func forgetHalf() {
        let sorted = rows.keys.sorted { $0.lexicographicallyPrecedes($1) }
        var bytes = 0
        let kept = sorted.prefix(Limits.topicLevelsMax / 2).prefix { name in
            bytes += name.count
            return bytes <= Limits.topicLevelBytesMax / 2
        }
        let count = max(1, kept.count)
        for name in sorted.dropFirst(count) { rows[name] = nil }
        end = sorted[count - 1]
        byteCount = rows.keys.reduce(0) { $0 + $1.count }
    }

    /// The first of them by name, and whether there are more.
    func first(_ count: Int) -> (rows: [TopicLevelRow], hasMore: Bool) {
        let sorted = rows.values.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        return (Array(sorted.prefix(count)), end != nil || sorted.count > count)
    }

    /// How many there are; nil if they were not counted.
    var count: Int? { end == nil ? rows.count : nil }
}

extension TopicLevelRow {
    fileprivate mutating func add(_ subscriptions: Int, _ retained: Int, _ isBelow: Bool) {
        self.subscriptions += subscriptions
        retainedMessages += retained
        hasMoreLevels = hasMoreLevels || isBelow
    }
}

extension SubscriptionTree {
    /// Calls `body` with the text of the level of a record's filter that stands right below `prefix`, and whether the filter goes on below
    /// it; not if the filter has no such level. O(levels).
    func withLevel(below prefix: [[UInt8]], of record: UInt32, _ body: (UnsafeRawBufferPointer, Bool) -> Void) {
        var path: [UInt32] = []
        var node = records[record].node
        while node != Self.root {
            path.append(nodes[node].level)
            node = nodes[node].parent
        }
        guard path.count > prefix.count else { return }
        path.reverse()
        for (place, wanted) in prefix.enumerated() {
            guard withText(of: path[place], { $0.elementsEqual(wanted) }) else { return }
        }
        withText(of: path[prefix.count]) { body($0, path.count > prefix.count + 1) }
    }

    private func withText<Result>(of level: UInt32, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        switch level {
        case Self.singleLevelWildcard: [UInt8(ascii: "+")].withUnsafeBytes(body)
        case Self.multiLevelWildcard: [UInt8(ascii: "#")].withUnsafeBytes(body)
        default: body(levels.text(of: level))
        }
    }
}

extension RetainedStore {
    /// Calls `body` with the level below a prefix of a node's topic. O(levels).
    func withLevel(below prefix: [[UInt8]], of start: UInt32, _ body: (UnsafeRawBufferPointer, Bool) -> Void) {
        var path: [UInt32] = []
        var node = start
        while node != Self.root {
            path.append(nodes[node].level)
            node = nodes[node].parent
        }
        guard path.count > prefix.count else { return }
        path.reverse()
        for (place, wanted) in prefix.enumerated() {
            guard levels.text(of: path[place]).elementsEqual(wanted) else { return }
        }
        body(levels.text(of: path[prefix.count]), path.count > prefix.count + 1)
    }
}
