internal import SQLite

/// A store's database: what is done to it, on one thread at a time.
final class StoreDatabase {
    let path: String
    private let connection: SQLiteConnection
    private let tables: [TableAccess]
    private let logPages: UnsafeMutablePointer<Int>

    enum Access {
        /// Reads and changes a store; makes one if there is none.
        case change
        case read
    }

    /// - Parameter bytesMax: the size that the database may have; nil for any.
    init(_ path: String, _ access: Access, bytesMax: Int? = nil) throws(StoreError) {
        self.path = path
        logPages = .allocate(capacity: 1)
        logPages.initialize(to: 0)
        do throws(SQLiteError) {
            connection = try SQLiteConnection(path, access == .read ? .read : .write)
            // Whoever reads must not keep the writer from its work for long, nor the other way round.
            guard let version = try StoreSchema.version(connection) else { throw Failure.foreign.error }
            if version > StoreSchema.version { throw Failure.newer.error }
            if access == .change {
                if version == 0 { try StoreSchema.prepare(connection) }
                try StoreSchema.configure(connection)
                try StoreSchema.migrate(connection, from: version)
                if let bytesMax { try connection.execute("PRAGMA max_page_count = \(max(1, bytesMax / 4096))") }
                connection.countLogPages(in: logPages)
            } else if version == 0 {
                throw Failure.foreign.error
            }
        } catch {
            logPages.deallocate()
            throw Failure.meant(by: error, path)
        }
        tables = StoreTable.allCases.map { [connection] in TableAccess(connection, $0) }
    }

    deinit {
        connection.countLogPages(in: nil)
        logPages.deallocate()
    }

    /// Makes the changes of all batches durable, or of none when it throws.
    func commit(_ batches: some Sequence<StoreBatch>) throws(StoreError) {
        do throws(SQLiteError) {
            try connection.execute("BEGIN IMMEDIATE")
            for batch in batches {
                for change in batch.changes { try apply(change) }
            }
            try connection.execute("COMMIT")
        } catch {
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw Failure.meant(by: error, path)
        }
    }

    func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].rows(query)
        } catch {
            throw Failure.meant(by: error, path)
        }
    }

    func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].measure(query)
        } catch {
            throw Failure.meant(by: error, path)
        }
    }

    /// Moves the log into the database when it has become long, as far as no reader is in the way.
    func tidyUp() { if logPages.pointee > Limits.logPagesMax { moveLog(.passive) } }

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
            throw Failure.meant(by: error, path)
        }
    }

    private func apply(_ change: StoreChange) throws(SQLiteError) {
        switch change {
        case .put(let table, let key, let body): try tables[Int(table.rawValue)].put(key, body)
        case .remove(let table, let key): try tables[Int(table.rawValue)].remove(key)
        case .removeRange(let table, let from, let to): try tables[Int(table.rawValue)].removeRange(from, to)
        }
    }

    /// What SQLite does not say itself, as if it did.
    private enum Failure: String {
        case foreign, newer

        var error: SQLiteError { SQLiteError(code: 0, message: rawValue) }

        static func meant(by error: SQLiteError, _ path: String) -> StoreError {
            if error.code == 0, let failure = Failure(rawValue: error.message) {
                return failure == .foreign ? .foreign(path) : .newer(path)
            }
            if error.isFull { return .noRoom(path) }
            return error.isDamage ? .damaged(path, "\(error)") : .failed(path, "\(error)")
        }
    }
}
