internal import BrokerModel
internal import SQLite

/// Writes batches of changes, each time all of them or none, and with them what the store is to hold from then on, unless they are one
/// entry of its tail. Its connection's thread owns it.
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
    /// What the file has, until the first commit brings it up to date.
    private var version: UInt32
    private let connection: SQLiteConnection
    private let departures: Departures
    private let meta: MetaTable
    /// By the table's place in `StoreTable.allCases`.
    private let writers: [TableWriter]
    private let beginning: PreparedStatement
    private let commitment: PreparedStatement
    private let pageCount: PreparedStatement
    private let freePageCount: PreparedStatement

    init(_ connection: SQLiteConnection, state: StoreState, version: UInt32 = StoreSchema.version) throws(SQLiteError) {
        self.connection = connection
        self.state = state
        self.version = version
        // What a batch changes fits in: SQLite would write it to the log twice otherwise, before the commit and with it.
        try connection.execute("PRAGMA cache_size = -8000")
        let departures = try Departures(connection)
        self.departures = departures
        meta = try MetaTable(connection)
        var writers: [TableWriter] = []
        for table in StoreTable.allCases { writers.append(try TableWriter(connection, table, departures)) }
        self.writers = writers
        beginning = try connection.prepare("BEGIN IMMEDIATE")
        commitment = try connection.prepare("COMMIT")
        lastEntry = try connection.integer("SELECT max(key) FROM entry")
        if version > 1 { lastEntry = max(lastEntry, state.lastEntry) }
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

    /// The same, for changes that `body` makes with `apply`.
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
            if version < StoreSchema.version { try StoreSchema.migrate(connection, from: version) }
            try meta.update(.state, next.encoded())
        }
        state = next
        version = StoreSchema.version
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
            try beginning.run()
            try body()
            // SQLite compiles these anew each time.
            if countsClosely || uncountedBytes >= Limits.uncountedBytesMax { try countBytes() }
            try commitment.run()
        } catch {
            for writer in writers { writer.discard() }
            // SQLite may have rolled back by itself. If this fails too, the next transaction cannot begin, and says so.
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw error
        }
    }

    /// Makes one change, inside `commit`. Its body has to stay where it is until the end of the commit, or the next `flush`.
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
        usedBytes = UInt64(clamping: (try read(pageCount) - read(freePageCount)) * StoreSchema.pageSize)
        uncountedBytes = 0
    }
}
