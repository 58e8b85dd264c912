/// Makes changes durable, all of them or none. Its connection's thread owns it.
package final class RowTransaction {
    private let connection: SQLiteConnection
    private let beginning: PreparedStatement
    private let commitment: PreparedStatement

    package init(_ connection: SQLiteConnection) throws(SQLiteError) {
        self.connection = connection
        beginning = try connection.prepare("BEGIN IMMEDIATE")
        commitment = try connection.prepare("COMMIT")
    }

    /// Runs `body` in a transaction. When it throws, or the commit does, nothing is changed.
    package func run(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        do throws(SQLiteError) {
            try beginning.run()
            try body()
            try commitment.run()
        } catch {
            // SQLite may have rolled back by itself. If this fails too, the next transaction cannot begin, and says so.
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw error
        }
    }
}

/// How many pages SQLite's log has, as the last commit of a connection left it. Its connection's thread owns it, and
/// there is one for a connection at a time.
package final class LogPageCount {
    private let connection: SQLiteConnection
    private let pages: UnsafeMutablePointer<Int>

    package init(_ connection: SQLiteConnection) {
        self.connection = connection
        pages = .allocate(capacity: 1)
        pages.initialize(to: 0)
        connection.countLogPages(in: pages)
    }

    deinit {
        connection.countLogPages(in: nil)
        pages.deallocate()
    }

    /// 0 before the first commit.
    package var value: Int { pages.pointee }
}
