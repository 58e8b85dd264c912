internal import CSQLite
internal import SQLite

/// Counts the rows that a statement removes or replaces, through the SQL function `departs(key, checksum)` in its WHERE clause: SQLite has
/// the old row's checksum in its hands there, and reading it beforehand would cost as much again as removing it.
///
/// The function is true for keys with the right lowest byte. One transaction's thread owns it.
final class Departures {
    private struct Count {
        var lowestByte: UInt64 = 0
        var tally = TableTally()
    }

    private let count: UnsafeMutablePointer<Count>

    /// Gives the connection the function; the connection must not outlive what is made here.
    init(_ connection: SQLiteConnection) throws(SQLiteError) {
        count = .allocate(capacity: 1)
        count.initialize(to: Count())
        let code = sqlite3_create_function_v2(
            connection.handle, "departs", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, count,
            { context, _, arguments in
                guard let arguments, let count = sqlite3_user_data(context)?.assumingMemoryBound(to: Count.self) else { return }
                let key = UInt64(bitPattern: sqlite3_value_int64(arguments[0]))
                let departs = key & 0xff == count.pointee.lowestByte
                if departs { count.pointee.tally.add(checksum: UInt64(bitPattern: sqlite3_value_int64(arguments[1]))) }
                sqlite3_result_int(context, departs ? 1 : 0)
            }, nil, nil, nil)
        guard code == SQLITE_OK else {
            count.deallocate()
            throw SQLiteError(connection.handle, code: code)
        }
    }

    deinit { count.deallocate() }

    /// Begins anew, for keys with the lowest byte of this one.
    func begin(like key: UInt64) { count.pointee = Count(lowestByte: key & 0xff) }

    /// What has departed since.
    var tally: TableTally { count.pointee.tally }
}
