/// The bounds of a client's store that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    /// Pages of the log after which it is moved into the database, behind a commit.
    static let logPagesMax = 2000

    /// How long after a commit that found no room the next is tried, in milliseconds.
    static let retryMilliseconds = 500

    /// How long a batch that nobody waits for is left to go together with another, in milliseconds.
    static let lazyMilliseconds = 10

    /// Batches that are committed together; those beyond wait for the next commit.
    static let batchesAtOnceMax = 1000

    /// Damaged rows that the answer to one reading names; those beyond are skipped like them and not named.
    static let damagesListedMax = 100

    /// Ranges of one's own and of removed messages between a conversation's unread ones. Who answers once more is taken to have read what is before the
    /// first of them.
    static let passedRangesMax = 100

    /// One's own messages that an inbox expects back from a server before MQTT 5.0, which does not say whose they are; of more the oldest are taken for
    /// another's when they come.
    static let echoesMax = 1000

    /// How long it does so after a message was sent, in milliseconds: a day. Then a message like it is another's.
    static let echoPatienceMilliseconds: UInt64 = 86_400_000

    /// Messages of an inbox that are read at once so as to remove some; then the next so many.
    static let removalRowsMax = 200

    /// Messages of a queue that are in memory at its front; those beyond are read when the front gets short.
    static let queueWindowMax = 1000

    /// Messages of an outbox that are read at once so as to find those that are too old; then the next so many.
    static let sweepRowsMax = 1000

    /// Milliseconds between two looks through all of an outbox's messages that only the store has, at least. So late is told at most that one of
    /// these is too old, but for the next.
    static let sweepPauseMilliseconds: UInt64 = 1000

    /// Rows that were looked at for which that pause is a millisecond longer, so that looking takes little of the disk's time: of a million
    /// messages it is 200 s.
    static let sweepRowsPerMillisecond = 5

    /// Messages that the server has refused and whose owner has not let go of; then the oldest are forgotten.
    static let refusedMessagesMax = 1000

    /// Bytes of their rows; then the same, but for one message that is larger alone.
    static let refusedBytesMax = 4 << 20

    /// Bytes of a queue's messages that are in memory at its front, but for one message that is larger alone.
    static let queueWindowBytesMax = 1 << 20
}
