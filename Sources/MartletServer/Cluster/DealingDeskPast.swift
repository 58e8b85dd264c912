import BrokerCore
import Cluster

/// What a node that was killed, or has lost its lease, has to settle of what share groups had dealt it, and of what it was dealing for others: see
/// `DealingPast` of each shard.
struct DealingDeskPast {
    /// Earlier runs of this node, and those that they dealt for, with what the store knows of them.
    let runs: [NodeID: StoredDealing.Part]
    /// Those of which nobody has said yet who deals for them.
    var undecided: Set<NodeID>
    /// Those for which this node does.
    var won: Set<NodeID> = []
    /// By partition: up to where the runs were done.
    let after: [UInt64]
    /// Whether the shards have dealt it.
    var isSettled = false

    /// What the shards say; nil if there is nothing to settle.
    init?(_ parts: [StoredDealing]) {
        guard let all = parts.reduce(nil as StoredDealing?, { $0?.union($1) ?? $1 }), let first = all.parts.first else {
            return nil
        }
        runs = Dictionary(all.parts.map { (NodeID($0.run), $0) }) { one, _ in one }
        undecided = Set(runs.keys)
        after = first.done.indices.map { partition in all.parts.map { $0.done[partition] }.min() ?? 0 }
    }
}
