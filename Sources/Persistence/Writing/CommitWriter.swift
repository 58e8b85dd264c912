internal import BrokerModel
internal import Platform
internal import RowStore
internal import Synchronization

/// The thread that commits. It takes all batches that wait, from all shards, into one transaction, and tells the shards
/// when it is on the disk; the next ones gather meanwhile. So the sync itself is the time in which batches gather, and
/// there is no timer.
///
/// Another thread may commit in its place, one batch while nothing else waits (`commitHere`): a lone publisher then
/// waits for the disk, and for no thread to wake.
///
///     running ──no room──► held ──there is room──► running          held: tried again when a batch comes, twice a second at least
///        └──any other error──► failed                               failed: nothing is taken any more
final class CommitWriter: @unchecked Sendable {
    private struct Message: Sendable {
        let batch: JournalBatch
        let shard: Int
    }

    private let monitor = Monitor()
    // Under the monitor.
    private var arrived: [Message] = []
    private var isClosing = false
    private var failure: String?
    private var lastFigures: StoreFigures
    /// Whether a thread commits, this one or another: what follows is that thread's own.
    private var isCommitting = true
    /// Whether `tidyUp` was called during a commit.
    private var mustTidyUp = false
    // The committing thread's own.
    private let connection: SQLiteConnection
    private let transaction: StoreTransaction
    private let commitRecord: CommitRecord
    private let identity: StoreIdentity
    private let checkpointer: Checkpointer
    private let bytesMax: UInt64
    private let shards: Int
    private let report: SQLiteStore.Report
    private let log: SQLiteStore.Log
    private var held: [Message] = []
    /// Whether the shards know of it.
    private var isFull = false
    private var isCommitRecordFailing = false
    /// Whether the last commit's commit record has not been written, nor what else follows it.
    private var isUntidy = false
    private var reserve: LogReserve
    private let logPages: LogPageCount
    private let pace = CommitPace()

    init(
        _ connection: SQLiteConnection, _ transaction: StoreTransaction, _ commitRecord: CommitRecord, _ identity: StoreIdentity,
        _ checkpointer: Checkpointer, _ reserve: LogReserve, bytesMax: UInt64, shards: Int, report: @escaping SQLiteStore.Report,
        log: @escaping SQLiteStore.Log
    ) {
        self.connection = connection
        self.transaction = transaction
        self.commitRecord = commitRecord
        self.identity = identity
        self.bytesMax = bytesMax
        self.shards = shards
        self.checkpointer = checkpointer
        self.reserve = reserve
        self.report = report
        self.log = log
        lastFigures = StoreFigures(transaction)
        logPages = LogPageCount(connection)
    }

    /// Adds a batch to the next commit. For any thread.
    func add(_ batch: JournalBatch, of shard: Int) {
        let isFirst = monitor.withLock {
            guard failure == nil, !isClosing else { return false }
            arrived.append(Message(batch: batch, shard: shard))
            return arrived.count == 1
        }
        // Outside: the thread would wake up only to wait for this one to leave.
        if isFirst { monitor.signal() }
    }

    /// Commits a batch on the calling thread if nothing else is under way or waits, and leaves it to the writer's
    /// otherwise. What follows a commit and nobody waits for is left to `tidyUp`, or else to the next commit or the
    /// end. For any thread.
    func commitHere(_ batch: JournalBatch, of shard: Int) {
        let isMine = monitor.withLock {
            guard failure == nil, !isClosing, !isCommitting, arrived.isEmpty, held.isEmpty else { return false }
            isCommitting = true
            return true
        }
        guard isMine else { return add(batch, of: shard) }
        held.append(Message(batch: batch, shard: shard))
        commitHeld()
        endCommitting()
    }

    /// Does what the last commit has left; if somebody commits now, the writer's thread does it afterwards. For any
    /// thread.
    func tidyUp() {
        let isMine = monitor.withLock {
            guard !isCommitting, failure == nil else {
                mustTidyUp = true
                return false
            }
            isCommitting = true
            return true
        }
        guard isMine else { return }
        tidy()
        endCommitting()
    }

    /// Whether committing on the calling thread is likely to be short. For any thread.
    var isQuick: Bool { pace.isQuick }

    /// Lets the writer's thread go on with what has come meanwhile.
    private func endCommitting() {
        let isThereMore = monitor.withLock {
            isCommitting = false
            return mustTidyUp || failure != nil || isClosing || !arrived.isEmpty || !held.isEmpty
        }
        if isThereMore { monitor.signal() }
    }

    /// Lets the thread end when all that waits is committed, or when there is no room for it.
    func finish() {
        monitor.withLock {
            isClosing = true
            monitor.signal()
        }
    }

    /// Takes nothing any more. For any thread.
    func fail(_ reason: String) {
        monitor.withLock {
            guard failure == nil else { return }
            failure = reason
            arrived = []
            monitor.signal()
        }
    }

    /// The thread's work, until `finish` or a failure.
    func run() {
        compareWithBound()
        while let isLast = takeArrived() {
            if !held.isEmpty { commitHeld() }
            tidy()
            if isLast { break }
        }
        guard let failure = monitor.withLock({ failure }) else { return }
        // The last commit was acknowledged all the same.
        if isUntidy { recordCommit() }
        log(.error, "The store has failed: \(failure)")
        checkpointer.finish()
        for shard in 0..<shards { report(shard, .failed) }
    }

