/// Knows the second copies of messages, which the engine sends where several of a node's filters match.
///
/// A node numbers its messages, and the engine keeps the order of one connection's. So what is not newer than the last one is a copy, or has
/// been overtaken while its sender changed to another server: order is a promise, arrival on this lane is none.
struct SecondCopies {
    private var lastSequence: [NodeID: UInt64] = [:]

    /// Whether a message has not come yet.
    mutating func isNew(_ sequence: UInt64, from node: NodeID) -> Bool {
        guard sequence > lastSequence[node] ?? 0 else { return false }
        lastSequence[node] = sequence
        return true
    }

    /// The others will send nothing any more.
    mutating func keep(_ nodes: Set<NodeID>) { lastSequence = lastSequence.filter { nodes.contains($0.key) } }
}
