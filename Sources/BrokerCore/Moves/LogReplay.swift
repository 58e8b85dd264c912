import BrokerModel

/// What a session that lacks some of the log gets when it has that: nothing reaches it before, so that its messages keep their order.
///
///     given to it ──► logFloor ──replay──► through ──► aside ──► as it comes
final class LogReplay {
    /// A message that came out of the log meanwhile.
    struct Aside {
        let message: Message
        let mustArrive: Bool
        let name: MessageName
    }

    let session: Session
    /// Up to where it is replayed.
    var through: LogPlaces
    /// What came behind that, in its order.
    var aside: [Aside] = []
    var asideBytes = 0
    /// Whether that was too much: then it is replayed too.
    var isOverflowing = false
    /// The record that the session is given in this turn, by partition; nil for none.
    var given: [UInt64?]
    /// Whether a replay was asked for that has not ended.
    var isAsked = false
    /// Whether this node keeps the session by the claim of whoever waits for it, who is let in when it has all.
    var isAnswered = false
    /// Of a session that is taken up from what the cluster has stored; nil for others.
    var takeUp: TakeUp?

    init(_ session: Session, through: LogPlaces) {
        (self.session, self.through) = (session, through)
        given = Array(repeating: nil, count: through.places.count)
    }

    /// Keeps a message for later.
    func keep(_ message: Message, mustArrive: Bool, name: MessageName) {
        guard !isOverflowing else { return }
        aside.append(Aside(message: message, mustArrive: mustArrive, name: name))
        asideBytes += message.byteCount
        guard aside.count > Limits.asideMessagesMax || asideBytes > Limits.asideBytesMax else { return }
        (aside, asideBytes, isOverflowing) = ([], 0, true)
    }

    /// The spans of the log behind `floor` that are to be read now.
    func spans(after floor: LogPlaces) -> [LogSpan] {
        takeUp?.spans(after: floor, through: through) ?? floor.spans(through: through)
    }

    /// Whether the session is given what is read, and has it then.
    var isGiving: Bool { takeUp.map { $0.phase == .rest } ?? true }
}
