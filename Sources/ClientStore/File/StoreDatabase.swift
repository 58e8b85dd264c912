internal import Platform
internal import RowStore

extension RowSchema {
    /// A client's: a table for each of `StoreTable`.
    static let client = RowSchema(
        // "MrtC"
        applicationID: 0x4D72_7443, version: 4, key: .bytes, tables: StoreTable.allCases.map(\.name))
}

/// A store's database: what is done to it, on one thread at a time.
final class StoreDatabase {
    let path: String
    private let connection: SQLiteConnection
    private let transaction: RowTransaction
    private let tables: [TableAccess]
    private let logPages: LogPageCount

    enum Access {
        /// Reads and changes a store; makes one if there is none.
        case change
        case read
    }

    /// - Parameter bytesMax: the size that the database may have; nil for any.
    init(_ path: String, _ access: Access, bytesMax: Int? = nil) throws(StoreError) {
        self.path = path
        do throws(SQLiteError) {
            connection = try SQLiteConnection(path, access == .read ? .read : .write)
            transaction = try RowTransaction(connection)
        } catch {
            throw StoreError(error, path)
        }
        let isNew = try Self.isNew(connection, path)
        if isNew, access == .read { throw .foreign(path) }
        do throws(SQLiteError) {
            if access == .change { try Self.prepare(connection, transaction, isNew: isNew, bytesMax: bytesMax) }
        } catch {
            throw StoreError(error, path)
        }
        logPages = LogPageCount(connection)
        tables = StoreTable.allCases.map { [connection] in TableAccess(connection, $0) }
    }

    /// Whether the file is empty, if it is no store; throws if it is something else, or of another version.
    private static func isNew(_ connection: SQLiteConnection, _ path: String) throws(StoreError) -> Bool {
        let kind: RowSchema.Kind
        do throws(SQLiteError) {
            kind = try RowSchema.client.kind(of: connection)
        } catch {
            throw StoreError(error, path)
        }
        switch kind {
        case .new: return true
        case .foreign: throw .foreign(path)
        case .store(let version) where version > RowSchema.client.version: throw .newer(path)
        case .store(let version) where version < RowSchema.client.version: throw .unreleased(path)
        case .store: return false
        }
    }

    private static func prepare(
        _ connection: SQLiteConnection, _ transaction: RowTransaction, isNew: Bool, bytesMax: Int?
    ) throws(SQLiteError) {
        if isNew { try RowSchema.prepare(connection) }
        try RowSchema.configure(connection)
        try RowSchema.cacheCommits(of: connection)
        if isNew { try transaction.run { () throws(SQLiteError) in try RowSchema.client.create(in: connection) } }
        if let bytesMax { try connection.execute("PRAGMA max_page_count = \(max(1, bytesMax / Int(RowSchema.pageSize)))") }
    }

    /// Makes the changes of all batches durable, or of none when it throws.
    func commit(_ batches: some Sequence<StoreBatch>) throws(StoreError) {
        do throws(SQLiteError) {
            try transaction.run { () throws(SQLiteError) in
                for batch in batches {
                    for change in batch.changes { try apply(change) }
                }
            }
        } catch {
            throw StoreError(error, path)
        }
    }

    func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].rows(query)
        } catch {
            throw StoreError(error, path)
        }
    }

    func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        do throws(SQLiteError) {
            return try tables[Int(query.table.rawValue)].measure(query)
        } catch {
            throw StoreError(error, path)
        }
    }

    /// Moves the log into the database when it has become long, as far as no reader is in the way.
    func tidyUp() { if logPages.value > Limits.logPagesMax { moveLog(.passive) } }

    /// Moves all of the log. Without it nothing is lost: the next who opens the store reads the log.
    func moveAll() {
        connection.setPatience(milliseconds: 0)
        moveLog(.truncate)
    }

    private func moveLog(_ mode: SQLiteConnection.Checkpoint) { _ = try? connection.checkpoint(mode) }

    /// A number that changes when another connection has changed the store.
    func version() throws(StoreError) -> Int64 {
        do throws(SQLiteError) {
            return try connection.integer("PRAGMA data_version")
        } catch {
            throw StoreError(error, path)
        }
    }

    private func apply(_ change: StoreChange) throws(SQLiteError) {
        switch change {
        case .put(let table, let key, let body): try tables[Int(table.rawValue)].put(key, body)
        case .remove(let table, let key): try tables[Int(table.rawValue)].remove(key)
        case .removeRange(let table, let from, let to): try tables[Int(table.rawValue)].removeRange(from, to)
        }
    }
}

extension StoreError {
    /// What SQLite's refusal means for a store.
    fileprivate init(_ error: SQLiteError, _ path: String) {
        self = error.isFull ? .noRoom(path) : error.isDamage ? .damaged(path, "\(error)") : .failed(path, "\(error)")
    }
}

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

/// Reads a client's store beside the client, in its process or another.
///
/// Each reading sees what one commit left. Whoever wants to be woken watches ``watchedPath``, whose times change after
/// a commit that changes entries, and compares ``version()``.
public final class StoreReader: Sendable {
    private let database: Locked<StoreDatabase>
    /// The file whose times change (`IN_ATTRIB`) after a commit that changes entries.
    public let watchedPath: String

    /// Throws `failed` if there is no store yet.
    public init(_ path: String) throws(StoreError) {
        database = Locked(try StoreDatabase(path, .read))
        watchedPath = path + "-lock"
    }

    /// A number that changes with every commit of the client. Asking for it reads a page at most.
    public func version() throws(StoreError) -> Int64 {
        try database.withLock { database throws(StoreError) in try database.version() }
    }

    public func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        try database.withLock { database throws(StoreError) in try database.rows(query) }
    }
}

extension Limits {
    /// Pages of the log after which it is moved into the database, behind a commit.
    static let logPagesMax = 2000
}
