internal import BrokerModel
internal import CSQLite
internal import RowStore

/// Writes batches of changes, each time all of them or none, and with them what the store is to hold from then on,
/// unless they are one entry of its tail. Its connection's thread owns it.
final class StoreTransaction {
    /// What the last commit left.
    private(set) var state: StoreState
    /// How many bytes of the database were in use when they were counted: then, or a few changes before.
    private(set) var usedBytes: UInt64 = 0
    /// Whether they are counted with every commit.
    var countsClosely = false
    private var uncountedBytes = 0
    /// The highest key that an entry has had.
    private(set) var lastEntry: Int64
    /// How many commits have not written the state. The first one that is made here does.
    private var tailCount = Limits.tailCountMax
    private let departures: Departures
    private let meta: MetaTable
    /// By the table's index in `StoreTable.allCases`.
    private let writers: [TableWriter]
    private let transaction: RowTransaction
    private let pageCount: PreparedStatement
    private let freePageCount: PreparedStatement

    init(_ connection: SQLiteConnection, state: StoreState) throws(SQLiteError) {
        self.state = state
        try RowSchema.cacheCommits(of: connection)
        let departures = try Departures(connection)
        self.departures = departures
        meta = try MetaTable(connection)
        var writers: [TableWriter] = []
        for table in StoreTable.allCases { writers.append(try TableWriter(connection, table, departures)) }
        self.writers = writers
        transaction = try RowTransaction(connection)
        lastEntry = max(try connection.integer("SELECT max(key) FROM entry"), state.lastEntry)
        pageCount = try connection.prepare("PRAGMA page_count")
        freePageCount = try connection.prepare("PRAGMA freelist_count")
        try countBytes()
    }

    /// Makes the changes of all batches durable. When it throws, none of them is in the store.
    func commit(_ batches: [JournalBatch]) throws(SQLiteError) {
        for batch in batches { uncountedBytes += batch.byteCount }
        if let entry = tailEntry(of: batches) { return try commit(tailEntry: entry) }
        try commit { () throws(SQLiteError) in
            for batch in batches {
                try batch.forEach { record throws(SQLiteError) in try apply(record) }
            }
        }
    }

    /// Commits the changes that `body` makes with `apply`.
    func commit(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        var next = state
        try transact { () throws(SQLiteError) in
            for (index, writer) in writers.enumerated() { writer.tally = state.tallies[index] }
            try body()
            for (index, writer) in writers.enumerated() {
                try writer.flush()
                next.tallies[index] = writer.tally
            }
            next.commitNumber += 1
            next.lastEntry = lastEntry
            try meta.update(.state, next.encoded())
        }
        state = next
        tailCount = 0
    }

    /// The one record of all batches, if it can be the store's tail.
    private func tailEntry(of batches: [JournalBatch]) -> JournalRecord? {
        guard tailCount < Limits.tailCountMax, batches.count == 1, batches[0].liveCount == 1 else { return nil }
        var record: JournalRecord?
        batches[0].forEach { record = $0 }
        guard let record, record.operation == .insert, record.table == .entry, Int64(bitPattern: record.key) > lastEntry else {
            return nil
        }
        return record
    }

    private func commit(tailEntry entry: JournalRecord) throws(SQLiteError) {
        let checksum = RowChecksum.of(entry.body, .entry, key: entry.key)
        try transact { () throws(SQLiteError) in
            try writers[Int(StoreTable.entry.rawValue)].insert(entry.key, entry.body)
            try writers[Int(StoreTable.entry.rawValue)].flush()
        }
        lastEntry = Int64(bitPattern: entry.key)
        state.add(tailEntry: checksum)
        tailCount += 1
    }

    private func transact(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        do throws(SQLiteError) {
            try transaction.run { () throws(SQLiteError) in
                try body()
                // SQLite compiles these anew each time.
                if countsClosely || uncountedBytes >= Limits.uncountedBytesMax { try countBytes() }
            }
        } catch {
            for writer in writers { writer.discard() }
            throw error
        }
    }

    /// Makes one change, inside `commit`. Its body has to stay where it is until the end of the commit, or the next
    /// `flush`.
    func apply(_ record: JournalRecord) throws(SQLiteError) {
        let writer = writers[Int(record.table.rawValue)]
        switch record.operation {
        case .insert:
            if record.table == .entry { lastEntry = max(lastEntry, Int64(bitPattern: record.key)) }
            try writer.insert(record.key, record.body)
        case .update: try writer.update(record.key, record.body)
        case .delete: writer.delete(record.key)
        }
    }

