internal import SQLite

/// The tables as SQLite sees them, and how an older store becomes one of today.
enum StoreSchema {
    /// What `user_version` says.
    static let version: Int64 = 2
    /// "MrtC": what `file` and others tell the store by.
    static let applicationID: Int64 = 0x4D72_7443

    /// What makes a store of each version out of one of the version before; 1 out of an empty file.
    private static let migrations: [Int64: [String]] = [
        1: tables(since: 1), 2: tables(since: 2),
    ]

    private static func tables(since version: Int64) -> [String] {
        StoreTable.allCases.filter { $0.since == version }.map {
            "CREATE TABLE \($0.name) (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID"
        }
    }

    /// Sets what is a connection's own matter.
    static func configure(_ connection: SQLiteConnection) throws(SQLiteError) {
        // What is deleted need not be overwritten: whoever reads the file may read what is in it.
        try connection.execute(
            """
            PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;
            PRAGMA cell_size_check = ON; PRAGMA cache_size = -8000
            """)
    }

    /// Sets what a new file has for good.
    static func prepare(_ connection: SQLiteConnection) throws(SQLiteError) {
        try connection.execute("PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL")
    }

    /// What the file is: a version, 0 for a new one; nil if it is something else.
    static func version(_ connection: SQLiteConnection) throws(SQLiteError) -> Int64? {
        let application = try connection.integer("PRAGMA application_id")
        let version = try connection.integer("PRAGMA user_version")
        if application == applicationID { return version }
        let tables = try connection.integer("SELECT count(*) FROM sqlite_schema")
        return application == 0 && version == 0 && tables == 0 ? 0 : nil
    }

    /// Brings an older store, or an empty file, up to date: all of it or nothing.
    static func migrate(_ connection: SQLiteConnection, from found: Int64) throws(SQLiteError) {
        guard found < version else { return }
        try connection.execute("BEGIN IMMEDIATE")
        for step in (found + 1)...version {
            for statement in migrations[step] ?? [] { try connection.execute(statement) }
        }
        try connection.execute("PRAGMA application_id = \(applicationID); PRAGMA user_version = \(version); COMMIT")
    }
}
