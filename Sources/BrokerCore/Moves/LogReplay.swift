/// What a session that lacks some of the log gets when it has that: nothing reaches it before, so that its messages keep their order.
///
///     given to it ──► logFloor ──replay──► through ──► aside ──► as it comes
final class LogReplay {
    /// A message that came out of the log meanwhile.
    struct Aside {
        let message: Message
        let mustArrive: Bool
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

    init(_ session: Session, through: LogPlaces) {
        (self.session, self.through) = (session, through)
        given = Array(repeating: nil, count: through.places.count)
    }

    /// Keeps a message for later.
    func keep(_ message: Message, mustArrive: Bool) {
        guard !isOverflowing else { return }
        aside.append(Aside(message: message, mustArrive: mustArrive))
        asideBytes += message.byteCount
        guard aside.count > Limits.asideMessagesMax || asideBytes > Limits.asideBytesMax else { return }
        (aside, asideBytes, isOverflowing) = ([], 0, true)
    }
}
