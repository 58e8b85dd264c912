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
    ///   - payload: the message, without headers.
    ///   - subject: where to.
    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer)

    /// A message of another node, for whoever is interested here; valid during the call.
    func deliver(_ message: BusMessage, from node: NodeID)

    /// All interest with a ticket up to this one is in force everywhere: its SUBACK may leave.
    func confirm(through ticket: UInt64)

    /// Messages leave and come from now on.
    func opened()
}
