/// The bounds of HTTP messages that no option sets, in one place: each with its unit and what happens beyond it.
public enum Limits {
    // A request.

    /// Bytes of a request's first line; a longer one is answered with 414.
    public static let requestLineBytesMax = 8 << 10

    /// Bytes of a request's head with its first line and its last empty one; a longer one is answered with 431.
    public static let headBytesMax = 16 << 10

    /// Fields of a head, or of the trailer behind a chunked body; more are answered with 431. Bytes: `headBytesMax`.
    public static let fieldCountMax = 100

    /// Bytes of the line in front of a chunk, with its extensions, which nobody needs; a longer one is answered with 400.
    public static let chunkLineBytesMax = 256

    /// Empty lines in front of a request that are passed over, as RFC 9112, section 2.2, asks for; one more is answered with 400.
    public static let leadingLinesMax = 4

    // A stream.

    /// Bytes of an answer's stream that wait for its peer; what does not fit is not taken, and the producer is told.
    public static let streamBytesMax = 256 << 10

    // An answer that we read.

    /// Informational answers (1xx) in front of one; one more ends the connection. Bytes: `headBytesMax` each at most.
    public static let informationalAnswersMax = 8

    /// Bytes of one event of a stream that is read; a longer one ends the connection.
    public static let eventBytesMax = 1 << 20
}
