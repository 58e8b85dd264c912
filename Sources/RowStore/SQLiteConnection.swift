internal import CSQLite
internal import Glibc

/// A connection to a database in a file. One thread at a time uses it and what it prepares.
///
/// Closing the last connection does not move the log into the database, as SQLite would have it: a log that is damaged
/// in its middle would be gone with all that could still be read of it. `checkpoint` does it when all is known to be
/// well.
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

    /// For calls that have no face here: a function of SQL.
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
    func countLogPages(in target: UnsafeMutablePointer<Int>?) {
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

    /// Copies all pages of the database, as the last commit left them, into another one.
    package func copyPages(to target: SQLiteConnection) throws(SQLiteError) {
        guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else {
            throw SQLiteError(target.handle, code: sqlite3_errcode(target.handle))
        }
        // All pages in one step: so they are of one commit.
        let code = sqlite3_backup_step(backup, -1)
        sqlite3_backup_finish(backup)
        guard code == SQLITE_DONE else { throw SQLiteError(target.handle, code: code) }
    }

    /// How long a call waits for another connection, before it fails as busy.
    package func setPatience(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }
}

/// One SQL statement, compiled once and run many times. Its connection's thread owns it.
///
/// Parameters and columns are counted as SQLite does: parameters from 1, columns from 0.
package final class PreparedStatement {
    private let handle: OpaquePointer
    private let connection: OpaquePointer

    init(_ connection: OpaquePointer, _ sql: String) throws(SQLiteError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard code == SQLITE_OK, let handle else { throw SQLiteError(connection, code: code) }
        self.handle = handle
        self.connection = connection
    }

    deinit { sqlite3_finalize(handle) }

    package func bind(_ value: Int64, at index: Int32) {
        sqlite3_bind_int64(handle, index, value)
    }

    /// The bits of a key or a checksum.
    package func bind(_ value: UInt64, at index: Int32) {
        sqlite3_bind_int64(handle, index, Int64(bitPattern: value))
    }

    /// The bytes are not copied: they stay where they are until the statement has run.
    package func bind(_ bytes: UnsafeRawBufferPointer, at index: Int32) {
        _ = sqlite_bind_static(handle, index, bytes.baseAddress, sqlite3_uint64(bytes.count))
    }

    /// A copy of a text, UTF-8: a blob would be equal to no text.
    package func bind(text: [UInt8], at index: Int32) {
        text.withUnsafeBytes { bytes in
            let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
            guard let start = bytes.baseAddress else {
                // Without an address it would be NULL.
                sqlite3_bind_text(handle, index, "", 0, copied)
                return
            }
            sqlite3_bind_text(handle, index, start.assumingMemoryBound(to: CChar.self), Int32(clamping: bytes.count), copied)
        }
    }

    /// Goes on to the next row; false when there is none.
    package func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            let error = SQLiteError(connection, code: code)
            sqlite3_reset(handle)
            throw error
        }
    }

    /// Runs a statement that gives no rows.
    package func run() throws(SQLiteError) {
        let code = sqlite3_step(handle)
        if code != SQLITE_DONE {
            let error = SQLiteError(connection, code: code)
            sqlite3_reset(handle)
            throw error
        }
        sqlite3_reset(handle)
    }

    /// Ends a run before its last row, and lets go of what it has locked.
    package func reset() { sqlite3_reset(handle) }

    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    package func bits(_ column: Int32) -> UInt64 { UInt64(bitPattern: sqlite3_column_int64(handle, column)) }

    package func text(_ column: Int32) -> String { sqlite3_column_text(handle, column).map { String(cString: $0) } ?? "" }

    /// A copy of the bytes of a text or a blob, or of a number's digits; nil for NULL.
    package func content(_ column: Int32) -> [UInt8]? {
        guard sqlite3_column_type(handle, column) != SQLITE_NULL else { return nil }
        let start = sqlite3_column_blob(handle, column)
        return Array(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column))))
    }

    /// Valid until the next step; nil if the column holds no blob.
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer? {
        guard sqlite3_column_type(handle, column) == SQLITE_BLOB else { return nil }
        let start = sqlite3_column_blob(handle, column)
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column)))
    }
}

/// SQLite refused a call.
public struct SQLiteError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The extended result code.
    public let code: Int32
    /// What the kernel said, 0 if it was not asked.
    public let systemError: Int32
    public let message: String

    package init(code: Int32, systemError: Int32 = 0, message: String) {
        self.code = code
        self.systemError = systemError
        self.message = message
    }

    /// What the connection's last call said.
    package init(_ handle: OpaquePointer?, code: Int32) {
        let extended = handle.map { sqlite3_extended_errcode($0) } ?? code
        var systemError: Int32 = 0
        if let handle, code & 0xff == SQLITE_IOERR { systemError = sqlite_last_system_error(handle) }
        if let handle, code & 0xff == SQLITE_CANTOPEN { systemError = sqlite3_system_errno(handle) }
        self.init(
            code: extended & 0xff == code & 0xff ? extended : code,
            systemError: systemError,
            message: String(cString: handle.flatMap { sqlite3_errmsg($0) } ?? sqlite3_errstr(code)))
    }

    public var description: String {
        let reason = systemError == 0 ? "" : ": \(strerror(systemError).map { String(cString: $0) } ?? "error \(systemError)")"
        return "\(message) (SQLite \(code))\(reason)"
    }

    /// Whether space would cure it: the disk's, a quota's or the database's own bound. A sync that fails for want of
    /// space is none of these: nobody knows what it has dropped.
    package var isFull: Bool {
        switch code {
        case Self.writeFailed: systemError == ENOSPC || systemError == EDQUOT
        case Self.sharedMemoryFailed: true
        default: primaryCode == SQLITE_FULL
        }
    }

    /// Whether the file's contents are to blame, or the disk that does not give them back. A schema that is damaged may
    /// make SQLite miss a table or a format that it knows, which is its general error.
    package var isDamage: Bool {
        !isFull && [SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_IOERR, SQLITE_ERROR, SQLITE_TOOBIG].contains(primaryCode)
    }

    /// Whether the kernel failed to read or write.
    package var isOfDisk: Bool { !isFull && primaryCode == SQLITE_IOERR }

    /// Whether another connection is in the way.
    package var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }

    private var primaryCode: Int32 { code & 0xff }

    /// SQLITE_IOERR_WRITE and SQLITE_IOERR_SHMSIZE, which Swift does not import. The latter only happens when the file
    /// is to grow.
    private static let writeFailed = SQLITE_IOERR | 3 << 8
    private static let sharedMemoryFailed = SQLITE_IOERR | 19 << 8
}

/// The bounds of a connection that no option sets: each with its unit and what happens beyond it.
enum Limits {
    /// How long another process's lock on a database is waited for, in milliseconds; then it is an error.
    static let lockMilliseconds: Int32 = 10_000
}
