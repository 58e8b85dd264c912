/// The bounds of what a broker answers, each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of an answer that is no stream; a longer one is an error.
    static let answerBytesMax = 16 << 20
    /// Rows of one page that are asked for; the broker gives no more.
    static let pageRowsMax = 1000
}
