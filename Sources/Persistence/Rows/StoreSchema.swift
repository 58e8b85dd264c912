internal import BrokerModel
internal import SQLite

/// The tables as SQLite sees them, and how an older store becomes one of today.
enum StoreSchema {
    /// What `user_version` and the first bytes of the store's state say.
    static let version: UInt32 = 2
    /// "MrtL": what `file` and others tell the store by.
    static let applicationID: Int64 = 0x4D72_744C
    static let pageSize: Int64 = 4096

    /// What makes a store of each version out of one of the version before; 1 out of nothing. The commit that does it writes the state
    /// anew.
    static let migrations: [UInt32: [String]] = [
        1: tables.map { "CREATE TABLE \($0.name) \(columns)" },
        // A state that knows of a tail.
        2: [],
    ]

    /// Every table in the order of its creation, with its root page: as they are made one after another in an empty file, page 1 could
    /// be written again without being read.
    private static let tables: [(name: String, StoreTable?)] =
        [(MetaTable.name, nil)] + StoreTable.allCases.map { ($0.name, $0) }

    private static let columns = "(key INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL)"

    /// Sets what a new file has for good. Before anything is written.
    static func prepare(_ connection: SQLiteConnection) throws(SQLiteError) {
        try connection.execute("PRAGMA page_size = \(pageSize); PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL")
    }

    /// Brings a store of an older version, or an empty file, up to date; inside a transaction.
    static func migrate(_ connection: SQLiteConnection, from found: UInt32) throws(SQLiteError) {
        for step in (found + 1)..<(version + 1) {
            for statement in migrations[step] ?? [] { try connection.execute(statement) }
        }
        try connection.execute("PRAGMA user_version = \(version); PRAGMA application_id = \(applicationID)")
    }

    /// Sets what is a connection's own matter.
    static func configure(_ connection: SQLiteConnection) throws(SQLiteError) {
        // Deleted rows need not be overwritten: whoever reads the file may read what is in it.
        try connection.execute(
            """
            PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;
            PRAGMA cell_size_check = ON
            """)
    }

    /// Whether the file holds exactly the tables of this version.
    static func isRight(_ connection: SQLiteConnection) throws(SQLiteError) -> Bool {
        let found = try connection.texts("SELECT type || ' ' || tbl_name || ' ' || rootpage || ' ' || sql FROM sqlite_schema")
        let expected = tables.enumerated().map { index, table in
            "table \(table.name) \(index + 2) CREATE TABLE \(table.name) \(columns)"
        }
        return found == expected
    }
}
