package import Cluster
import Platform

/// What this process is called in its cluster: one incarnation after the other, for a node whose lease has ended goes
/// on as another one. Whoever has seen that end acts for the incarnation that it was.
///
/// Belongs to the loop that speaks to the servers.
package final class NodeIncarnations {
    private(set) var current: NodeID
    private var earlier: Set<NodeID> = []

    init(_ first: NodeID) { current = first }

    /// The next one.
    func begin() {
        earlier.insert(current)
        repeat { current = Self.run(ofStore: current.store) } while earlier.contains(current)
    }

    /// Whether it is one of this process.
    func contains(_ node: NodeID) -> Bool { node == current || earlier.contains(node) }

    /// The first incarnation of a process.
    ///
    /// - Parameter storeSeed: tells the store from all others; nil without one.
    package static func first(storeSeed: UInt64?) -> NodeID {
        let seed = storeSeed ?? RandomBytes.seed()
        return run(ofStore: UInt32(truncatingIfNeeded: seed ^ seed >> 32))
    }

    private static func run(ofStore store: UInt32) -> NodeID {
        NodeID(store: store, incarnation: UInt32(truncatingIfNeeded: RandomBytes.seed()))
    }
}
