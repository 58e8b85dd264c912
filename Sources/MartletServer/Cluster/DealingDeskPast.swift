import Cluster

/// What a node that was killed, or has lost its lease, has to settle of what share groups had dealt it: see `DealingPast` of each shard.
struct DealingDeskPast {
    /// Earlier runs of which nobody has said yet who deals for them.
    var undecided: Set<NodeID>
    /// Those for which this node does.
    var won: Set<NodeID> = []
    /// By partition: up to where the runs were done.
    let after: [UInt64]
    /// Whether the shards have dealt it.
    var isSettled = false

    /// What the shards say; nil if there is nothing to settle.
    init?(_ parts: [(runs: [UInt64], after: [UInt64])]) {
        guard let first = parts.first else { return nil }
        undecided = Set(parts.flatMap(\.runs).map { NodeID($0) })
        after = first.after.indices.map { partition in parts.map { $0.after[partition] }.min() ?? 0 }
    }
}
