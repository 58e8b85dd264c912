/// The bounds of the event loops, of logins and of the log that no option sets: each with its unit and what happens
/// beyond it.
enum Limits {
    // A loop's turn.

    /// Messages of the size that a client sends, read from it at once while another waits.
    static let messagesPerRead = 256

    /// How long such a client waits at most, in milliseconds, however far behind the others are.
    static let parkedMillisecondsMax: UInt64 = 20
}
