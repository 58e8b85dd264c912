public import BrokerModel

/// The nodes that dispatch the parts of nodes that are gone, as one node sees it: what the log has said of that, and
/// what is this node's to dispatch for it.
///
///     isGone ─► open ── said(successorOf:by:) ──► inheritances ── their line ends at this node ──► takeDuties
///     begin  ─► undecided ───── … ─────────► won, or another's ── all are decided ──────────► takeEarlierDispatches
///
/// A successor may be gone itself before all is dispatched: its own successor dispatches for both then, and so on. A
/// part always belongs to the node at the end of this line. "Earlier" are earlier incarnations of this node, and the
/// nodes that those dispatched for.
public struct NodeSuccessors: Sendable {
    private struct Inheritance {
        var done: [UInt64]
        /// Whether it is this node that dispatches.
        var isMine = false
        var secondsLeft = Limits.inheritanceSeconds
    }

    private var current: NodeID
    /// The node that said first that it dispatches for a node that is gone, by that node.
    private var successors: [NodeID: NodeID] = [:]
    /// Nodes that are gone for which this one would dispatch, and by partition up to where each was done.
    private var open: [NodeID: [UInt64]] = [:]
    /// The nodes for which the log says who dispatches. They are remembered until all of it is dispatched for certain.
    private var inheritances: [NodeID: Inheritance] = [:]
    private var earlierDispatches: [NodeID: StoredDispatches.Part] = [:]
    private var undecided: Set<NodeID> = []
    private var won: Set<NodeID> = []
    private var areEarlierDispatchesTaken = true

    /// - Parameter current: this node's incarnation.
    public init(_ current: NodeID) { self.current = current }

    // MARK: Input

    /// Begins an incarnation of this node.
    ///
    /// - Parameters:
    ///   - incarnation: its number.
    ///   - parts: what was dispatched to earlier ones, and those that they dispatched for; of one the first counts.
    /// - Returns: those of them of which the log has said who dispatches, and the past does not know.
    public mutating func begin(
        _ incarnation: NodeID, earlierDispatches parts: [StoredDispatches.Part]
    ) -> [(gone: NodeID, successor: NodeID)] {
        (current, won) = (incarnation, [])
        earlierDispatches = Dictionary(parts.map { (NodeID($0.incarnation), $0) }) { one, _ in one }
        (undecided, areEarlierDispatchesTaken) = (Set(earlierDispatches.keys), earlierDispatches.isEmpty)
        // What the last incarnation was about to dispatch is not this one's. What it dispatched is of the past.
        for other in inheritances.keys { inheritances[other]?.isMine = false }
        var news: [(gone: NodeID, successor: NodeID)] = []
        for (gone, part) in earlierDispatches.sorted(by: { $0.key < $1.key }) {
            (open[gone], inheritances[gone]) = (nil, nil)
            if part.successor != 0 {
                successors[gone] = successors[gone] ?? NodeID(part.successor)
            } else if let successor = successors[gone] {
                news.append((gone, successor))
            }
        }
        settle()
        return news
    }

    /// Ends the earlier incarnations' part: all that they left is dispatched.
    public mutating func endEarlierDispatches() { (earlierDispatches, undecided, won) = ([:], [], []) }

    /// Takes note that another node is there.
    public mutating func isThere(_ node: NodeID) { (open[node], inheritances[node], successors[node]) = (nil, nil, nil) }

    /// Takes note that another node is gone, and was done up to these records.
    public mutating func isGone(_ node: NodeID, done: [UInt64]) {
        open[node] = done
        if successors[node] != nil { inherits(node) }
    }

    /// Takes note that a node offers in the log to dispatch for one that is gone. The first offer counts.
    ///
    /// - Returns: whether this one does, and the past has to know of it.
    public mutating func said(successorOf gone: NodeID, by successor: NodeID) -> Bool {
        guard successors[gone] == nil else { return false }
        successors[gone] = successor
        inherits(gone)
        return earlierDispatches[gone] != nil
    }

    /// A partition of the log ends at this record, before some that was read: nobody is done with what comes behind it.
    public mutating func isCut(_ partition: Int, at last: UInt64) {
        func cut(_ done: inout [UInt64]) { if partition < done.count { done[partition] = min(done[partition], last) } }
        for gone in open.keys { cut(&open[gone, default: []]) }
        for gone in inheritances.keys { cut(&inheritances[gone, default: Inheritance(done: [])].done) }
        for (gone, part) in earlierDispatches { cut(&earlierDispatches[gone, default: part].done) }
    }

    private mutating func inherits(_ gone: NodeID) {
        if let done = open.removeValue(forKey: gone) { inheritances[gone] = Inheritance(done: done) }
        // Whoever dispatches now has only begun.
        let last = dispatcher(for: gone)
        for other in inheritances.keys where dispatcher(for: other) == last {
            inheritances[other]?.secondsLeft = Limits.inheritanceSeconds
        }
        settle()
    }

    // MARK: What follows

    /// The nodes of which the log has to be told that this one would dispatch for them, until it says who does.
    public var unclaimed: [NodeID] { undecided.union(open.keys).filter { successors[$0] == nil }.sorted() }

    /// The node that dispatches the part of another one, by what the log has said so far.
    private func dispatcher(for gone: NodeID) -> NodeID {
        var (last, seen) = (gone, Set([gone]))
        while let successor = successors[last], seen.insert(successor).inserted { last = successor }
        return last
    }

    private mutating func settle() {
        for gone in undecided {
            let last = dispatcher(for: gone)
            // Of who dispatched for it last it has not been said who does.
            guard last != gone, earlierDispatches[last] == nil, let done = earlierDispatches[gone]?.done else { continue }
            undecided.remove(gone)
            if last == current { won.insert(gone) } else { inheritances[gone] = Inheritance(done: done) }
        }
    }

