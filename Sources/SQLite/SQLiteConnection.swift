internal import CSQLite

/// A connection to a database in a file. One thread at a time uses it and what it prepares.
///
/// Closing the last connection does not move the log into the database, as SQLite would have it: a log that is damaged in its middle
/// would be gone with all that could still be read of it. `checkpoint` does it when all is known to be well.
package final class SQLiteConnection: @unchecked Sendable {
    package enum Access {
        /// Reads a file that is there.
        case read
        /// Changes a file that is there.
        case write
    }

    package enum Checkpoint {
        /// As far as nobody is in the way.
        case passive
        /// All of it; the log is empty afterwards.
        case truncate
    }

    /// For calls that have no face here: a backup, a function of SQL.
    package let handle: OpaquePointer

    package init(_ path: String, _ access: Access) throws(SQLiteError) {
        let flags = (access == .read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX
        var handle: OpaquePointer?
        // A leading "file:" would be taken for a URI.
        let code = sqlite3_open_v2(path.hasPrefix("/") ? path : "./\(path)", &handle, flags, nil)
        guard code == SQLITE_OK, let handle else {
            let error = SQLiteError(handle, code: code)
            sqlite3_close_v2(handle)
            throw error
        }
        self.handle = handle
        sqlite3_extended_result_codes(handle, 1)
        _ = sqlite_keep_log_on_close(handle)
        sqlite_defend(handle)
        sqlite3_busy_timeout(handle, Limits.lockMilliseconds)
    }

    deinit { sqlite3_close_v2(handle) }

    package func prepare(_ sql: String) throws(SQLiteError) -> PreparedStatement {
        try PreparedStatement(handle, sql)
    }

    /// Runs statements whose rows nobody wants.
    package func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(handle, code: code) }
    }

    /// The first column of the first row.
    package func integer(_ sql: String) throws(SQLiteError) -> Int64 {
        let statement = try prepare(sql)
        return try statement.step() ? statement.integer(0) : 0
    }

    /// The first column of every row.
    package func texts(_ sql: String) throws(SQLiteError) -> [String] {
        let statement = try prepare(sql)
        var texts: [String] = []
        while try statement.step() { texts.append(statement.text(0)) }
        return texts
    }

    /// How many rows the last statement changed.
    package var changes: Int { Int(sqlite3_changes64(handle)) }

    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Moves pages from the log into the database; says how many pages of the log are moved, and whether that is all.
    package func checkpoint(_ mode: Checkpoint) throws(SQLiteError) -> (movedPages: Int, isWhole: Bool) {
        var logPages: Int32 = 0
        var moved: Int32 = 0
        let mode = mode == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE
        let code = sqlite3_wal_checkpoint_v2(handle, nil, mode, &logPages, &moved)
        guard code == SQLITE_OK else { throw SQLiteError(handle, code: code) }
        return (Int(moved), moved == logPages)
    }

    /// From now on writes the pages of the log to where it is told, after each commit of this connection.
    package func countLogPages(in target: UnsafeMutablePointer<Int>?) {
        guard let target else {
            sqlite3_wal_hook(handle, nil, nil)
            return
        }
        sqlite3_wal_hook(
            handle,
            { target, _, _, pages in
                target?.assumingMemoryBound(to: Int.self).pointee = Int(pages)
                return SQLITE_OK
            }, target)
    }

    /// How long a call waits for another connection, before it fails as busy.
    package func setPatience(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }
}
