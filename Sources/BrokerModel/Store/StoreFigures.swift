/// How much a store holds, as its last commit left it.
public struct StoreFigures: Equatable, Sendable {
    /// Bytes of the database that are in use, without its log.
    public var bytes: UInt64
    /// Records of every kind.
    public var rows: UInt64
    /// Since the store was made.
    public var commits: UInt64

    public init(bytes: UInt64, rows: UInt64, commits: UInt64) {
        self.bytes = bytes
        self.rows = rows
        self.commits = commits
    }
}
