/// Carries out what a `BusLane` decides, in the order of the calls. It does not call the lane from them.
///
/// What concerns the engine goes to one connection, which keeps the order and does not send a node's own messages back to it.
public protocol BusSink: AnyObject {
    /// Asks the engine for what is published to a subject; `identifier` has not been used on this connection.
    func subscribe(_ subject: [UInt8], identifier: UInt64)

    func unsubscribe(_ identifier: UInt64)

    /// Publishes; the bytes are valid during the call.
    ///
    /// - Parameters:
    ///   - reply: the subject for the answer, or for the engine's word that nobody is there; empty for none.
    ///   - payload: what it holds, without headers.
    ///   - count: how many messages of clients that are; 0 for a message.
    ///   - subject: where to.
    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int)

    /// A message of another node, for whoever is interested here; valid during the call.
    func deliver(_ message: BusMessage, from node: NodeID)

    /// Another node has so many members of share groups.
    ///
    /// - Parameters:
    ///   - news: each all that the node has of its group.
    ///   - node: which one.
    ///   - receipt: `BusLane.learned` is to be called with it when the whole node knows this, and what came before.
    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt)

    /// Another node is gone, and its members of share groups with it.
    func forget(_ node: NodeID)

    /// All interest with a ticket up to this one is in force everywhere: its SUBACK may leave.
    func confirm(through ticket: UInt64)

    /// Messages leave and come from now on.
    func opened()
}
