/// Rows that a shard wants to read for a session.
public struct StoreRequest: Sendable {
    public struct Row: Sendable, Hashable {
        public let table: StoreTable
        public let key: UInt64

        public init(_ table: StoreTable, key: UInt64) {
            self.table = table
            self.key = key
        }
    }

    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The entries that wait for the rows, by place.
    let entries: [UInt64]
    public let rows: [Row]
}
