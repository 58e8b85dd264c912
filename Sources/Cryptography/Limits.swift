/// The bounds of what is computed for strangers.
enum Limits {
    /// Bytes of a name or password that SASLprep prepares: PostgreSQL's limit. A longer one that is not ASCII is refused.
    static let preparedTextBytesMax = 1024
}
