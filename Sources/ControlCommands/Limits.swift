/// The bounds of what a broker answers, each with its unit and what happens beyond it.
enum Limits {
    /// Rows of one page that are asked for; the broker gives no more.
    static let pageRowsMax = 1000
}
