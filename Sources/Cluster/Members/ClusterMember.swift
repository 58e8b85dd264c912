/// A node of the cluster, as this one sees it.
public struct ClusterMember: Equatable, Sendable {
    public enum State: String, Equatable, Sendable, CaseIterable {
        /// The node has sent a summary a moment ago.
        case up
        /// The node holds a lease, and sends no summary.
        case silent
        /// The node has said that it leaves.
        case left
        /// The node's lease has expired, and it has not said that it leaves.
        case gone
    }

    public var node: NodeID
    public var state: State
    /// Whether this is the node itself that looks.
    public var isSelf: Bool
    /// Since when it is in this state, on the clock of `MemberTable`.
    public var since: UInt64
    /// What it has said of itself last; nil for nothing yet.
    public var summary: NodeSummary?
    /// By how many milliseconds its clock is ahead of this node's, less than 0 for behind; nil for not known.
    public var clockOffset: Int64?

    public init(node: NodeID, state: State, isSelf: Bool, since: UInt64, summary: NodeSummary?) {
        (self.node, self.state, self.isSelf, self.since, self.summary) = (node, state, isSelf, since, summary)
    }
}

/// What all nodes that are there have together.
public struct ClusterTotals: Equatable, Sendable {
    public var nodesUp = 0
    public var nodesSilent = 0
    public var nodesGone = 0
    public var nodesDraining = 0
    public var clientsConnected: UInt64 = 0
    public var sessions: UInt64 = 0
    public var subscriptions: UInt64 = 0
    public var storedMessages: UInt64 = 0
    public var receivedRate: UInt64 = 0
    public var sentRate: UInt64 = 0
    public var dropped: UInt64 = 0

    public init(_ members: some Sequence<ClusterMember>) {
        for member in members {
            switch member.state {
            case .up: nodesUp += 1
            case .silent: nodesSilent += 1
            case .gone: nodesGone += 1
            case .left: continue
            }
            guard member.state == .up, let summary = member.summary else { continue }
            if summary.isDraining { nodesDraining += 1 }
            clientsConnected &+= summary.clientsConnected
            sessions &+= summary.sessions
            subscriptions &+= summary.subscriptions
            storedMessages &+= summary.storedMessages
            receivedRate &+= summary.receivedRate
            sentRate &+= summary.sentRate
            dropped &+= summary.dropped
        }
    }
}

/// Finds nodes that hold a lease and say nothing any more, and those that do so again. Pure.
public struct SilenceWatch: Sendable {
    private var silent: Set<NodeID> = []

    public init() {}

    /// Returns each node once when it falls silent, and once when it is heard of again; to be called every second or
    /// so. A node that has never sent a summary has just come, and is not silent.
    public mutating func look(_ members: [ClusterMember]) -> [(node: NodeID, isSilent: Bool)] {
        var news: [(node: NodeID, isSilent: Bool)] = []
        var still: Set<NodeID> = []
        for member in members where !member.isSelf && member.summary != nil {
            switch member.state {
            case .silent:
                still.insert(member.node)
                if !silent.contains(member.node) { news.append((member.node, true)) }
            case .up: if silent.contains(member.node) { news.append((member.node, false)) }
            case .left, .gone: continue
            }
        }
        silent = still
        return news
    }
}

/// How far the clocks of other nodes are from this one's, by what they say with each summary.
///
///     theirs, as it was said ── on its way for a while ──► mine, as it is heard:   theirs − mine = difference − delay
///
/// A delay makes a clock look late, never early. So of what was heard lately the greatest counts, which was on its way
/// for the shortest time; and that a clock is late is believed only when nothing that has come for some time was any
/// faster. Pure.
public struct ClockWatch: Sendable {
    private struct Clock: Sendable {
        /// In milliseconds, the newest last.
        var differences: [Int64] = []
        var isLogged = false
    }

    private var clocks: [NodeID: Clock] = [:]

    public init() {}

