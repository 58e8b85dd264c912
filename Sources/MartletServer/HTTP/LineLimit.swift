/// How often the log says something of strangers, who may do what it is said of as fast as they like: what is more is counted, and told with the
/// next line that is written.
struct LineLimit {
    private var second: UInt64?
    private var lines = 0
    private var leftOut = 0

    /// Whether a line is written.
    ///
    /// - Parameters:
    ///   - now: in milliseconds.
    ///   - tell: takes how many were not written before.
    mutating func admits(now: UInt64, _ tell: (Int) -> Void) -> Bool {
        if now / 1000 != second {
            (second, lines) = (now / 1000, 0)
            if leftOut > 0 { tell(leftOut) }
            leftOut = 0
        }
        guard lines < Limits.strangerLinesPerSecondMax else {
            leftOut += 1
            return false
        }
        lines += 1
        return true
    }
}
