/// Knows the second copies of messages, which the engine sends where several of a node's filters match.
///
/// A node numbers its messages, and the engine keeps the order of one connection's. So what is not newer than the last one is a copy, or has
/// been overtaken while its sender changed to another server: order is a promise, arrival on this lane is none.
struct SecondCopies {
    /// Few: they are sought one by one for each message.
    private var last: [(node: NodeID, sequence: UInt64)] = []

    /// Whether a message has not come yet.
    mutating func isNew(_ sequence: UInt64, from node: NodeID) -> Bool {
        guard let place = last.firstIndex(where: { $0.node == node }) else {
            last.append((node, sequence))
            return sequence > 0
        }
        guard sequence > last[place].sequence else { return false }
        last[place].sequence = sequence
        return true
    }

    /// The others will send nothing any more.
    mutating func keep(_ nodes: Set<NodeID>) { last.removeAll { !nodes.contains($0.node) } }
}
