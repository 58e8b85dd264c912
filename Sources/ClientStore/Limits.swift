/// The bounds of a client's store that no option sets and several files share: each with its unit and what happens
/// beyond it.
enum Limits {
    /// Damaged rows that the answer to one reading names; those beyond are skipped like them and not named.
    static let damagesListedMax = 100

    /// Messages of a queue that are in memory at its front; those beyond are read when the front gets short.
    static let queueWindowMax = 1000

    /// Messages of an outbox that are read at once so as to find those that are too old; then the next so many.
    static let sweepRowsMax = 1000
}
