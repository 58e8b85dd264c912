/// Whose turn it is with a message: a share group of a node, by the number that the node has given it.
public struct GroupShare: Equatable, Sendable {
    public var node: NodeID
    public var number: UInt32

    public init(node: NodeID, number: UInt32) { (self.node, self.number) = (node, number) }
}
