public import BrokerModel
internal import Glibc
internal import Platform
internal import RowStore

/// The broker's state in one SQLite database, `martlet.db`, with a checksum on every row and a commit record beside it
/// that tells what has to be in it.
///
///     open ─► load ─► start ─► commit, read … ─► close
///
/// Three threads work for it, each with its own connection: one commits, one moves the log into the database, one
/// reads. `commit`, `commitHere`, `tidyUp` and `read` are for any thread, the rest for the one that opened it.
public final class SQLiteStore: InPlaceStore, @unchecked Sendable {
    /// Writes to the broker's log; for any thread.
    public typealias Log = @Sendable (LogTopics, String) -> Void
    /// Tells a shard what came of its batch or its request; called on the store's threads.
    public typealias Report = @Sendable (_ shard: Int, StoreReport) -> Void

    /// Random, and the same as long as the store lives.
    public let seed: UInt64
    /// What could not be saved when the store was repaired.
    public let losses: [StoreDamage]
    private let files: StoreFiles
    private let options: StoreOptions
    private let log: Log
    private let commitRecord: CommitRecord
    private let identity: StoreIdentity
    private let connection: SQLiteConnection
    private let transaction: StoreTransaction
    private var workers: StoreWorkers?

    /// What the database is called if nobody calls it otherwise.
    public static let defaultName = "martlet.db"

    /// Opens the store in a directory, or makes one.
    ///
    /// Throws `damaged` when the files are not what the last commit left, unless it is told to repair them. Records are
    /// checked by `load`.
    ///
    /// - Parameters:
    ///   - directory: where its files are.
    ///   - name: of the database; the other files' names begin with it.
    ///   - options: how it is opened.
    ///   - log: writes to the broker's log.
    public static func open(
        _ directory: String, named name: String = defaultName, options: StoreOptions = StoreOptions(), log: @escaping Log
    ) throws(StoreError) -> SQLiteStore {
        let files = StoreFiles(directory: directory, name: name)
        let commitRecord = try CommitRecord(files.commitRecord)
        let losses = try StoreRecovery(files: files, commitRecord: commitRecord, options: options, log: log).run()
        return try SQLiteStore(files, options, commitRecord, losses, log)
    }

    private init(
        _ files: StoreFiles, _ options: StoreOptions, _ commitRecord: CommitRecord, _ losses: [StoreDamage], _ log: @escaping Log
    ) throws(StoreError) {
        let inspection = try StoreInspection(files, .write, commitRecord: try commitRecord.read())
        guard inspection.damages.isEmpty, let identity = inspection.identity, let state = inspection.state else {
            throw .damaged(path: files.database, StoreSummary(inspection) { _, _, _ in true }.damages)
        }
        inspection.end()
        do throws(SQLiteError) {
            transaction = try StoreTransaction(inspection.connection, state: state)
        } catch {
            throw .sqlite(error)
        }
        connection = inspection.connection
        self.files = files
        self.options = options
        self.commitRecord = commitRecord
        self.losses = losses
        self.log = log
        self.identity = identity
        seed = identity.seed
    }

    /// The store's files that are there in a directory.
    public static func paths(in directory: String) -> [String] {
        let files = StoreFiles(directory: directory)
        return [files.database, files.log, files.commitRecord].filter { SystemCall.status(of: $0) != nil }
    }

