/// The bounds of a server of HTTP that no option sets and several files share: each with its unit and what happens
/// beyond it.
public enum Limits {
    // Connections.

    /// Connections of a listener whose configuration names no maximum. One more takes the place of the one that waits
    /// for its peer since longest, and where none waits, one of the reserve.
    public static let connectionsMax = 64

    /// Bytes of answers that wait for their peer before the next request is begun, or more of a stream is taken.
    static let outputBytesMax = 64 << 10
}