    /// Takes note of what a node's clock shows; both times in milliseconds since 1970.
    public mutating func heard(_ theirs: UInt64, of node: NodeID, at mine: UInt64) {
        guard theirs > 0, clocks[node] != nil || clocks.count < Limits.membersMax else { return }
        let most: UInt64 = 1 << 62
        var clock = clocks[node] ?? Clock()
        clock.differences.append(Int64(min(theirs, most)) - Int64(min(mine, most)))
        if clock.differences.count > Limits.clockSamples { clock.differences.removeFirst() }
        clocks[node] = clock
    }

    /// By how many milliseconds a node's clock is ahead of this one's, less than 0 for behind; nil while that is not
    /// known.
    public func offset(of node: NodeID) -> Int64? {
        guard let clock = clocks[node], let greatest = clock.differences.max() else { return nil }
        return greatest > 0 || clock.differences.count == Limits.clockSamples ? greatest : nil
    }

    /// Whether an offset is more than clocks may differ.
    public static func isFar(_ offset: Int64) -> Bool { offset.magnitude > Limits.clockOffsetMillisecondsMax }

    /// How far a clock is from this node's, in words: `9.0 s ahead of`.
    ///
    /// - Parameter milliseconds: by how much it is ahead; less than 0 for behind.
    public static func words(_ milliseconds: Int64) -> String {
        let tenths = (milliseconds.magnitude + 50) / 100
        return "\(tenths / 10).\(tenths % 10) s \(milliseconds < 0 ? "behind" : "ahead of")"
    }

    /// Forgets all nodes but these.
    public mutating func keep(_ nodes: Set<NodeID>) { clocks = clocks.filter { nodes.contains($0.key) } }

    /// The nodes whose clocks have begun to differ, or do so no more, since this was asked last, with their offsets.
    public mutating func news() -> [(node: NodeID, offset: Int64, isFar: Bool)] {
        var news: [(node: NodeID, offset: Int64, isFar: Bool)] = []
        for node in clocks.keys.sorted() {
            guard let offset = offset(of: node), let isLogged = clocks[node]?.isLogged else { continue }
            // One at the very bound is not told of again and again.
            let isFar = isLogged ? offset.magnitude > Limits.clockOffsetMillisecondsMax / 2 : Self.isFar(offset)
            guard isFar != isLogged else { continue }
            clocks[node]?.isLogged = isFar
            news.append((node, offset, isFar))
        }
        return news
    }
}

/// Finds names that several nodes have for good: a node that was started again counts beside its earlier incarnation
/// for some seconds.
///
/// Pure: `now` is milliseconds on any clock that does not go back.
public struct NamesakeWatch: Sendable {
    /// Since when names are shared.
    private var since: [String: UInt64] = [:]
    private var logged: Set<String> = []

    public init() {}

    /// Returns each name that several nodes have once; to be called every second or so.
    public mutating func look(_ namesakes: [(name: String, nodes: [NodeID])], now: UInt64) -> [(name: String, nodes: [NodeID])] {
        let names = Set(namesakes.map(\.name))
        since = since.filter { names.contains($0.key) }
        var found: [(name: String, nodes: [NodeID])] = []
        for (name, nodes) in namesakes {
            let first = since[name] ?? now
            since[name] = first
            guard now - min(now, first) >= Limits.namesakeMilliseconds, logged.count < Limits.membersMax,
                logged.insert(name).inserted
            else { continue }
            found.append((name, nodes))
        }
        return found
    }
}

extension Limits {
    /// By how many milliseconds a node's clock may differ from this one's until that is told: what messages that expire
    /// and bans that end bear.
    static let clockOffsetMillisecondsMax: UInt64 = 1000

    /// Of so many summaries the fastest one counts, as to what a node's clock shows: 16 s of them.
    static let clockSamples = 8

    /// How long two nodes have one name until that is told, in milliseconds: longer than a node is up without a word.
    static let namesakeMilliseconds: UInt64 = 10_000
}