    /// Gives every record to `visit`, table by table and by key; what is wrong is given back. If that is anything, the
    /// store must not be started: what was visited is not all of what was acknowledged.
    ///
    /// - Parameter visit: false for a body that means nothing. When the store is being repaired, such records are
    ///   removed.
    public func load(_ visit: (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool) -> [StoreDamage] {
        let damages = StoreLoader(connection, transaction.state, visit).damages
        guard options.repair, !damages.isEmpty else { return damages }
        do throws(SQLiteError) {
            try transaction.commit { () throws(SQLiteError) in
                for damage in damages {
                    guard damage.fault == .meaning, let table = damage.table, let key = damage.key else { continue }
                    try transaction.apply(
                        JournalRecord(.delete, table, key: key, body: UnsafeRawBufferPointer(start: nil, count: 0)))
                }
            }
        } catch {
            return damages + [StoreDamage(file: "\(files.name): removing them failed: \(error)")]
        }
        return damages
    }

    /// The highest key that each table has, or is known to have had; none for a table that has no rows and is not known
    /// to have had any. Before `start`.
    public func highestKeys() throws(StoreError) -> [StoreTable: UInt64] {
        var highest: [StoreTable: UInt64] = [:]
        do throws(SQLiteError) {
            for table in StoreTable.allCases {
                let selection = try connection.prepare("SELECT key FROM \(table.name) ORDER BY key DESC LIMIT 1")
                if try selection.step() { highest[table] = selection.bits(0) }
                selection.reset()
            }
        } catch {
            throw .sqlite(error)
        }
        // Numbers that begin below it again would not make a tail.
        let lastEntry = transaction.lastEntry
        if lastEntry > 0 { highest[.entry] = max(highest[.entry] ?? 0, UInt64(lastEntry)) }
        return highest
    }

    /// Makes a batch durable before the store works, and returns when it is.
    public func commitFirst(_ batch: JournalBatch) throws(StoreError) {
        precondition(workers == nil, "once it works, a store commits by itself")
        do throws(SQLiteError) {
            try transaction.commit([batch])
        } catch {
            throw .sqlite(error)
        }
        _ = commitRecord.write(CommitRecordSlot(seed: identity.seed, commitNumber: transaction.state.commitNumber))
    }

    /// Whether damaged records are removed rather than in the way.
    public var isBeingRepaired: Bool { options.repair }

    /// The error to give up with when `load` has found damage.
    public func refusal(_ damages: [StoreDamage]) -> StoreError { .damaged(path: files.database, damages) }

    /// Lets the store work. Once, after `load`.
    public func start(shards: Int, report: @escaping Report) throws(StoreError) {
        precondition(workers == nil, "a store is started once")
        let checkpointer: Checkpointer
        do throws(SQLiteError) {
            let connection = try SQLiteConnection(files.database, .write)
            try RowSchema.configure(connection)
            checkpointer = Checkpointer(connection, commitRecord)
        } catch {
            throw .sqlite(error)
        }
        let writer = CommitWriter(
            connection, transaction, commitRecord, identity, checkpointer, LogReserve(files.log),
            bytesMax: options.bytesMax ?? .max,
            shards: shards,
            report: report,
            log: log)
        workers = try StoreWorkers(files, writer: writer, checkpointer: checkpointer, report: report, log: log)
    }

    public func commit(_ batch: JournalBatch, of shard: Int) { workers?.commit(batch, of: shard) }

    public func commitHere(_ batch: JournalBatch, of shard: Int) { workers?.commitHere(batch, of: shard) }

    public func tidyUp() { workers?.tidyUp() }

    public var isQuick: Bool { workers?.isQuick ?? false }

    /// Nothing yet before `start`.
    public var figures: StoreFigures { workers?.figures ?? StoreFigures(bytes: 0, rows: 0, commits: 0) }

    public func read(_ request: StoreRequest, for shard: Int) { workers?.read(request, for: shard) }

    /// Commits what waits, and ends; another broker may open the store then. The log is moved into the database, unless
    /// the store has failed or was never started.
    public func close() {
        defer { commitRecord.unlock() }
        guard let workers, workers.stop() else { return }
        connection.setPatience(milliseconds: 0)
        commitRecord.synchronize()
        do throws(SQLiteError) {
            _ = try connection.checkpoint(.truncate)
        } catch {
            if !error.isBusy { log(.warning, "The store's log stays beside it: \(error)") }
        }
    }
}

extension SQLiteStore {
    /// Reads a whole store, at one commit, while a broker may work with it; nothing is changed.
    ///
    /// - Parameters:
    ///   - directory: where the store is.
    ///   - name: of its database.
    ///   - visit: given each record that is right, by table and key; false if it means nothing.
    public static func check(
        _ directory: String, named name: String = defaultName,
        _ visit: (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool = { _, _, _ in true }
    ) throws(StoreError) -> StoreSummary {
        let files = StoreFiles(directory: directory, name: name)
        guard (DiskFile.size(files.database) ?? 0) > 0 else { throw .absent(path: files.database) }
        let inspection = try StoreInspection(files, .read, commitRecord: try CommitRecord.read(files.commitRecord) ?? .empty)
        defer { inspection.end() }
        return StoreSummary(inspection, visit)
    }

    /// Copies a store, as its last commit left it, into a directory that has none, while a broker may work with it. The
    /// directory is made if it is not there.
    ///
    /// Throws `damaged` when what was copied is not whole; the copy is there then all the same.
    ///
    /// - Parameters:
    ///   - directory: where the store is.
    ///   - name: of its database, and of the copy's.
    ///   - target: the copy's directory.
    public static func backup(
        _ directory: String, named name: String = defaultName, to target: String
    ) throws(StoreError) -> StoreSummary {
        try StoreCopy(
            source: StoreFiles(directory: directory, name: name), target: StoreFiles(directory: target, name: name)
        ).make()
    }
}

extension SQLiteStore {
    /// Makes a store that holds a batch's rows from its beginning, in a directory that is made if there is none. A
    /// crash leaves all of the store or none of it.
    ///
    /// Throws `exists` where a store is, or what is left of one.
    ///
    /// - Parameters:
    ///   - directory: where its files are to be.
    ///   - name: of the database.
    ///   - batch: the rows.
    public static func create(
        _ directory: String, named name: String = defaultName, holding batch: JournalBatch
    ) throws(StoreError) {
        let files = StoreFiles(directory: directory, name: name)
        for file in [files.database, files.log] where DiskFile.size(file) != nil { throw .exists(path: file) }
        try DiskFile.createDirectory(directory)
        let commitRecord = try CommitRecord(files.commitRecord)
        switch try commitRecord.read() {
        case .empty: break
        case .slot(let slot) where slot.commitNumber == 0: break
        case .slot, .damaged: throw .exists(path: files.commitRecord)
        }
        let identity = StoreIdentity(seed: RandomBytes.seed(), createdAt: DiskFile.now())
        let draft = StoreDraft(files: files, identity: identity, commitNumber: 0)
        _ = try draft.write { transaction throws(SQLiteError) in try transaction.commit([batch]) }
        // The commit record says 0 until the first broker comes, so that without the database it is no sign of a loss.
        try draft.install(commitRecord, commit: 0)
        try DiskFile.giveToOwner(of: directory, [files.database, files.log, files.commitRecord])
    }
}

extension SQLiteStore {
    /// Whether there is a store with this name in a directory, whole or not.
    public static func exists(in directory: String, named name: String = defaultName) -> Bool {
        access(StoreFiles(directory: directory, name: name).database, F_OK) == 0
    }
}

/// A store that can commit on the calling thread too. When and where to commit is the shell's to choose; the core only
/// hears that it is done.
public protocol InPlaceStore: MessageStore {
    /// As `commit`, and on the calling thread if nobody else commits: a thread less to wake, for whoever may wait for
    /// the disk.
    func commitHere(_ batch: JournalBatch, of shard: Int)
    /// Does what `commitHere` has left for a moment when nobody waits for it: to be called soon after. Waits for the
    /// disk.
    func tidyUp()
    /// Whether `commitHere` takes less than a millisecond these days. For any thread, at once.
    var isQuick: Bool { get }
}

/// How a store is opened.
public struct StoreOptions: Sendable {
    /// Whether to go on with what is intact if it is damaged.
    public var repair: Bool
    /// How many bytes of the database may be in use; nil for as many as the disk has. A store above it is full: it
    /// still takes what the shards have promised already, and what makes room, or there would never be any.
    public var bytesMax: UInt64?

    public init(repair: Bool = false, bytesMax: UInt64? = nil) {
        self.repair = repair
        self.bytesMax = bytesMax
    }
}

/// What a check of a store has found.
public struct StoreSummary: Sendable {
    /// Empty if it is well.
    public let damages: [StoreDamage]
    /// How many records can be read, by the table's index in `StoreTable.allCases`.
    private let counts: [UInt64]
    /// The number of the last commit; nil if it cannot be read.
    public let commitNumber: UInt64?
    /// Milliseconds since 1970; nil if it cannot be read.
    public let createdAt: UInt64?

    init(_ inspection: StoreInspection, _ visit: StoreLoader.Visit) {
        let loader = StoreLoader(inspection.connection, inspection.state, visit)
        damages = inspection.damages + loader.damages
        counts = loader.counts
        commitNumber = inspection.state?.commitNumber
        createdAt = inspection.identity?.createdAt
    }

    /// How many records of a table can be read.
    public func count(of table: StoreTable) -> UInt64 { counts[Int(table.rawValue)] }
}
