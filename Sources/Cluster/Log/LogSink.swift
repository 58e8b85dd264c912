/// What the engine answers to a record that is to be stored.
public enum LogAnswer: Equatable, Sendable {
    /// The record stands in the log at this place: now, or since it was sent before.
    case stored(at: UInt64)
    /// There is no leader or no majority just now, or the same record is under way: it may be tried again.
    case unavailable
    /// There is no room for it: it is not in the log, and may be taken when there is.
    case noRoom
    /// The engine does not take it, and would not take it again: the record is too large.
    case refused
}

/// Why something did not get into the log.
public enum LogFailure: Equatable, Sendable {
    /// The engine has refused it: it is not in the log.
    case refused
    /// The log had no room for it: it is not there, and there may be room later.
    case noRoom
    /// No answer came for longer than may be waited: nobody knows whether it is in the log.
    case unknown
}

/// Carries out what a `LogWriter` decides. It does not call the writer from its methods.
public protocol LogSink: AnyObject {
    /// Asks the engine to store a record; its answer goes to `LogWriter.answered` with the same lane and number.
    ///
    /// - Parameters:
    ///   - record: the payload.
    ///   - messageID: goes along as Nats-Msg-Id, by which the engine knows a record that it has.
    ///   - lane: for the answer.
    ///   - number: for the answer.
    func store(_ record: [UInt8], messageID: String, lane: Int, number: UInt64)

    /// What was appended with this token is in the log: it may be acknowledged.
    func stored(_ token: UInt64, at sequence: UInt64)

    /// What was appended with this token is not, or may not be: it must not be acknowledged. Of a fate that is unknown, its publisher is
    /// closed before anything else of it is appended.
    func failed(_ token: UInt64, _ failure: LogFailure)
}
