/// The bounds of the event loops, of logins and of the log that no option sets: each with its unit and what happens beyond it.
enum Limits {
    // Log.

    /// Lines of the log that are kept for administrators; of those before them the oldest 31 KiB go together. Bytes: `keptLogBytesMax`.
    static let keptLogLinesMax = 4096

    /// Bytes of memory that they take; the oldest go for the next one.
    static let keptLogBytesMax = 4 << 20

    /// Bytes of lines that wait for a slow log; beyond them lines are dropped, and their number told.
    static let waitingLogBytesMax = 16 << 20

    // A loop's turn.

    /// How often a loop reads from those who have something to say before it writes.
    static let roundsPerTurn = 3

    /// Messages sent after which a loop reads no more before it writes.
    static let messagesPerTurn: UInt64 = 20_000

    /// Messages of the size that a client sends, read from it at once while another waits.
    static let messagesPerRead = 256

    /// How long such a client waits at most, in milliseconds, however far behind the others are.
    static let parkedMillisecondsMax: UInt64 = 20

    /// Peers that have gone of which the core hears in a turn; it hears of the others in the next. Each is some 15 µs of work, with its will.
    static let endsPerTurn = 64

    /// Steps of TLS handshakes, each up to a millisecond of work, that a loop makes in a turn; others wait for the next one, after everybody else.
    static let handshakesPerTurn = 4

    // Mail between loops.

    /// Bytes of shard messages that wait for a loop; beyond them the other loops read nothing from any client.
    static let shardMessageBytesMax = 8 << 20

    /// Bytes of one loop's shard messages on their way to another; beyond them it lets clients wait that bring many
    /// shard messages, for a moment.
    static let shardMessageBytesAheadMax = 4 << 10

    // Logins.

    /// Answers to failed logins that are held back; beyond them they go out at once. Bytes: 64 each.
    static let heldAnswersMax = 4096

    // Stopping.

    /// How long a peer may take to end its side after we have ended ours.
    static let drainMilliseconds: UInt64 = 1000
}
