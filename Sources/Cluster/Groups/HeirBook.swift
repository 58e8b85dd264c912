/// The nodes that deal the parts of nodes that are gone, as one node sees it: what the log has said of that, and what
/// is this node's to deal for it.
///
///     isGone ─► open ── said(heirOf:by:) ──► inheritances ── their line ends at this node ──► takeDuties
///     begin  ─► undecided ───── … ─────────► won, or another's ── all are decided ──────────► takePast
///
/// Who deals for a node may be gone as well before all is dealt: who deals for it deals for that one too, and so on. A part is always the node's that
/// stands at the end of this line. The past are earlier incarnations of this node, and those that they dealt for.
public struct HeirBook: Sendable {
    /// What one incarnation was dealt, and was not done with.
    public struct Part: Equatable, Sendable {
        /// By partition: up to where it was done.
        public var done: [UInt64]
        /// The node that deals for it; nil if nobody knows.
        public var heir: NodeID?

        public init(done: [UInt64], heir: NodeID? = nil) { (self.done, self.heir) = (done, heir) }
    }

    private struct Inheritance {
        var done: [UInt64]
        /// Whether it is this node that deals.
        var isMine = false
        var secondsLeft = Limits.inheritanceSeconds
    }

    private var current: NodeID
    /// By node that is gone: who has said first to deal for it.
    private var heirs: [NodeID: NodeID] = [:]
    /// Nodes that are gone for which this one would deal, and by partition up to where each was done.
    private var open: [NodeID: [UInt64]] = [:]
    /// The nodes for which the log says who deals. They are remembered until all of it is dealt for certain.
    private var inheritances: [NodeID: Inheritance] = [:]
    private var past: [NodeID: Part] = [:]
    private var undecided: Set<NodeID> = []
    private var won: Set<NodeID> = []
    private var isPastTaken = true

    /// - Parameter current: this node's incarnation.
    public init(_ current: NodeID) { self.current = current }

    // MARK: Input

    /// An incarnation of this node begins.
    ///
    /// - Parameters:
    ///   - incarnation: its number.
    ///   - past: what earlier ones were dealt, and those that they dealt for.
    /// - Returns: those of them of which the log has said who deals, and the past does not know.
    public mutating func begin(_ incarnation: NodeID, past: [NodeID: Part]) -> [(gone: NodeID, heir: NodeID)] {
        (current, self.past, won) = (incarnation, past, [])
        (undecided, isPastTaken) = (Set(past.keys), past.isEmpty)
        // What the last incarnation was about to deal is not this one's. What it dealt is of the past.
        for other in inheritances.keys { inheritances[other]?.isMine = false }
        var news: [(gone: NodeID, heir: NodeID)] = []
        for (gone, part) in past.sorted(by: { $0.key < $1.key }) {
            (open[gone], inheritances[gone]) = (nil, nil)
            if let heir = part.heir {
                heirs[gone] = heirs[gone] ?? heir
            } else if let heir = heirs[gone] {
                news.append((gone, heir))
            }
        }
        settle()
        return news
    }

    /// All of the past is dealt, and nobody leaves it anything any more.
    public mutating func endPast() { (past, undecided, won) = ([:], [], []) }

    /// Another node is there.
    public mutating func isThere(_ node: NodeID) { (open[node], inheritances[node], heirs[node]) = (nil, nil, nil) }

    /// Another node is gone, and was done up to these records.
    public mutating func isGone(_ node: NodeID, done: [UInt64]) {
        open[node] = done
        if let heir = heirs[node] { inherits(node, by: heir) }
    }

    /// The log has a node's word that it would deal for one that is gone. The first one counts.
    ///
    /// - Returns: whether this one does, and the past has to know of it.
    public mutating func said(heirOf gone: NodeID, by heir: NodeID) -> Bool {
        guard heirs[gone] == nil else { return false }
        heirs[gone] = heir
        inherits(gone, by: heir)
        return past[gone] != nil
    }

    /// A partition of the log ends at this record, before some that was read: nobody is done with what comes behind it.
    public mutating func isCut(_ partition: Int, at last: UInt64) {
        func cut(_ done: inout [UInt64]) { if partition < done.count { done[partition] = min(done[partition], last) } }
        for gone in open.keys { cut(&open[gone, default: []]) }
        for gone in inheritances.keys { cut(&inheritances[gone, default: Inheritance(done: [])].done) }
        for gone in past.keys { cut(&past[gone, default: Part(done: [])].done) }
    }

    private mutating func inherits(_ gone: NodeID, by heir: NodeID) {
        if let done = open.removeValue(forKey: gone) { inheritances[gone] = Inheritance(done: done) }
        // Whoever deals now has only begun.
        let last = dealer(for: gone)
        for other in inheritances.keys where dealer(for: other) == last {
            inheritances[other]?.secondsLeft = Limits.inheritanceSeconds
        }
        settle()
    }

    // MARK: What follows

    /// The nodes of which the log has to be told that this one would deal for them, until it says who does.
    public var unclaimed: [NodeID] { undecided.union(open.keys).filter { heirs[$0] == nil }.sorted() }

    /// The node that deals the part of another one, by what the log has said so far.
    private func dealer(for gone: NodeID) -> NodeID {
        var (last, seen) = (gone, Set([gone]))
        while let heir = heirs[last], seen.insert(heir).inserted { last = heir }
        return last
    }

    private mutating func settle() {
        for gone in undecided {
            let last = dealer(for: gone)
            // Of who dealt for it last it has not been said who does.
            guard last != gone, past[last] == nil, let done = past[gone]?.done else { continue }
            undecided.remove(gone)
            if last == current { won.insert(gone) } else { inheritances[gone] = Inheritance(done: done) }
        }
    }

    /// The nodes that this one deals for from now on, and by partition up to where each was done. Each is given once.
    public mutating func takeDuties() -> [(gone: NodeID, done: [UInt64])] {
        let duties = inheritances.filter { !$0.value.isMine && dealer(for: $0.key) == current }.sorted { $0.key < $1.key }
        for (gone, _) in duties { inheritances[gone]?.isMine = true }
        return duties.map { ($0.key, $0.value.done) }
    }

    /// Takes the incarnations of the past that this node deals for, when that is known of all; nil before, and when it
    /// was given.
    public mutating func takePast() -> [(gone: NodeID, done: [UInt64])]? {
        guard !isPastTaken, undecided.isEmpty else { return nil }
        isPastTaken = true
        for gone in won { inheritances[gone] = Inheritance(done: past[gone]?.done ?? [], isMine: true) }
        return won.sorted().map { ($0, past[$0]?.done ?? []) }
    }

    /// By partition: up to where all of the past was done.
    public var pastDone: [UInt64] {
        let count = past.values.map(\.done.count).min() ?? 0
        return (0..<count).map { partition in past.values.map { $0.done[partition] }.min() ?? 0 }
    }

    /// Whether this node deals for that one still.
    public func isMine(_ gone: NodeID) -> Bool { inheritances[gone]?.isMine ?? false }

    /// A second is over in which all that is dealt could go into the log.
    ///
    /// - Returns: those for which this node has dealt all.
    public mutating func passSecond() -> [NodeID] {
        for gone in inheritances.keys { inheritances[gone]?.secondsLeft -= 1 }
        let over = inheritances.filter { $0.value.secondsLeft <= 0 }
        for gone in over.keys { inheritances[gone] = nil }
        return over.filter(\.value.isMine).keys.sorted()
    }
}
