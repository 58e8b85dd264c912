internal import RowStore

/// The statements of one table. Its connection's thread owns it.
final class TableAccess {
    private let table: StoreTable
    private let connection: SQLiteConnection
    // Prepared when they are needed.
    private var statements: [String: PreparedStatement] = [:]
    private var upsertion: PreparedStatement?
    private var deletion: PreparedStatement?

    init(_ connection: SQLiteConnection, _ table: StoreTable) { (self.connection, self.table) = (connection, table) }

    func put(_ key: StoreKey, _ body: [UInt8]) throws(SQLiteError) {
        let statement = try prepared(
            &upsertion,
            "INSERT INTO \(table.name) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET checksum = excluded.checksum, body = excluded.body"
        )
        let outcome = key.bytes.withUnsafeBytes { key in
            body.withUnsafeBytes { body in
                Result { () throws(SQLiteError) in
                    statement.bind(key, at: 1)
                    statement.bind(RowChecksum.of(table, key: key, body: body), at: 2)
                    statement.bind(body, at: 3)
                    try statement.run()
                }
            }
        }
        try outcome.get()
    }

    func remove(_ key: StoreKey) throws(SQLiteError) {
        let statement = try prepared(&deletion, "DELETE FROM \(table.name) WHERE key = ?1")
        let outcome = key.bytes.withUnsafeBytes { key in
            Result { () throws(SQLiteError) in
                statement.bind(key, at: 1)
                try statement.run()
            }
        }
        try outcome.get()
    }

    func removeRange(_ from: StoreKey, _ to: StoreKey?) throws(SQLiteError) {
        try run("DELETE FROM \(table.name)", from, to) { statement throws(SQLiteError) in try statement.run() }
    }

    func rows(_ query: StoreQuery) throws(SQLiteError) -> StoreRows {
        var answer = StoreRows()
        try run(
            "SELECT key, checksum, body FROM \(table.name)", query.from, query.to,
            "ORDER BY key\(query.isDescending ? " DESC" : "") LIMIT ?3"
        ) { statement throws(SQLiteError) in
            statement.bind(Int64(query.limit), at: 3)
            while try statement.step() {
                let key = StoreKey(bytes: statement.content(0) ?? [])
                guard let body = statement.bytes(2),
                    key.bytes.withUnsafeBytes({ RowChecksum.of(table, key: $0, body: body) }) == statement.bits(1)
                else {
                    answer.damages.append(StoreDamage(table, key))
                    continue
                }
                answer.rows.append(StoreRow(key, Array(body)))
            }
        }
        return answer
    }

    func measure(_ query: StoreQuery) throws(SQLiteError) -> StoreMeasure {
        var measure = StoreMeasure(rows: 0, bytes: 0)
        let columns = "count(*), sum(length(body)), min(substr(body, 1, 8))"
        try run("SELECT \(columns) FROM \(table.name)", query.from, query.to) { statement throws(SQLiteError) in
            guard try statement.step() else { return }
            measure = StoreMeasure(
                rows: Int(statement.integer(0)), bytes: Int(statement.integer(1)),
                leastHead: statement.bytes(2).map(StoreMeasure.head))
        }
        return measure
    }

    /// Runs a statement on a range of keys.
    private func run(
        _ start: String, _ from: StoreKey, _ to: StoreKey?, _ end: String = "",
        _ body: (PreparedStatement) throws(SQLiteError) -> Void
    ) throws(SQLiteError) {
        let sql = "\(start) WHERE key >= ?1 \(to == nil ? "" : "AND key < ?2") \(end)"
        let statement: PreparedStatement
        if let known = statements[sql] { statement = known } else { statement = try connection.prepare(sql) }
        statements[sql] = statement
        defer { statement.reset() }
        let outcome = from.bytes.withUnsafeBytes { from in
            (to?.bytes ?? []).withUnsafeBytes { end in
                Result { () throws(SQLiteError) in
                    statement.bind(from, at: 1)
                    if to != nil { statement.bind(end, at: 2) }
                    try body(statement)
                }
            }
        }
        try outcome.get()
    }

    private func prepared(
        _ statement: inout PreparedStatement?, _ sql: @autoclosure () -> String
    ) throws(SQLiteError) -> PreparedStatement {
        if let statement { return statement }
        let new = try connection.prepare(sql())
        statement = new
        return new
    }
}

extension RowChecksum {
    static func of(_ table: StoreTable, key: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer) -> UInt64 {
        of(body, tableNumber: table.rawValue, key: key)
    }
}
