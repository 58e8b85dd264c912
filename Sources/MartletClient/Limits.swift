/// Bounds of the client library, in one place.
enum Limits {
    /// Output in bytes, written and unsent together, from which `publish` at QoS 0 waits for the connection.
    static let outputBytesMax = 1 << 20

    /// Bytes of received messages without a subscription that wait for one; beyond it they are acknowledged, counted
    /// and gone.
    static let unmatchedBytesMax = 16 << 20

    /// How many such messages may wait; then the same.
    static let unmatchedMessagesMax = 65_535

    /// Answers that a client keeps to give them again; then those that were stored longest ago go.
    static let keptAnswersMax = 1000

    /// Bytes of these with their requests; then the same.
    static let keptAnswerBytesMax = 8 << 20

    /// Bytes that are read from a connection in a turn before others have theirs.
    static let readBytesMax = 256 << 10

    /// Messages that come from the store and wait in memory for their consumer; the others wait in the store.
    static let spillWindowMax = 256

    /// Bytes of these; one message more may wait.
    static let spillWindowBytesMax = 1 << 20

    /// Bytes of changes that the store has not made durable; beyond it nothing more is read from the connection until
    /// it has.
    static let storeBytesMax = 16 << 20

    /// How many such changes there may be.
    static let storeChangesMax = 100_000

    /// Messages of the outbox that are read at once to follow them; the others are read after.
    static let deliveriesReadMax = 1000

    /// Deliveries whose positions in the outbox are reported while they wait; others learn theirs when they begin to be
    /// followed.
    static let queuePositionsMax = 64

    /// Messages of an inbox that wait in memory for those who follow its arrivals; what is more is read from the store.
    static let inboxWindowMax = 1000

    /// Messages of an inbox that are read from the store at a time for those who follow its arrivals.
    static let inboxReadMax = 100

    /// Bytes of these; then the same.
    static let inboxWindowBytesMax = 16 << 20
}
