internal import CXXHash

/// The tables of a store as SQLite sees them: each has rows of a key, a checksum and a body.
package struct RowSchema: Sendable {
    /// What the keys of all its tables are.
    package enum Key: Sendable {
        /// Signed numbers of 64 bits.
        case number
        /// Bytes, in their own order.
        case bytes
    }

    /// What a file is.
    package enum Kind: Equatable, Sendable {
        /// An empty one.
        case new
        /// A store, of this version or another.
        case store(version: UInt32)
        /// Something else.
        case foreign
    }

    /// What `file` and others tell the store by: SQLite's `application_id`.
    package let applicationID: Int64
    /// What `user_version` says. A store of another version is not read.
    package let version: UInt32
    private let key: Key
    private let tables: [String]

    /// Bytes of a page.
    package static let pageSize: Int64 = 4096

    /// - Parameters:
    ///   - applicationID: the four letters that name the kind of store.
    ///   - version: grows with each change of the tables or of what their rows mean.
    ///   - key: what the rows' keys are.
    ///   - tables: their names, in the order in which they are made.
    package init(applicationID: Int64, version: UInt32, key: Key, tables: [String]) {
        (self.applicationID, self.version, self.key, self.tables) = (applicationID, version, key, tables)
    }

    /// Sets what a new file has for good. Before anything is written.
    package static func prepare(_ connection: SQLiteConnection) throws(SQLiteError) {
        try connection.execute("PRAGMA page_size = \(pageSize); PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL")
    }

    /// Sets what is a connection's own matter.
    package static func configure(_ connection: SQLiteConnection) throws(SQLiteError) {
        // What is deleted need not be overwritten: whoever reads the file may read what is in it.
        try connection.execute(
            """
            PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;
            PRAGMA cell_size_check = ON
            """)
    }

    /// Makes room in memory for the pages that one commit changes: SQLite would write them to the log twice otherwise,
    /// before the commit and with it.
    package static func cacheCommits(of connection: SQLiteConnection) throws(SQLiteError) {
        try connection.execute("PRAGMA cache_size = -8000")
    }

    /// Makes the tables in an empty file, inside a transaction.
    package func create(in connection: SQLiteConnection) throws(SQLiteError) {
        for table in tables { try connection.execute(statement(for: table)) }
        try connection.execute("PRAGMA user_version = \(version); PRAGMA application_id = \(applicationID)")
    }

    /// What the file is, by what it says of itself.
    package func kind(of connection: SQLiteConnection) throws(SQLiteError) -> Kind {
        let application = try connection.integer("PRAGMA application_id")
        let version = try connection.integer("PRAGMA user_version")
        if application == applicationID, version != 0 { return .store(version: UInt32(truncatingIfNeeded: version)) }
        let tables = try connection.integer("SELECT count(*) FROM sqlite_schema")
        return version == 0 && tables == 0 && (application == 0 || application == applicationID) ? .new : .foreign
    }

    /// Whether the file holds exactly these tables. As they are made one after another in an empty file, the root page
    /// of each is known, and page 1 could be written again without being read.
    package func isRight(in connection: SQLiteConnection) throws(SQLiteError) -> Bool {
        let found = try connection.texts("SELECT type || ' ' || tbl_name || ' ' || rootpage || ' ' || sql FROM sqlite_schema")
        return found == tables.enumerated().map { index, table in "table \(table) \(index + 2) \(statement(for: table))" }
    }

    private func statement(for table: String) -> String {
        switch key {
        case .number: "CREATE TABLE \(table) (key INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL)"
        case .bytes:
            "CREATE TABLE \(table) (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID"
        }
    }
}

/// The checksum of a row: XXH3 over its body, begun with its table and key, so that a right body in a wrong place is
/// found as well.
package enum RowChecksum {
    /// Of a row whose key is a number.
    package static func of(_ body: UnsafeRawBufferPointer, tableNumber: UInt8, key: UInt64) -> UInt64 {
        hash(body, seed: key &+ UInt64(tableNumber) &* 0x9E37_79B9_7F4A_7C15)
    }

    /// Of a row whose key is bytes.
    package static func of(_ body: UnsafeRawBufferPointer, tableNumber: UInt8, key: UnsafeRawBufferPointer) -> UInt64 {
        hash(body, seed: hash(key, seed: UInt64(tableNumber)))
    }

    /// XXH3 over bytes, begun with a number.
    package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        xxhash_checksum(bytes.baseAddress, bytes.count, seed)
    }
}
