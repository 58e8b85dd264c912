/// The nodes of the cluster, by their leases and by what they say of themselves.
///
///     (unknown) ── lease ──► silent ◄── no summary ──► up ◄── summary ── (unknown)
///                              │                       │
///                              └── lease over ► gone ◄─┘── goodbye ──► left
///
/// A node whose lease has ended goes on as another incarnation of its store: when that is heard of, its earlier
/// incarnation is nobody any more. Only who is heard of again after that is another process, with a copy of the store.
///
/// A node that is gone or has left is listed for a while longer, unless a node of the same name has come. Pure: `now`
/// is milliseconds on any clock that does not go back.
public struct MemberTable: Sendable {
    private struct Entry: Sendable {
        var summary: NodeSummary?
        var heardAt: UInt64?
        var isListed: Bool
        var state: ClusterMember.State
        var since: UInt64
    }

    public private(set) var node: NodeID
    private var entries: [NodeID: Entry] = [:]
    /// The nodes that have said goodbye, as long as they are told of or their leases last.
    private var left: Set<NodeID> = []
    /// By store: what nodes were called that have been heard of, also of those that are told of no more.
    private var names: [UInt32: String] = [:]
    /// Incarnations in whose place another one of their store has come, and when; and stores of which several processes
    /// have a copy.
    private var replaced: [NodeID: UInt64] = [:]
    private var copied: Set<UInt32> = []

    public init(node: NodeID) { self.node = node }

    /// Goes on as another incarnation of this node.
    public mutating func begin(as node: NodeID, now: UInt64) {
        if var entry = entries.removeValue(forKey: self.node) {
            entry.summary?.node = node
            entry.isListed = false
            entries[node] = entry
        }
        replaced[self.node] = now
        self.node = node
    }

    /// A node has said something of itself; this one too.
    ///
    /// - Returns: whether it wants to hear of this one at once.
    @discardableResult
    public mutating func heard(_ summary: NodeSummary, now: UInt64) -> Bool {
        guard isThere(summary.node, now: now), entries[summary.node] != nil || entries.count < Limits.membersMax else {
            return false
        }
        if names.count >= Limits.membersMax, names[summary.node.store] == nil { names = [:] }
        if !summary.name.isEmpty { names[summary.node.store] = summary.name }
        var entry = entries[summary.node] ?? Entry(isListed: false, state: .up, since: now)
        guard entry.state != .left else { return false }
        (entry.summary, entry.heardAt) = (summary, now)
        if summary.isLeaving {
            entry.isListed = false
            left.insert(summary.node)
        }
        let isNew = entries[summary.node]?.heardAt == nil
        entries[summary.node] = entry
        if isNew { replaceEarlierIncarnations(of: summary.node, now: now) }
        settle(now: now)
        return summary.asks && summary.node != node
    }

    /// Whether what is said for an incarnation may be its process's own, and not what was on its way when another
    /// incarnation came in its place.
    private mutating func isThere(_ node: NodeID, now: UInt64) -> Bool {
        guard let at = replaced[node] else { return true }
        guard now - min(now, at) >= Limits.summarySilenceMilliseconds else { return false }
        replaced[node] = nil
        copied.insert(node.store)
        return true
    }

    private mutating func replaceEarlierIncarnations(of node: NodeID, now: UInt64) {
        guard !copied.contains(node.store) else { return }
        if replaced.count >= Limits.membersMax { replaced = [:] }
        for earlier in Array(entries.keys) where earlier.store == node.store && earlier != node && earlier != self.node {
            entries[earlier] = nil
            replaced[earlier] = now
        }
    }

    /// Takes the list of the nodes that hold a lease.
    public mutating func listed(_ nodes: some Sequence<NodeID>, now: UInt64) {
        let nodes = Set(nodes)
        for (node, entry) in entries where entry.state != .left { entries[node]?.isListed = nodes.contains(node) }
        left = left.filter { nodes.contains($0) || entries[$0] != nil }
        replaced = replaced.filter { nodes.contains($0.key) || now - min(now, $0.value) < Limits.summarySilenceMilliseconds }
        for node in nodes.sorted()
        where entries[node] == nil && !left.contains(node) && replaced[node] == nil && entries.count < Limits.membersMax {
            entries[node] = Entry(isListed: true, state: .silent, since: now)
        }
        settle(now: now)
    }

    /// Updates the states of all nodes for a moment.
    public mutating func settle(now: UInt64) {
        for (node, entry) in entries {
            let age = entry.heardAt.map { now - min(now, $0) } ?? .max
            let state: ClusterMember.State =
                if entry.summary?.isLeaving == true { .left }  //
                else if entry.isListed || node == self.node { age < Limits.summarySilenceMilliseconds ? .up : .silent }  //
                // Its lease is not read yet, or it has just ended.
                else { age < Limits.summarySilenceMilliseconds ? .up : .gone }
            guard state != entry.state else { continue }
            entries[node]?.state = state
            entries[node]?.since = now
        }
        let names = Set(entries.values.filter { $0.state == .up }.compactMap { $0.summary?.name })
        let stores = Set(entries.filter { $0.value.state == .up }.keys.map(\.store))
        entries = entries.filter { node, entry in
            // One that was started again is told of as that, though the lease of its earlier incarnation lasts.
            if entry.state == .silent, node != self.node, stores.contains(node.store) { return false }
            guard entry.state == .left || entry.state == .gone else { return true }
            guard let name = entry.summary?.name, !names.contains(name) else { return false }
            return now - min(now, entry.since) < Limits.memberKeptMilliseconds
        }
    }

    /// How many other nodes are there, of those that hold a lease: an earlier incarnation of a node, or of this one, is
    /// none.
    public func othersCount(among nodes: some Sequence<NodeID>) -> Int {
        let names = Set(entries.values.filter { $0.state == .up }.compactMap { $0.summary?.name })
        var stores: Set<UInt32> = []
        for other in nodes where other.store != node.store && !hasLeft(other) {
            // One without a store has another one when it is started again.
            if let entry = entries[other], entry.state != .up, let name = self.names[other.store], names.contains(name) { continue }
            stores.insert(other.store)
        }
        return stores.count
    }

    /// Whether a node has said goodbye.
    public func hasLeft(_ node: NodeID) -> Bool { left.contains(node) }

    /// In the order of their names.
    public var members: [ClusterMember] {
        entries.map { node, entry in
            ClusterMember(node: node, state: entry.state, isSelf: node == self.node, since: entry.since, summary: entry.summary)
        }.sorted { ($0.summary?.name ?? "", $0.node) < ($1.summary?.name ?? "", $1.node) }
    }

    /// The others that may be asked something.
    public var others: [ClusterMember] { members.filter { !$0.isSelf && ($0.state == .up || $0.state == .silent) } }

    /// Names that several nodes have, sorted, and which nodes.
    public var namesakes: [(name: String, nodes: [NodeID])] {
        var nodes: [String: [NodeID]] = [:]
        for (node, entry) in entries where entry.state == .up {
            if let name = entry.summary?.name { nodes[name, default: []].append(node) }
        }
        return nodes.filter { $0.value.count > 1 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
    }

    /// What a log calls a node: its name, where it or another incarnation of it has been heard of, and its identifier.
    public func shownName(of node: NodeID) -> String {
        names[node.store].map { "\($0) (\(node))" } ?? "\(node)"
    }
}

extension Limits {
    /// How long after its last summary a node counts as silent, in milliseconds: three are missing by then.
    static let summarySilenceMilliseconds: UInt64 = 7000

    /// How long a node is told of that is gone, in milliseconds.
    static let memberKeptMilliseconds: UInt64 = 60_000
}
