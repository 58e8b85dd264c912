/// Carries out what a `SessionOwnership` decides. It does not call the owner from its methods.
///
/// Sessions are named by their client identifiers.
public protocol SessionOwnershipSink: AnyObject {
    /// Asks the engine's leader for the session's record; `SessionOwnership.found` takes the answer.
    func read(_ session: [UInt8])

    /// Writes the record if the last entry of the session has this number (0: if there is none);
    /// `SessionOwnership.written` takes the answer, with the number of the write.
    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64)

    /// Asks another node to stop and to hand over; it calls `askedToHandOver`.
    func askToHandOver(_ session: [UInt8], from node: NodeID, epoch: UInt64)

    /// Answers that this node has stopped; the other calls `handedOver`.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - node: who has asked.
    ///   - epoch: as it was asked with.
    ///   - state: what `stop` gave; nil if this node has nothing of the session.
    func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64, state: [UInt8]?)

    /// The session is this node's: its client gets CONNACK.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - record: as it is in the engine.
    ///   - state: what the last owner has handed over; nil if that is gone, and what it had is to be read from the log.
    ///   - isAssumed: whether no client has asked for it.
    func restored(_ session: [UInt8], _ record: SessionRecord, state: [UInt8]?, isAssumed: Bool)

    /// A session that was to be assumed is another node's, or has ended.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - record: as it is in the engine; nil if there is none.
    func notAssumed(_ session: [UInt8], _ record: SessionRecord?)

    /// What was to be saved stands in the engine.
    func saved(_ session: [UInt8], _ record: SessionRecord)

    /// The session is another node's from now on: its client is closed with 0x8E, here and before this returns.
    ///
    /// - Returns: what the next owner needs to go on; nil for nothing.
    func stop(_ session: [UInt8]) -> [UInt8]?
}

/// What the engine answers to a record that is written by compare-and-set.
public enum RecordAnswer: Equatable, Sendable {
    case stored(at: UInt64)
    /// Another one has been written in between.
    case conflict
    case unavailable
}
