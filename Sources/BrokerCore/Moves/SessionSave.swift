import BrokerModel

/// How much of a session that is kept here the cluster has stored, and who waits for more.
///
///     changed ─► given, under way ─► sessionSaved ─► answers
///
/// One of a session is under way at a time. What changes meanwhile goes with the next one, and so do the answers that wait for that.
final class SessionSave {
    /// What a client is told when the cluster has it.
    enum Answer {
        /// CONNACK and all behind it, which stand in the connection's output.
        case output
        case held(HeldAnswer)
    }

    let session: Session
    /// The number of what is under way; nil for nothing.
    var underWay: UInt64?
    /// Whether the state has changed since it was given.
    var isChanged = false
    /// The connections that wait for what is under way, and for what follows it.
    var given: [(connection: ConnectionID, answer: Answer)] = []
    var waiting: [(connection: ConnectionID, answer: Answer)] = []
    /// Places up to which the session had been given the log when the journal had come to a number: when all messages that it had then
    /// are done, everything before the places is.
    var mark: (number: UInt64, places: LogPlaces)?
    /// What was given of them last.
    var places: LogPlaces?
    /// By which claim, with which expiry, and whether with a will it was given last.
    var epoch: UInt64 = 0
    var expiryInterval: UInt32 = 0
    var hasWill = false

    init(_ session: Session) { self.session = session }
}
