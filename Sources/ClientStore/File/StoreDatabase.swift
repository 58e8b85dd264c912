internal import RowStore

extension RowSchema {
    /// A client's: a table for each of `StoreTable`.
    static let client = RowSchema(
        // "MrtC"
        applicationID: 0x4D72_7443, version: 3, key: .bytes, tables: StoreTable.allCases.map(\.name))
}

/// A store's database: what is done to it, on one thread at a time.
final class StoreDatabase {
    let path: String
    private let connection: SQLiteConnection
    private let transaction: RowTransaction
    private let tables: [TableAccess]
    private let logPages: LogPageCount

    enum Access {
        /// Reads and changes a store; makes one if there is none.
        case change
        case read
    }

    /// - Parameter bytesMax: the size that the database may have; nil for any.
    init(_ path: String, _ access: Access, bytesMax: Int? = nil) throws(StoreError) {
        self.path = path
        do throws(SQLiteError) {
            connection = try SQLiteConnection(path, access == .read ? .read : .write)
            transaction = try RowTransaction(connection)
        } catch {
            throw StoreError(error, path)
        }
        let isNew = try Self.isNew(connection, path)
        if isNew, access == .read { throw .foreign(path) }
        do throws(SQLiteError) {
            if access == .change { try Self.prepare(connection, transaction, isNew: isNew, bytesMax: bytesMax) }
        } catch {
            throw StoreError(error, path)
        }
        logPages = LogPageCount(connection)
        tables = StoreTable.allCases.map { [connection] in TableAccess(connection, $0) }
    }

    /// Whether the file is empty, if it is no store; throws if it is something else, or of another version.
    private static func isNew(_ connection: SQLiteConnection, _ path: String) throws(StoreError) -> Bool {
        let kind: RowSchema.Kind
        do throws(SQLiteError) {
            kind = try RowSchema.client.kind(of: connection)
        } catch {
            throw StoreError(error, path)
        }
        switch kind {
        case .new: return true
        case .foreign: throw .foreign(path)
        case .store(let version) where version > RowSchema.client.version: throw .newer(path)
        case .store(let version) where version < RowSchema.client.version: throw .unreleased(path)
        case .store: return false
        }
    }

    private static func prepare(
        _ connection: SQLiteConnection, _ transaction: RowTransaction, isNew: Bool, bytesMax: Int?
    ) throws(SQLiteError) {
        if isNew { try RowSchema.prepare(connection) }
        try RowSchema.configure(connection)
        try RowSchema.cacheCommits(of: connection)
        if isNew { try transaction.run { () throws(SQLiteError) in try RowSchema.client.create(in: connection) } }
        if let bytesMax { try connection.execute("PRAGMA max_page_count = \(max(1, bytesMax / Int(RowSchema.pageSize)))") }
    }

    /// Makes the changes of all batches durable, or of none when it throws.
    func commit(_ batches: some Sequence<StoreBatch>) throws(StoreError) {
        do throws(SQLiteError) {
            try transaction.run { () throws(SQLiteError) in
                for batch in batches {
                    for change in batch.changes { try apply(change) }
                }
            }
        } catch {
            throw StoreError(error, path)
        }
    }

    func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].rows(query)
        } catch {
            throw StoreError(error, path)
        }
    }

    func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].measure(query)
        } catch {
            throw StoreError(error, path)
        }
    }

    /// Moves the log into the database when it has become long, as far as no reader is in the way.
    func tidyUp() { if logPages.value > Limits.logPagesMax { moveLog(.passive) } }

    /// Moves all of the log. Without it nothing is lost: the next who opens the store reads the log.
    func moveAll() {
        connection.setPatience(milliseconds: 0)
        moveLog(.truncate)
    }

    private func moveLog(_ mode: SQLiteConnection.Checkpoint) { _ = try? connection.checkpoint(mode) }

    /// A number that changes when another connection has changed the store.
    func version() throws(StoreError) -> Int64 {
        do throws(SQLiteError) {
            return try connection.integer("PRAGMA data_version")
        } catch {
            throw StoreError(error, path)
        }
    }

    private func apply(_ change: StoreChange) throws(SQLiteError) {
        switch change {
        case .put(let table, let key, let body): try tables[Int(table.rawValue)].put(key, body)
        case .remove(let table, let key): try tables[Int(table.rawValue)].remove(key)
        case .removeRange(let table, let from, let to): try tables[Int(table.rawValue)].removeRange(from, to)
        }
    }
}

extension StoreError {
    /// What SQLite's refusal means for a store.
    fileprivate init(_ error: SQLiteError, _ path: String) {
        self = error.isFull ? .noRoom(path) : error.isDamage ? .damaged(path, "\(error)") : .failed(path, "\(error)")
    }
}