    /// The nodes that this one dispatches for from now on, and by partition up to where each was done. Each is given
    /// once.
    public mutating func takeDuties() -> [(gone: NodeID, done: [UInt64])] {
        let duties = inheritances.filter { !$0.value.isMine && dispatcher(for: $0.key) == current }.sorted { $0.key < $1.key }
        for (gone, _) in duties { inheritances[gone]?.isMine = true }
        return duties.map { ($0.key, $0.value.done) }
    }

    /// Takes the incarnations of the past that this node dispatches for, when that is known of all; nil before, and
    /// when it was given.
    public mutating func takeEarlierDispatches() -> [(gone: NodeID, done: [UInt64])]? {
        guard !areEarlierDispatchesTaken, undecided.isEmpty else { return nil }
        areEarlierDispatchesTaken = true
        for gone in won { inheritances[gone] = Inheritance(done: earlierDispatches[gone]?.done ?? [], isMine: true) }
        return won.sorted().map { ($0, earlierDispatches[$0]?.done ?? []) }
    }

    /// By partition: up to where all of the past was done.
    public var earlierDispatchesDone: [UInt64] {
        let count = earlierDispatches.values.map(\.done.count).min() ?? 0
        return (0..<count).map { partition in earlierDispatches.values.map { $0.done[partition] }.min() ?? 0 }
    }

    /// Whether this node dispatches for that one still.
    public func isMine(_ gone: NodeID) -> Bool { inheritances[gone]?.isMine ?? false }

    /// Counts a second in which all that was dispatched could go into the log.
    ///
    /// - Returns: those for which this node has dispatched all.
    public mutating func passSecond() -> [NodeID] {
        for gone in inheritances.keys { inheritances[gone]?.secondsLeft -= 1 }
        let over = inheritances.filter { $0.value.secondsLeft <= 0 }
        for gone in over.keys { inheritances[gone] = nil }
        return over.filter(\.value.isMine).keys.sorted()
    }
}

/// How far each node is done with what share groups dispatch to it out of the log, as one node sees it.
///
///     done ──► this node is done up to here ──► the log ──► all nodes
///     live ──► a node is gone: one of those that know where it was done dispatches its part again
public struct DispatchProgress: Sendable {
    /// What a part of a node has dispatched of a partition: the last record up to which all is done with, and the last
    /// one of which it dispatched anything.
    public typealias Dispatched = (through: UInt64, last: UInt64)

    /// A change that is to be made when nodes have come and gone.
    public struct Change: Equatable, Sendable {
        /// The nodes that have come: they dispatch their parts themselves.
        public var come: [NodeID] = []
        public var gone: [NodeID] = []
        /// The nodes among them for which this one could dispatch, and by partition up to where each was done.
        public var known: [NodeID: [UInt64]] = [:]
    }

    private var others: Set<NodeID> = []
    /// By partition: what was read when a node came up, less what may have been dispatched to it before.
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

    /// Takes note of what all parts of this node have dispatched.
    ///
    /// - Parameters:
    ///   - parts: each part's answer, by partition.
    ///   - now: milliseconds.
    /// - Returns: by partition, up to where this node is done, where the log is to be told.
    public mutating func done(_ parts: [[Dispatched]], now: UInt64) -> [(partition: Int, through: UInt64)] {
        let count = parts.map(\.count).min() ?? 0
        let done = (0..<count).map { partition in
            min(parts.map { $0[partition].through }.min() ?? 0, parts.map { $0[partition].last }.max() ?? 0)
        }
        let open = (0..<count).map { partition in parts.contains { $0[partition].last > done[partition] } }
        if told.count < count { told += Array(repeating: 0, count: count - told.count) }
        // Those who have come since have to hear of it as well.
        let isRepeated = open.contains(true) && now >= toldAt + Limits.dispatchedRepeatMilliseconds
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

    /// Compares the list of nodes with the last one, and says which have come or gone.
    ///
    /// - Parameters:
    ///   - nodes: those that are there, this one apart.
    ///   - readThrough: by partition, the last record that this node has read.
    ///   - rereads: so many records before that one may have been dispatched to a node that has just come.
    ///   - now: milliseconds.
    ///   - dispatchedThrough: up to which record of a partition a node has said to be done; nil if it has said nothing.
    public mutating func live(
        _ nodes: Set<NodeID>, readThrough: [UInt64], rereads: UInt64, now: UInt64,
        dispatchedThrough: (NodeID, _ partition: Int) -> UInt64?
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
            let isKnown = watched.removeValue(forKey: other).map { now >= $0 + Limits.dispatchedWatchMilliseconds } ?? true
            let begins = isKnown ? beginnings[other] : nil
            beginnings[other] = nil
            let done = readThrough.indices.compactMap { dispatchedThrough(other, $0) ?? begins?[$0] }
            if done.count == readThrough.count { change.known[other] = done }
        }
        return change
    }
}

extension Limits {
    /// How often a node says again how far it is done with what share groups have dispatched to it, while some of that
    /// is open, in milliseconds.
    static let dispatchedRepeatMilliseconds: UInt64 = 10_000

    /// How long it is remembered up to where a node was done that is gone, so that this node can dispatch for it when
    /// the one that does is gone as well, in seconds: longer than what nobody is there for waits.
    static let inheritanceSeconds = 660

    /// How long a node is watched that was there before this one, in milliseconds, until it would have said what it is
    /// not done with.
    static let dispatchedWatchMilliseconds: UInt64 = 15_000
}
