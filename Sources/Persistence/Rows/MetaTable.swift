internal import SQLite

/// The table `meta`: what the store knows of itself, in rows of the same kind as all others.
struct MetaTable {
    enum Row: UInt64 {
        /// A `StoreState`.
        case state = 1
        /// A `StoreIdentity`.
        case identity
    }

    static let name = "meta"
    /// No `StoreTable` has it.
    static let number: UInt8 = .max

    private let insertion: PreparedStatement
    private let update: PreparedStatement
    private let selection: PreparedStatement

    init(_ connection: SQLiteConnection) throws(SQLiteError) {
        insertion = try connection.prepare("INSERT INTO meta VALUES (?1, ?2, ?3)")
        update = try connection.prepare("UPDATE meta SET checksum = ?2, body = ?3 WHERE key = ?1")
        selection = try connection.prepare("SELECT checksum, body FROM meta WHERE key = ?1")
    }

    func insert(_ row: Row, _ body: [UInt8]) throws(SQLiteError) { try run(insertion, row, body) }

    func update(_ row: Row, _ body: [UInt8]) throws(SQLiteError) { try run(update, row, body) }

    /// Hands the row's body to `decode` if it is there and its checksum is right.
    func read<Value>(_ row: Row, _ decode: (UnsafeRawBufferPointer) -> Value?) throws(SQLiteError) -> Value? {
        selection.bind(row.rawValue, at: 1)
        defer { selection.reset() }
        guard try selection.step(), let body = selection.bytes(1),
            RowChecksum.of(body, tableNumber: Self.number, key: row.rawValue) == selection.bits(0)
        else { return nil }
        return decode(body)
    }

    private func run(_ statement: PreparedStatement, _ row: Row, _ body: [UInt8]) throws(SQLiteError) {
        var outcome: Result<Void, SQLiteError> = .success(())
        body.withUnsafeBytes { bytes in
            statement.bind(row.rawValue, at: 1)
            statement.bind(RowChecksum.of(bytes, tableNumber: Self.number, key: row.rawValue), at: 2)
            statement.bind(bytes, at: 3)
            outcome = Result { () throws(SQLiteError) in try statement.run() }
        }
        try outcome.get()
    }
}
