/// How far each node is done with what share groups deal it out of the log, as one node sees it.
///
///     done ──► this node is done up to here ──► the log ──► all nodes
///     live ──► a node is gone: one of those that know where it was done deals its part again
public struct DealtBook: Sendable {
    /// What a part of a node has dealt of a partition: the last record up to which all is done with, and the last one of which it dealt anything.
    public typealias Dealt = (through: UInt64, last: UInt64)

    /// A change that is to be made when nodes have come and gone.
    public struct Change: Equatable, Sendable {
        /// They deal their parts themselves.
        public var come: [NodeID] = []
        public var gone: [NodeID] = []
        /// The nodes among them for which this one could deal, and by partition up to where each was done.
        public var known: [NodeID: [UInt64]] = [:]
    }

    private var others: Set<NodeID> = []
    /// By partition: what was read when a node came up, less what may have been dealt to it before.
    private var beginnings: [NodeID: [UInt64]] = [:]
    /// The nodes that were there before this one, and since when they are watched, in milliseconds.
    private var watched: [NodeID: UInt64] = [:]
    private var hasLooked = false
    /// By partition: how far this node was done when it was asked the last time. The store has by now what came of it.
    private var earlier: [UInt64] = []
    private var told: [UInt64] = []
    private var toldAt: UInt64 = 0

    public init() {}

    // MARK: This node's part

    /// Takes note of what all parts of this node have dealt.
    ///
    /// - Parameters:
    ///   - parts: each part's answer, by partition.
    ///   - now: milliseconds.
    /// - Returns: by partition, up to where this node is done, where the log is to be told.
    public mutating func done(_ parts: [[Dealt]], now: UInt64) -> [(partition: Int, through: UInt64)] {
        let count = parts.map(\.count).min() ?? 0
        let done = (0..<count).map { partition in
            min(parts.map { $0[partition].through }.min() ?? 0, parts.map { $0[partition].last }.max() ?? 0)
        }
        let open = (0..<count).map { partition in parts.contains { $0[partition].last > done[partition] } }
        if told.count < count { told += Array(repeating: 0, count: count - told.count) }
        // Those who have come since have to hear of it as well.
        let isRepeated = open.contains(true) && now >= toldAt + Limits.dealtRepeatMilliseconds
        var news: [(partition: Int, through: UInt64)] = []
        for (partition, through) in earlier.enumerated()
        where through > told[partition] || (isRepeated && (through > 0 || open[partition])) {
            (told[partition], toldAt) = (through, now)
            news.append((partition, through))
        }
        earlier = done
        return news
    }

    /// A partition of the log ends at this record, before some that was read: nobody is done with what comes behind it.
    public mutating func isCut(_ partition: Int, at last: UInt64) {
        func cut(_ places: inout [UInt64]) { if partition < places.count { places[partition] = min(places[partition], last) } }
        cut(&earlier)
        cut(&told)
        for node in beginnings.keys { cut(&beginnings[node, default: []]) }
    }

    // MARK: Others' parts

    /// Nodes have come or gone.
    ///
    /// - Parameters:
    ///   - nodes: those that are there, this one apart.
    ///   - readThrough: by partition, the last record that this node has read.
    ///   - rereads: so many records before that one may have been dealt to a node that has just come.
    ///   - now: milliseconds.
    ///   - dealtThrough: up to which record of a partition a node has said to be done; nil if it has said nothing.
    public mutating func live(
        _ nodes: Set<NodeID>, readThrough: [UInt64], rereads: UInt64, now: UInt64,
        dealtThrough: (NodeID, _ partition: Int) -> UInt64?
    ) -> Change {
        var change = Change(come: nodes.subtracting(others).sorted(), gone: others.subtracting(nodes).sorted())
        others = nodes
        for other in change.come {
            beginnings[other] = readThrough.map { $0 - min($0, rereads) }
            if !hasLooked { watched[other] = now }
        }
        hasLooked = true
        for other in change.gone {
            // What it was not done with when this node came, it says now and then.
            let isKnown = watched.removeValue(forKey: other).map { now >= $0 + Limits.dealtWatchMilliseconds } ?? true
            let begins = isKnown ? beginnings[other] : nil
            beginnings[other] = nil
            let done = readThrough.indices.compactMap { dealtThrough(other, $0) ?? begins?[$0] }
            if done.count == readThrough.count { change.known[other] = done }
        }
        return change
    }
}
