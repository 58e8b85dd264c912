/// The bounds of a connection that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    /// How long another process's lock on a database is waited for, in milliseconds; then it is an error.
    static let lockMilliseconds: Int32 = 10_000
}