    /// Lets go of the bodies of all changes so far.
    func flush() throws(SQLiteError) {
        for writer in writers { try writer.flush() }
    }

    private func countBytes() throws(SQLiteError) {
        func read(_ statement: PreparedStatement) throws(SQLiteError) -> Int64 {
            defer { statement.reset() }
            return try statement.step() ? statement.integer(0) : 0
        }
        usedBytes = UInt64(clamping: (try read(pageCount) - read(freePageCount)) * RowSchema.pageSize)
        uncountedBytes = 0
    }
}

/// Writes one table's part of a transaction.
///
/// Changes of different keys may change places, and do: rows are inserted eight at a time, which costs 0.7 us a row in
/// place of 1.2; and keys are deleted at the end, in order, neighbours by one statement, which costs 0.7 us in place of
/// 1.0. Changes of one key keep their order. A body has to stay where it is until `flush`.
final class TableWriter {
    private struct Row {
        let key: UInt64
        let checksum: UInt64
        let body: UnsafeRawBufferPointer
    }

    let table: StoreTable
    /// What the table holds once the transaction is committed and nothing waits.
    var tally = TableTally()
    private let connection: SQLiteConnection
    private let departures: Departures
    private let insertion: PreparedStatement
    private let insertions: PreparedStatement
    private let replacement: PreparedStatement
    private let deletion: PreparedStatement
    private let runDeletion: PreparedStatement
    private var arriving: [Row] = []
    private var departing = DepartingKeys()

    init(_ connection: SQLiteConnection, _ table: StoreTable, _ departures: Departures) throws(SQLiteError) {
        self.table = table
        self.connection = connection
        self.departures = departures
        let name = table.name
        let row = "(?, ?, ?)"
        insertion = try connection.prepare("INSERT INTO \(name) VALUES \(row)")
        // FAIL, because a transaction that meets a key twice is rolled back as a whole; ABORT would write down how to
        // undo the statement.
        insertions = try connection.prepare(
            "INSERT OR FAIL INTO \(name) VALUES \([String](repeating: row, count: Limits.rowsAtOnce).joined(separator: ", "))")
        replacement = try connection.prepare(
            "UPDATE \(name) SET checksum = ?2, body = ?3 WHERE key = ?1 AND departs(key, checksum)")
        deletion = try connection.prepare("DELETE FROM \(name) WHERE key = ?1 AND departs(key, checksum)")
        runDeletion = try connection.prepare("DELETE FROM \(name) WHERE key BETWEEN ?1 AND ?2 AND departs(key, checksum)")
    }

    /// Adds a row whose key is new.
    func insert(_ key: UInt64, _ body: UnsafeRawBufferPointer) throws(SQLiteError) {
        if departing.mayHold(key) { try flush() }
        arriving.append(Row(key: key, checksum: RowChecksum.of(body, table, key: key), body: body))
        if arriving.count == Limits.rowsAtOnce { try insertAll() }
    }

    /// Gives a row that is there another body.
    func update(_ key: UInt64, _ body: UnsafeRawBufferPointer) throws(SQLiteError) {
        try flush()
        let checksum = RowChecksum.of(body, table, key: key)
        departures.begin(like: key)
        replacement.bind(key, at: 1)
        replacement.bind(checksum, at: 2)
        replacement.bind(body, at: 3)
        try replacement.run()
        try settleDepartures(isUpdate: true)
        tally.add(checksum: checksum)
    }

    /// Removes a row; one that is not there is none.
    func delete(_ key: UInt64) {
        departing.add(key)
    }

    /// Does what has waited.
    func flush() throws(SQLiteError) {
        if !arriving.isEmpty { try insertAll() }
        if !departing.isEmpty { try deleteAll() }
    }

    /// Forgets what has waited, after a rollback.
    func discard() {
        arriving.removeAll(keepingCapacity: true)
        departing.removeAll()
    }

