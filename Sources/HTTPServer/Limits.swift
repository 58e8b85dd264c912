/// The bounds of a server of HTTP that no option sets, in one place: each with its unit and what happens beyond it.
public enum Limits {
    // Connections.

    /// Connections of a listener whose configuration names no maximum. One more takes the place of the one that waits for its peer since
    /// longest, and where none waits, one of the reserve.
    public static let connectionsMax = 64

    /// Connections of a listener beside its maximum, which are answered what is urgent alone, and then end. One more takes the place of the one
    /// that waits longest for its request; where none waits it is closed as soon as it comes. Bytes: `heldBytesMax` for all connections.
    static let reserveMax = 8

    /// Requests of one connection that wait behind the one that is being answered; more stay in the kernel's memory.
    /// Bytes: 16 KiB each for a head, and a body, which is bounded by who serves it.
    public static let pipelinedMax = 8

    /// Bytes of such requests; more stay in the kernel's memory.
    static let aheadBytesMax = 64 << 10

    /// Bytes of one read.
    static let readBytesMax = 64 << 10

    /// Bytes of answers that wait for their peer before the next request is begun, or more of a stream is taken.
    static let outputBytesMax = 64 << 10

    /// Bytes of requests and answers that are held for their peers alone, of all connections together, beside what `outputBytesMax` allows each.
    /// Beyond them the connection ends that holds some since longest.
    static let heldBytesMax = 16 << 20

    // Times.

    /// How long a connection may be silent between two requests, in milliseconds. It is closed then.
    public static let idleMilliseconds: UInt64 = 60_000

    /// How long the handshakes of the layers may take, and then the head of a request, in milliseconds; a head that is late is answered
    /// with 408.
    public static let headMilliseconds: UInt64 = 10_000

    /// How long the body of a request may take, in milliseconds; one that is late is answered with 408.
    public static let bodyMilliseconds: UInt64 = 30_000

    /// How long an answer may take to be found, in milliseconds; then it is 504.
    public static let answerMilliseconds: UInt64 = 60_000

    /// How long a peer may leave an answer unread, in milliseconds. The connection is closed then.
    public static let stalledMilliseconds: UInt64 = 60_000

    /// How long a connection that has ended is read from, so that its peer does not lose what it was told last, in milliseconds.
    static let lingerMilliseconds: UInt64 = 2000
}
