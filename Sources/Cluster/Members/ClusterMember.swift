/// A node of the cluster, as this one sees it.
public struct ClusterMember: Equatable, Sendable {
    public enum State: String, Equatable, Sendable, CaseIterable {
        /// It has been heard of a moment ago.
        case up
        /// It holds a lease, and says nothing of itself.
        case silent
        /// It has said goodbye.
        case left
        /// Its lease is over, and it has not said goodbye.
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
