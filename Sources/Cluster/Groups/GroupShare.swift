/// A node's share group whose turn it is with a message, by the number that the node has given it.
public struct GroupShare: Equatable, Sendable {
    public var node: NodeID
    public var number: UInt32

    public init(node: NodeID, number: UInt32) { (self.node, self.number) = (node, number) }
}
