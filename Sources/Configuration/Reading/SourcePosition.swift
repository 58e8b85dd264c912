/// Where a line stands.
struct SourcePosition: Sendable, Equatable {
    /// The file as it was named.
    var file: String
    /// Counted from 1.
    var line: Int
}
