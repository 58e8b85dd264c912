/// One change of the store, as the core wants it.
public struct JournalRecord {
    public enum Operation: UInt8, Sendable {
        /// The key is new in its table.
        case insert = 1
        /// The key is there.
        case update
        /// The key may be there; the body is empty.
        case delete
    }

    public let operation: Operation
    public let table: StoreTable
    public let key: UInt64
    /// Valid as long as the batch that holds it.
    public let body: UnsafeRawBufferPointer

    public init(_ operation: Operation, _ table: StoreTable, key: UInt64, body: UnsafeRawBufferPointer) {
        self.operation = operation
        self.table = table
        self.key = key
        self.body = body
    }
}
