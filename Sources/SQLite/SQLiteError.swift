internal import CSQLite
internal import Glibc

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

    /// Whether space would cure it: the disk's, a quota's or the database's own bound. A sync that fails for want of space is none of these:
    /// nobody knows what it has dropped.
    package var isFull: Bool {
        switch code {
        case Self.writeFailed: systemError == ENOSPC || systemError == EDQUOT
        case Self.sharedMemoryFailed: true
        default: primaryCode == SQLITE_FULL
        }
    }

    /// Whether the file's contents are to blame, or the disk that does not give them back. A schema that is damaged may make SQLite miss a
    /// table or a format that it knows, which is its general error.
    package var isDamage: Bool {
        !isFull && [SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_IOERR, SQLITE_ERROR, SQLITE_TOOBIG].contains(primaryCode)
    }

    /// Whether the kernel failed to read or write.
    package var isOfDisk: Bool { !isFull && primaryCode == SQLITE_IOERR }

    /// Whether another connection is in the way.
    package var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }

    private var primaryCode: Int32 { code & 0xff }

    /// SQLITE_IOERR_WRITE and SQLITE_IOERR_SHMSIZE, which Swift does not import. The latter only happens when the file is to grow.
    private static let writeFailed = SQLITE_IOERR | 3 << 8
    private static let sharedMemoryFailed = SQLITE_IOERR | 19 << 8
}
