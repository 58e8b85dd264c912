/// A node's share group whose turn it is with a message of the log.
public struct LogShare: Equatable, Sendable {
    public var node: NodeID
    /// Stands for the group's name on all nodes.
    public var group: UInt64
    /// What the node itself has chosen among its own members; 0 for nothing.
    public var member: UInt64

    public init(node: NodeID, group: UInt64, member: UInt64) { (self.node, self.group, self.member) = (node, group, member) }
}
