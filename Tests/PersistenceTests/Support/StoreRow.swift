@testable import BrokerModel

/// A row that a test keeps.
struct StoreRow: Hashable, Comparable {
    let table: StoreTable
    let key: UInt64
    let body: [UInt8]

    init(_ table: StoreTable, _ key: UInt64, _ body: [UInt8]) {
        self.table = table
        self.key = key
        self.body = body
    }

    /// In the order in which a store loads them.
    static func < (left: StoreRow, right: StoreRow) -> Bool {
        (place(left.table), left.key) < (place(right.table), right.key)
    }

    private static func place(_ table: StoreTable) -> Int { StoreTable.inOrderOfRecovery.firstIndex(of: table) ?? .max }

    /// Bytes that tell the row from every other.
    static func body(_ key: UInt64, count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: key &* 0x9E37_79B9 &+ UInt64($0) &* (key | 1) >> 3) }
    }
}

extension JournalBatch {
    /// A batch as a shard would give it.
    convenience init(through sequence: UInt64, _ changes: [(JournalRecord.Operation, StoreRow)]) {
        self.init()
        for (operation, row) in changes {
            row.body.withUnsafeBytes { body in
                append(JournalRecord(operation, row.table, key: row.key, body: UnsafeRawBufferPointer(rebasing: body[...])))
            }
        }
        lastSequence = sequence
    }
}
