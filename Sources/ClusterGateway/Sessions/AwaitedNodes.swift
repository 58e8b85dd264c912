import Cluster

/// Clients that are refused because the node that has their sessions is away: of each node the first one is told of by itself, the others from
/// time to time by their number.
struct AwaitedNodes {
    private struct Refused {
        var count: UInt64 = 0
        var toldAt: UInt64
    }

    private var refused: [NodeID: Refused] = [:]

    /// Whether nothing is to be told any more.
    var isEmpty: Bool { refused.isEmpty }

    /// A client is refused on account of a node; returns whether that is to be told by itself.
    mutating func refuses(for node: NodeID, now: UInt64) -> Bool {
        guard refused[node] != nil else {
            refused[node] = Refused(toldAt: now)
            return true
        }
        refused[node]?.count += 1
        return false
    }

    /// Of how many more is to be told now, by node; those of whom there were none for a while are forgotten.
    mutating func due(now: UInt64) -> [(node: NodeID, count: UInt64)] {
        var due: [(node: NodeID, count: UInt64)] = []
        for (node, entry) in refused.sorted(by: { $0.key < $1.key })
        where now >= entry.toldAt + Limits.awaitedToldMilliseconds {
            refused[node] = entry.count == 0 ? nil : Refused(toldAt: now)
            if entry.count > 0 { due.append((node, entry.count)) }
        }
        return due
    }
}
