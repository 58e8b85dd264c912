internal import BrokerModel
internal import Platform
internal import SQLite

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
