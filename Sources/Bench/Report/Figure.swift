/// One value of a result.
public enum Figure: Sendable, Equatable {
    case text(String)
    case count(Int)
    /// A number with that many digits behind the point.
    case number(Double, digits: Int)
    case group([BenchResult.Entry])
}
