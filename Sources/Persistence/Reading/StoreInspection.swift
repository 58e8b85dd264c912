internal import BrokerModel
internal import CSQLite
internal import Platform
internal import RowStore

/// Looks at a store as a whole: whether its files, its schema and its state are what they should be. Its rows are
/// `StoreLoader`'s.
///
/// The connection stays in a read transaction until `end`, so that all is seen at one commit, though a broker works on.
final class StoreInspection {
    let connection: SQLiteConnection
    private(set) var identity: StoreIdentity?
    /// With the store's tail.
    private(set) var state: StoreState?
    /// The version of whoever wrote it.
    private var version: UInt32?
    private(set) var damages: [StoreDamage] = []
    /// How many commits the commit record knows of and the database does not.
    private(set) var missingCommits: UInt64 = 0
    private let files: StoreFiles

    /// - Parameter commitRecord: as it was read before the database is, which may only be ahead of it.
    init(_ files: StoreFiles, _ access: SQLiteConnection.Access, commitRecord: CommitRecord.Contents) throws(StoreError) {
        self.files = files
        do throws(SQLiteError) {
            connection = try SQLiteConnection(files.database, access)
        } catch {
            throw .sqlite(error)
        }
        try attempt { () throws(SQLiteError) in
            try RowSchema.configure(connection)
            try connection.execute("BEGIN")
            try inspectHeader()
        }
        try attempt { () throws(SQLiteError) in try inspectMeta() }
        if let version, version != RowSchema.broker.version { throw .otherVersion(path: files.database, version: version) }
        try attempt { () throws(SQLiteError) in try inspectVersion() }
        try attempt { () throws(SQLiteError) in try addTail() }
        if access == .write { try attempt { () throws(SQLiteError) in try inspectWriting() } }
        compare(with: commitRecord)
        try attempt { () throws(SQLiteError) in try inspectStructure() }
    }

    /// Lets the store go on beside.
    func end() {
        if connection.isInTransaction { try? connection.execute("COMMIT") }
    }

    private func complain(_ text: String) { damages.append(StoreDamage(file: "\(files.name)\(text)")) }

    /// Runs a part; damage that stops it is one more finding, any other error is thrown.
    @discardableResult
    private func attempt<Answer>(_ body: () throws(SQLiteError) -> Answer) throws(StoreError) -> Answer? {
        do throws(SQLiteError) {
            return try body()
        } catch {
            guard error.isDamage else { throw .sqlite(error) }
            complain(": \(error)")
            return nil
        }
    }

    private func inspectHeader() throws(SQLiteError) {
        if try !RowSchema.broker.isRight(in: connection) { complain(": the tables are not those of a store") }
        let values: [(String, Int64)] = [
            ("page_size", RowSchema.pageSize), ("auto_vacuum", 0), ("application_id", RowSchema.broker.applicationID),
        ]
        for (name, expected) in values {
            let found = try connection.integer("PRAGMA \(name)")
            if found != expected { complain(": its \(name) is \(found) in place of \(expected)") }
        }
        for (name, expected) in [("journal_mode", "wal"), ("encoding", "UTF-8")] {
            let found = try connection.texts("PRAGMA \(name)").first ?? ""
            if found != expected { complain(": its \(name) is \(found) in place of \(expected)") }
        }
        if sqlite_reserved_bytes(connection.handle) != 0 { complain(": its pages are not used in full") }
    }

    /// Reads what the store knows of itself.
    private func inspectMeta() throws(SQLiteError) {
        let meta = try MetaTable(connection)
        version = try meta.read(.state) { StoreState.version(of: $0) }
        state = try meta.read(.state) { StoreState(decoding: $0) }
        identity = try meta.read(.identity) { StoreIdentity(decoding: $0) }
        if state == nil { complain(": the record of how much it holds is damaged; it cannot be said what is missing") }
        if identity == nil { complain(": the record of which store it is is damaged") }
    }

    private func inspectVersion() throws(SQLiteError) {
        let found = try connection.integer("PRAGMA user_version")
        let expected = Int64(RowSchema.broker.version)
        if found != expected { complain(": its user_version is \(found) in place of \(expected)") }
    }

    /// Takes in the entries that were committed after the state was written.
    private func addTail() throws(SQLiteError) {
        guard let last = state?.lastEntry else { return }
        let tail = try connection.prepare("SELECT checksum FROM entry WHERE key > ?1")
        tail.bind(last, at: 1)
        while try tail.step() { state?.add(tailEntry: tail.bits(0)) }
    }

    /// A damaged header can forbid every change, and nothing else tells of it.
    private func inspectWriting() throws(SQLiteError) {
        guard sqlite3_db_readonly(connection.handle, "main") == 1 else { return }
        guard DiskFile.isWritable(files.database) else {
            throw SQLiteError(code: SQLITE_READONLY, message: "\(files.database) cannot be written to")
        }
        complain(": its header forbids changes")
    }

