internal import CSQLite

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
