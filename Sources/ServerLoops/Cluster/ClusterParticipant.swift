package import Cluster

/// What a node has answered; nil for nothing in time.
package struct NodeReport: Sendable {
    package var node: String
    package var answer: NodeAnswer?

    package init(
        node: String, answer: NodeAnswer? = nil
    ) {
        self.node = node
        self.answer = answer
    }
}

/// A node's part in its cluster, as the loop that it belongs to knows it: it speaks to the servers for all loops of the
/// node.
package protocol ClusterParticipant: AnyObject {
    /// Connects. Once, before the loop's first turn.
    func start()
    /// Says goodbye to the other nodes, and sends what is to be sent.
    func stop()
    /// Takes what it is told.
    func received(_ message: ToGateway)
    /// When it is to be called next by `advance`, in the loop's milliseconds; nil for not before something comes.
    var nextDeadline: UInt64? { get }
    /// Does what is due.
    func advance(now: UInt64)
    /// Sends what the turn has brought.
    func endTurn()
}