    private func compare(with commitRecord: CommitRecord.Contents) {
        switch commitRecord {
        case .empty: complain("-mark is missing; it cannot be said what the disk has lost")
        case .damaged: complain("-mark is damaged; it cannot be said what the disk has lost")
        case .slot(let slot):
            if let identity, identity.seed != slot.seed { complain("-mark belongs to another store") }
            guard let state, state.commitNumber < slot.commitNumber else { return }
            missingCommits = slot.commitNumber - state.commitNumber
            let commits = missingCommits == 1 ? "commit is" : "\(missingCommits) commits are"
            complain(": the last \(commits) missing, with what was acknowledged for them")
        }
    }

    private func inspectStructure() throws(SQLiteError) {
        for finding in try connection.texts("PRAGMA quick_check(20)") where finding != "ok" {
            complain(": \(finding.split(separator: "\n").joined(separator: "; "))")
        }
    }
}

/// Reads every row of a store, and compares what it finds with what the last commit left.
struct StoreLoader {
    /// A row's table, key and body; false if it has no meaning.
    typealias Visit = (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool

    private(set) var damages: [StoreDamage] = []
    /// How many rows are right, by the table's index in `StoreTable.allCases`.
    private(set) var counts = [UInt64](repeating: 0, count: StoreTable.allCases.count)

    /// - Parameter state: nil if it cannot be read, and nothing to compare with.
    init(_ connection: SQLiteConnection, _ state: StoreState?, _ visit: Visit) {
        for table in StoreTable.inOrderOfRecovery {
            let place = Int(table.rawValue)
            do throws(SQLiteError) {
                var scan = try TableScan(connection, table)
                scan.run { key, body in visit(table, key, body) }
                damages += scan.damages
                counts[place] = scan.tally.count
                if let state { compare(scan, with: state.tallies[place], table) }
            } catch {
                damages.append(StoreDamage(table, .unreadable(error)))
            }
        }
    }

    private mutating func compare(_ scan: TableScan, with expected: TableTally, _ table: StoreTable) {
        let found = scan.tally.count + scan.damagedCount
        if found < expected.count {
            damages.append(StoreDamage(table, .missing(expected.count - found)))
        } else if scan.damagedCount == 0 ? scan.tally != expected : found > expected.count {
            damages.append(StoreDamage(table, .content))
        }
    }
}

/// Reads all rows of one table, in the order of their keys; where pages cannot be read, whatever lies around them.
///
///     ──up──► ✗ … gap … ✗ ◄──down──         then from the middle of the gap both ways, and so on in what is left of it
///
/// A key is never visited twice, whatever the pages say: within a range the keys have to rise, or to fall.
struct TableScan {
    typealias Visit = (_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool

    private enum Direction { case up, down }

    /// The rows that were read and are right.
    private(set) var tally = TableTally()
    /// Rows whose checksum is wrong.
    private(set) var damagedCount: UInt64 = 0
    private(set) var damages: [StoreDamage] = []
    private let table: StoreTable
    private let rising: PreparedStatement
    private let falling: PreparedStatement
    private var failure: SQLiteError?

    init(_ connection: SQLiteConnection, _ table: StoreTable) throws(SQLiteError) {
        self.table = table
        let selection = "SELECT key, checksum, body FROM \(table.name) WHERE key BETWEEN ?1 AND ?2 ORDER BY key"
        rising = try connection.prepare(selection)
        falling = try connection.prepare("\(selection) DESC")
    }

    /// Calls `visit` with each row that is right; a row for which it returns false has no meaning to the core.
    mutating func run(_ visit: Visit) {
        // SQLite's integers are signed: the upper half of the keys comes first there.
        for half in [0...UInt64(Int64.max), UInt64(bitPattern: .min)...UInt64.max] { readHalf(half, visit) }
        if let failure { damages.append(StoreDamage(table, .unreadable(failure))) }
    }

    private mutating func readHalf(_ half: ClosedRange<UInt64>, _ visit: Visit) {
        guard let low = read(half, .up, visit) else { return }
        guard let high = read(low...half.upperBound, .down, visit) else { return }
        var gaps = [(low, high)]
        var probesLeft = Limits.probesMax
        while probesLeft > 0, !gaps.isEmpty {
            let (low, high) = gaps.removeFirst()
            guard low < high else { continue }
            probesLeft -= 1
            let middle = low + (high - low) / 2
            if let end = read(low...middle, .down, visit) { gaps.append((low, min(end, middle))) }
            if middle < high, let start = read((middle + 1)...high, .up, visit) { gaps.append((max(start, middle + 1), high)) }
        }
    }

    /// Reads a range from one of its ends; the first key that was not reached if the pages let it come no further, else
    /// nil.
    private mutating func read(_ range: ClosedRange<UInt64>, _ direction: Direction, _ visit: Visit) -> UInt64? {
        let selection = direction == .up ? rising : falling
        defer { selection.reset() }
        selection.bind(range.lowerBound, at: 1)
        selection.bind(range.upperBound, at: 2)
        var next = direction == .up ? range.lowerBound : range.upperBound
        do throws(SQLiteError) {
            while try selection.step() {
                let key = selection.bits(0)
                guard range.contains(key), direction == .up ? key >= next : key <= next else {
                    throw SQLiteError(code: SQLITE_CORRUPT, message: "keys out of order")
                }
                receive(selection, key, visit)
                if key == (direction == .up ? range.upperBound : range.lowerBound) { return nil }
                next = direction == .up ? key + 1 : key - 1
            }
            return nil
        } catch {
            failure = failure ?? error
            return next
        }
    }

    private mutating func receive(_ selection: PreparedStatement, _ key: UInt64, _ visit: Visit) {
        guard let body = selection.bytes(2), RowChecksum.of(body, table, key: key) == selection.bits(1) else {
            damagedCount += 1
            damages.append(StoreDamage(table, key: key, .checksum))
            return
        }
        tally.add(checksum: selection.bits(1))
        if !visit(key, body) { damages.append(StoreDamage(table, key: key, .meaning)) }
    }
}

/// The thread that reads rows for the shards.
final class RowReader: @unchecked Sendable {
    private struct Message: Sendable {
        let request: StoreRequest
        let shard: Int
    }

