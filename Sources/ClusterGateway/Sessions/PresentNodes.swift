import Cluster
import ServerLoops

/// The nodes that hold a lease, since when others are missed, and the clients that wait for these.
///
/// Belongs to a `SessionCoordinator`.
struct PresentNodes {
    /// Which stores are alive, and by whom.
    private(set) var live: Set<NodeID> = []
    /// Since when stores are missed.
    private(set) var missedSince: [UInt32: UInt64] = [:]
    /// The clients that were refused because of missing nodes.
    var awaited = AwaitedNodes()

    /// Takes the list of the nodes that hold a lease now.
    ///
    /// - Returns: whether one that did is gone.
    mutating func change(_ nodes: [NodeID], now: UInt64) -> Bool {
        let stores = Set(nodes.map(\.store))
        let gone = live.filter { !stores.contains($0.store) }
        for node in gone { missedSince[node.store] = now }
        for store in stores { missedSince[store] = nil }
        live = Set(nodes)
        return !gone.isEmpty
    }

    /// The incarnations of a node that may be there: the last one counts as alive until its lease has ended, also if
    /// the next one is.
    func incarnations(of store: UInt32) -> [NodeID] { live.filter { $0.store == store }.sorted() }

    /// Since when a store is missed: from now on, if it was not.
    mutating func miss(_ store: UInt32, now: UInt64) -> UInt64 {
        let since = missedSince[store] ?? now
        missedSince[store] = since
        return since
    }

    /// How many of the nodes that are there have their turn with a session before this one.
    func rank(of node: NodeID, for session: [UInt8]) -> Int {
        func weight(_ node: NodeID) -> UInt64 {
            session.reduce(node.rawValue | 1) { ($0 ^ UInt64($1)) &* 0x9E37_79B9_7F4A_7C15 ^ $0 >> 29 }
        }
        let own = (weight(node), node)
        return min(Limits.leftSessionRanksMax, live.count { (weight($0), $0) > own })
    }
}

/// Clients that are refused because the node that has their sessions is away: of each node the first one is logged by
/// itself, the others from time to time by their number.
struct AwaitedNodes {
    private struct Refused {
        var count: UInt64 = 0
        var loggedAt: UInt64
    }

    private var refused: [NodeID: Refused] = [:]

    /// Whether nothing is to be logged any more.
    var isEmpty: Bool { refused.isEmpty }

    /// Takes note that a client is refused on account of a node; returns whether that is to be logged by itself.
    mutating func refuses(for node: NodeID, now: UInt64) -> Bool {
        guard refused[node] != nil else {
            refused[node] = Refused(loggedAt: now)
            return true
        }
        refused[node]?.count += 1
        return false
    }

    /// How many more clients were refused, by node, where that is to be logged now. Nodes for which there were none for
    /// a while are forgotten.
    mutating func due(now: UInt64) -> [(node: NodeID, count: UInt64)] {
        var due: [(node: NodeID, count: UInt64)] = []
        for (node, entry) in refused.sorted(by: { $0.key < $1.key })
        where now >= entry.loggedAt + Limits.awaitedLoggedMilliseconds {
            refused[node] = entry.count == 0 ? nil : Refused(loggedAt: now)
            if entry.count > 0 { due.append((node, entry.count)) }
        }
        return due
    }
}

extension Limits {
    /// How often it is logged how many clients were refused because the node that has their sessions is away, in
    /// milliseconds.
    static let awaitedLoggedMilliseconds: UInt64 = 10_000
}