    private func insertAll() throws(SQLiteError) {
        if arriving.count == Limits.rowsAtOnce {
            for (index, row) in arriving.enumerated() { bind(row, to: insertions, after: Int32(3 * index)) }
            try insertions.run()
        } else {
            for row in arriving {
                bind(row, to: insertion, after: 0)
                try insertion.run()
            }
        }
        for row in arriving { tally.add(checksum: row.checksum) }
        arriving.removeAll(keepingCapacity: true)
    }

    private func bind(_ row: Row, to statement: PreparedStatement, after index: Int32) {
        statement.bind(row.key, at: index + 1)
        statement.bind(row.checksum, at: index + 2)
        statement.bind(row.body, at: index + 3)
    }

    private func deleteAll() throws(SQLiteError) {
        try departing.forEachRun { first, last throws(SQLiteError) in
            departures.begin(like: first)
            if first == last {
                deletion.bind(first, at: 1)
                try deletion.run()
            } else {
                runDeletion.bind(first, at: 1)
                runDeletion.bind(last, at: 2)
                try runDeletion.run()
            }
            try settleDepartures(isUpdate: false)
        }
        departing.removeAll()
    }

    /// Takes what the last statement removed out of the tally.
    private func settleDepartures(isUpdate: Bool) throws(SQLiteError) {
        let departed = departures.tally
        guard Int(departed.count) == connection.changes, !isUpdate || departed.count == 1 else {
            throw SQLiteError(code: 0, message: "a row of \(table.name) that was to change is not there")
        }
        tally.count &-= departed.count
        tally.sum &-= departed.sum
    }
}

/// Keys of one table that are to be deleted, and the runs that they form.
///
/// A key is a number in its upper 56 bits and its shard in the lowest byte, so the keys of one shard's run are 256
/// apart:
///
///     0x0501 0x0502 0x0601 0x0701   the runs 0x0501 to 0x0701 of shard 1, 0x0502 of shard 2
struct DepartingKeys {
    private var keys: [UInt64] = []
    private var highest: UInt64 = 0

    var isEmpty: Bool { keys.isEmpty }

    mutating func add(_ key: UInt64) {
        keys.append(key)
        highest = max(highest, key)
    }

    /// Whether the key could be among them; certain if it is not.
    func mayHold(_ key: UInt64) -> Bool { !keys.isEmpty && key <= highest }

    mutating func removeAll() {
        keys.removeAll(keepingCapacity: true)
        highest = 0
    }

    /// Calls `body` with the first and the last key of each run: all keys with their lowest byte that lie between them
    /// are to be deleted. Two keys form none, since a run costs what two keys do.
    mutating func forEachRun<Failure>(_ body: (UInt64, UInt64) throws(Failure) -> Void) throws(Failure) {
        sort()
        var start = 0
        while start < keys.count {
            var end = start + 1
            while end < keys.count, keys[end] == keys[end - 1] &+ Self.step, Self.followsInSQL(keys[end]) { end += 1 }
            if end - start > 2 {
                try body(keys[start], keys[end - 1])
            } else {
                for key in keys[start..<end] { try body(key, key) }
            }
            start = end
        }
    }

    /// By shard, then by number.
    private mutating func sort() {
        var isSorted = true
        for index in keys.indices.dropFirst() where Self.sortKey(keys[index]) < Self.sortKey(keys[index - 1]) {
            isSorted = false
            break
        }
        if !isSorted { keys.sort { Self.sortKey($0) < Self.sortKey($1) } }
    }

    private static func sortKey(_ key: UInt64) -> UInt64 { key >> 8 | key << 56 }

    /// SQLite's integers are signed: the first of the upper half is less than all of the lower.
    private static func followsInSQL(_ key: UInt64) -> Bool { key >> 8 != 1 << 55 }

    private static let step: UInt64 = 256
}

/// Counts the rows that a statement removes or replaces, through the SQL function `departs(key, checksum)` in its WHERE
/// clause: SQLite has the old row's checksum in its hands there, and reading it beforehand would cost as much again as
/// removing it.
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

/// The bounds of the store that no option sets: each with its unit and what happens beyond it.
enum Limits {
    /// Bytes written before the size of the store is looked at again; near its bound it is looked at for each commit.
    static let uncountedBytesMax = 64 << 10

    /// Commits of one message each that may stand in a row without the store's state beside them. Bytes: 0, they are
    /// counted.
    static let tailCountMax = 63

    /// Rows inserted with one statement.
    static let rowsAtOnce = 8
}
