/// Carries out what a `SessionOwnership` decides. It does not call the owner from its methods.
///
/// Sessions are named by their client identifiers.
public protocol SessionOwnershipSink: AnyObject {
    /// Asks the servers' leader for the session's record; `SessionOwnership.found` takes the answer.
    func read(_ session: [UInt8])

    /// Writes the record if the last entry of the session has this number (0: if there is none);
    /// `SessionOwnership.written` takes the answer, with the number of the write.
    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64)

    /// Asks another node to stop, which calls `askedToStop`; `hasStopped` takes its answer.
    func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64)

    /// The session is this node's: all who kept it before have stopped, or are gone.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - record: as it is in the engine.
    ///   - isAssumed: whether no client has asked for it.
    func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool)

    /// Says that a session that was to be assumed is another node's, or has ended.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - record: as the servers have it; nil if there is none.
    func notAssumed(_ session: [UInt8], _ record: SessionRecord?)

    /// Says that the change of a session's record is stored.
    func saved(_ session: [UInt8], _ record: SessionRecord)

    /// The session is another node's from now on: its client is closed with 0x8E, here and before this returns.
    func stop(_ session: [UInt8])
}