    private let monitor = Monitor()
    // Under the monitor.
    private var arrived: [Message] = []
    private var isClosing = false
    // The thread's own.
    private let selections: [PreparedStatement]
    private let beginning: PreparedStatement
    private let end: PreparedStatement
    private let connection: SQLiteConnection
    private let report: @Sendable (_ shard: Int, StoreReport) -> Void
    private let log: SQLiteStore.Log

    init(
        _ connection: SQLiteConnection, report: @escaping @Sendable (_ shard: Int, StoreReport) -> Void,
        log: @escaping SQLiteStore.Log
    ) throws(SQLiteError) {
        var selections: [PreparedStatement] = []
        for table in StoreTable.allCases {
            selections.append(try connection.prepare("SELECT checksum, body FROM \(table.name) WHERE key = ?1"))
        }
        self.selections = selections
        beginning = try connection.prepare("BEGIN")
        end = try connection.prepare("ROLLBACK")
        self.connection = connection
        self.report = report
        self.log = log
    }

    /// Answers a request later. For any thread.
    func add(_ request: StoreRequest, of shard: Int) {
        monitor.withLock {
            if isClosing { return }
            arrived.append(Message(request: request, shard: shard))
            if arrived.count == 1 { monitor.signal() }
        }
    }

    /// Lets the thread end; what waits is not answered.
    func finish() {
        monitor.withLock {
            isClosing = true
            monitor.signal()
        }
    }

    /// The thread's work, until `finish`.
    func run() {
        while let messages = takeArrived() {
            for message in messages {
                let bodies = read(message.request.rows)
                report(message.shard, .rows(StoreRows(answering: message.request, bodies: bodies)))
            }
        }
    }

    private func takeArrived() -> [Message]? {
        monitor.withLock {
            while arrived.isEmpty, !isClosing { monitor.wait() }
            if isClosing { return nil }
            defer { arrived = [] }
            return arrived
        }
    }

    /// In one transaction: a lock for each row costs more than the row.
    private func read(_ rows: [StoreRequest.Row]) -> [[UInt8]?] {
        guard rows.count > 1 else { return rows.map { read($0) } }
        // Whatever becomes of these two: a transaction that stayed open would not show what is written later.
        try? beginning.run()
        defer { try? end.run() }
        return rows.map { read($0) }
    }

    private func read(_ row: StoreRequest.Row) -> [UInt8]? {
        let selection = selections[Int(row.table.rawValue)]
        selection.bind(row.key, at: 1)
        defer { selection.reset() }
        do throws(SQLiteError) {
            guard try selection.step() else {
                log(.error, "The store: \(row.table.name) \(row.key) is missing")
                return nil
            }
        } catch {
            log(.error, "The store: \(row.table.name) \(row.key) cannot be read: \(error)")
            return nil
        }
        guard let body = selection.bytes(1), RowChecksum.of(body, row.table, key: row.key) == selection.bits(0) else {
            log(.error, "The store: \(StoreDamage(row.table, key: row.key, .checksum))")
            return nil
        }
        return Array(body)
    }
}

extension Limits {
    /// Places at which a damaged table is tried again; what lies between two of them that fail is given up, and told.
    static let probesMax = 512
}