    /// What the last commit left. For any thread.
    var figures: StoreFigures { monitor.withLock { lastFigures } }

    /// Whether it takes nothing any more. For any thread.
    var hasFailed: Bool { monitor.withLock { failure != nil } }

    /// Waits for batches, or for the next try; whether this is the last round, nil after a failure.
    private func takeArrived() -> Bool? {
        monitor.withLock {
            isCommitting = false
            if !held.isEmpty, arrived.isEmpty, !isClosing, failure == nil { monitor.wait(milliseconds: Limits.retryMilliseconds) }
            while isCommitting || (held.isEmpty && arrived.isEmpty && !mustTidyUp && !isClosing && failure == nil) {
                monitor.wait()
            }
            isCommitting = true
            mustTidyUp = false
            if failure != nil { return nil }
            held += arrived
            arrived.removeAll(keepingCapacity: true)
            return isClosing
        }
    }

    private func commitHeld() {
        tidy()
        // What tidying moves may be where the disk fails.
        if hasFailed { return }
        let start = MonotonicClock.microseconds()
        do throws(SQLiteError) {
            try transaction.commit(held.map(\.batch))
        } catch {
            if error.isFull {
                reportFull("\(error)")
                // The log may hold what is in the database already.
                moveLog(.truncate)
                reserve.forget()
            } else {
                fail("\(error)")
            }
            return
        }
        let isSmall = held.count == 1 && held[0].batch.byteCount <= Self.smallBatchBytes
        if isSmall { pace.record(microseconds: MonotonicClock.microseconds() - start) }
        // First of all: somebody waits for it.
        for message in held { report(message.shard, .committed(through: message.batch.lastSequence)) }
        held.removeAll(keepingCapacity: true)
        isUntidy = true
    }

    /// What follows a commit.
    private func tidy() {
        guard isUntidy else { return }
        isUntidy = false
        recordCommit()
        monitor.withLock { lastFigures = StoreFigures(transaction) }
        reserve.committed(pages: logPages.value)
        compareWithBound()
        checkpointIfFarBehind()
        checkpointer.committed(logPages: logPages.value)
    }

    private func recordCommit() {
        let isWritten = commitRecord.write(CommitRecordSlot(seed: identity.seed, commitNumber: transaction.state.commitNumber))
        if !isWritten, !isCommitRecordFailing {
            log(.warning, "The store's commit record cannot be written: commits that the disk loses would not be missed")
        }
        isCommitRecordFailing = !isWritten
    }

    /// A store above its bound is full, until it is well below.
    private func compareWithBound() {
        if transaction.usedBytes > (isFull ? bytesMax / 16 * 15 : bytesMax) {
            reportFull("it has reached martlet_store_bytes_max, \(bytesMax) bytes")
        } else if isFull {
            isFull = false
            for shard in 0..<shards { report(shard, .hasRoom) }
        }
        transaction.countsClosely = isFull
    }

    private func reportFull(_ reason: String) {
        if isFull { return }
        isFull = true
        transaction.countsClosely = true
        log(.error, "The store has no room: \(reason)")
        for shard in 0..<shards { report(shard, .full) }
    }

    /// The checkpointer cannot end its work while commits go on beside it: then this thread does the rest, and the log
    /// begins anew.
    private func checkpointIfFarBehind() {
        if logPages.value > Limits.logPagesMax { moveLog(.passive) }
    }

    /// Without room, or with somebody in the way, the log stays as it is, and that is all. After any other error nobody
    /// knows what the database holds.
    private func moveLog(_ mode: SQLiteConnection.Checkpoint) {
        commitRecord.synchronize()
        do throws(SQLiteError) {
            _ = try connection.checkpoint(mode)
        } catch {
            if !error.isBusy, !error.isFull { fail("moving the log into the database: \(error)") }
        }
    }

    private static let smallBatchBytes = 4096
}

extension StoreFigures {
    fileprivate init(_ transaction: StoreTransaction) {
        self.init(
            bytes: transaction.usedBytes, rows: transaction.state.tallies.reduce(0) { $0 &+ $1.count },
            commits: transaction.state.commitNumber)
    }
}

/// How long small commits take of late, for who has to decide whether to wait for one. Noted by whoever commits, asked
/// by any thread.
struct CommitPace: ~Copyable, Sendable {
    /// An average in which a sixteenth is new.
    private let microseconds = Atomic<UInt64>(quickMicroseconds)

    /// Whether a commit is likely to be short.
    var isQuick: Bool { microseconds.load(ordering: .relaxed) <= Self.quickMicroseconds }

    /// One that took for ever counts as 10 ms, so that a few good ones make up for it.
    func record(microseconds latest: UInt64) {
        let average = microseconds.load(ordering: .relaxed)
        microseconds.store((average * 15 + min(latest, Self.slowMicroseconds)) / 16, ordering: .relaxed)
    }

    /// Above it, a loop had better go on meanwhile.
    private static let quickMicroseconds: UInt64 = 500
    private static let slowMicroseconds: UInt64 = 10_000
}

extension Limits {
    /// How long after a failed commit the next one is tried, in milliseconds.
    static let retryMilliseconds = 500

    /// Pages of the log after which the writer moves it into the database itself, before the next commit.
    static let logPagesMax = 16_000
}
