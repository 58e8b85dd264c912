import BrokerModel

/// How far the purge of a queue has come.
///
///     memory ─► store ─► moved ─► storing
///
/// What memory has is looked at first, and goes at once. What only the store has is read then, a part at a time; meanwhile the queue is
/// worked off as ever, so that some of it may move up unseen: that is looked at last. Belongs to an order.
struct QueuePurge {
    enum Stage {
        /// Looking at what memory has.
        case memory
        /// Looking at what only the store has.
        case store
        /// Looking at what has moved into memory since the order began.
        case moved
        /// All is looked at, and the journal was as long as this: the store is awaited.
        case storing(through: UInt64, ShardOrderOutcome.Result)
    }

    let sessionIndex: UInt32
    let sessionKey: UInt64
    var stage = Stage.memory
    /// Up to here, entries of the queue's front of which memory has no message are looked at, or asked for.
    var residentNumber: UInt64 = 0
    /// Whether the session's queue is this order's to look through.
    var isSifting = false
    /// Whether rows that it has asked for are to come.
    var isReading = false
    /// Whether it has ever asked for some.
    var hasRead = false
    /// Messages that could not be read.
    var unreadableCount = 0

    init(of session: Session) { (sessionIndex, sessionKey) = (session.index, session.key) }
}
