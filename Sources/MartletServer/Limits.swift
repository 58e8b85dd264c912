/// The bounds of the shell around the core that no option sets and several files share: each with its unit and what
/// happens beyond it.
enum Limits {
    // Administration.

    /// Bytes that a page of the dashboard has sent over its WebSocket and that no loop has taken, and bytes of a frame:
    /// then the connection ends.
    static let pageBytesMax = 1 << 20

    // A cluster.

    /// How often the control thread asks how the cluster is, in milliseconds.
    static let clusterReportMilliseconds: UInt64 = 1000

    /// Bans that a node has made by itself and is telling the others at the same time.
    static let banOffersMax = 256

    // The process.

    /// Event loops; more that are asked for are not made.
    static let loopsMax = 64

    // HTTP.

    /// Bytes of a request's body; a longer one is answered with 413.
    static let requestBodyBytesMax = 1 << 20

    /// Lines of a second about those who come by HTTP and are refused, and the same of logins that fail: more are
    /// counted, and told in one.
    static let strangerLinesPerSecondMax = 100

    // Stopping.

    /// How long a graceful end may take in all; then it ends without what still holds it up, which is a disk that does
    /// not answer. What was acknowledged is on the disk all the same.
    static let stopMillisecondsMax: UInt64 = 60_000
}
