/// Finds nodes that hold a lease and say nothing any more, and those that do so again. Pure.
public struct SilenceWatch: Sendable {
    private var silent: Set<NodeID> = []

    public init() {}

    /// Gives each of a `MemberTable`'s once when it falls silent, and once when it is heard of again; to be called every second or so. One that has
    /// never said anything has just come.
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
