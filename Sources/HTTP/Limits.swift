/// The bounds of HTTP messages that no option sets and several files share: each with its unit and what happens beyond
/// it.
public enum Limits {
    // A request.

    /// Bytes of a request's head with its first line and its last empty one; a longer one is answered with 431.
    public static let headBytesMax = 16 << 10

    /// Fields of a head, or of the trailer behind a chunked body; more are answered with 431. Bytes: `headBytesMax`.
    public static let fieldCountMax = 100
}
