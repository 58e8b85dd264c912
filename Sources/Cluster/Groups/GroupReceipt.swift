/// Goes with what a node has told of its share groups, and comes back when all parts of the node that was told know it.
public struct GroupReceipt: Equatable, Sendable {
    public let node: NodeID
    /// Which of the memories of that node it belongs to.
    let memory: UInt64
    let word: GroupWord
    /// Where to answer then; empty for nowhere.
    let reply: [UInt8]
}
