/// The bounds of a client of HTTP that no setting sets: each with its unit and what happens beyond it.
enum Limits {
    /// Milliseconds for which the addresses of a server's name are known; then they are asked for again.
    static let addressMilliseconds: UInt64 = 10_000
}
