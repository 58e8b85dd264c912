/// The bounds of the shell around the core that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Dynamic security.

    /// Messages of commands that wait for the one that is performed; one more is not taken.
    static let controlMessagesMax = 1000

    /// Commands of one message on `$CONTROL/broker/v1`; those beyond them are refused.
    static let brokerCommandsMax = 100

    /// Clients whose addresses are read at a time.
    static let connectionRowsPerPage = 1000

    /// Bytes of the file with the first password; a larger one is none.
    static let firstPasswordFileBytesMax = 1024

    /// Bytes that the first password from the environment has at least.
    static let firstPasswordBytesMin = 12

    /// Characters of a first password that is made up: 119 bits of chance.
    static let firstPasswordCharacters = 20

    // The process.

    /// Event loops; more that are asked for are not made.
    static let loopsMax = 64

    /// Bytes that are read of a file that tells of control groups; what stands behind them is not looked at.
    static let controlGroupFileBytesMax = 256 << 10

    /// Lines of the log that are kept for administrators; the oldest goes for the next one.
    static let keptLogLinesMax = 4096

    /// Bytes of the file of tokens; a larger one is refused.
    static let tokenFileBytesMax = 1 << 20

    // A loop's turn.

    /// How often a loop reads from those who have something to say before it writes.
    static let roundsPerTurn = 3

    /// Messages sent after which a loop reads no more before it writes.
    static let messagesPerTurn: UInt64 = 20_000

    /// Messages of the size that a client sends, read from it at once while another waits.
    static let messagesPerRead = 256

    /// How long such a client waits at most, in milliseconds, however far behind the others are.
    static let parkedMillisecondsMax: UInt64 = 20

    /// Steps of TLS handshakes, each up to a millisecond of work, that a loop makes in a turn; others wait for the next one, after everybody else.
    static let handshakesPerTurn = 4

    // Mail between loops.

    /// Bytes of mail that wait for a loop; beyond them the other loops read nothing from any client.
    static let mailBytesMax = 8 << 20

    /// Bytes of one loop's mail on their way to another; beyond them it lets clients wait that bring much mail, for a moment.
    static let mailBytesAheadMax = 4 << 10

    // Logins.

    /// Answers to failed logins that are held back; beyond them they go out at once.
    static let heldAnswersMax = 4096

    /// Passwords checked at the same time: the check of a good hash takes some 50 MiB.
    static let workersMax = 4

    /// Logins that wait for a check; a further one is told that the broker is busy.
    static let pendingLoginsMax = 1000

    // Log.

    /// Bytes of lines that wait for a slow log; beyond them lines are dropped, and their number told.
    static let waitingLogBytesMax = 16 << 20

    /// Bytes gathered before they are written to a log.
    static let logLineBytesMax = 64 << 10

    // HTTP.

    /// Bytes of a request's body; a longer one is answered with 413.
    static let requestBodyBytesMax = 1 << 20

    /// Bytes of a file that is served; a larger one is answered with 404.
    static let fileBytesMax = 16 << 20

    /// Bytes of files that stay in memory, with what compression made of them; beyond them all are forgotten and read again.
    static let keptFileBytesMax = 32 << 20

    /// Bytes of a file that is compressed: less gains nothing, and more would hold up others that ask.
    static let compressedFileBytes = 512...(2 << 20)

    // Stopping.

    /// A second signal so soon after the first waits: `timeout`, and a terminal together with a program that passes signals on, send
    /// each one twice.
    static let graceMilliseconds: UInt64 = 500

    /// How long a graceful end may take in all; then it ends without what still holds it up, which is a disk that does not answer. What was
    /// acknowledged is on the disk all the same.
    static let stopMillisecondsMax: UInt64 = 60_000

    /// How long a peer may take to end its side after we have ended ours.
    static let drainMilliseconds: UInt64 = 1000
}
