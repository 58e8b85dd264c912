internal import BrokerModel
internal import Platform
internal import RowStore
internal import Synchronization

/// The thread that moves pages from the log into the database, so that commits need not wait for it.
final class Checkpointer: @unchecked Sendable {
    private let monitor = Monitor()
    /// With more pages than this in the log, there is something to do.
    private let pagesWithoutWork = Atomic<Int>(Limits.checkpointPages)
    // Under the monitor.
    private var isDue = false
    private var isClosing = false
    // The committing thread's own.
    private var lastPages = 0
    // The thread's own.
    private let connection: SQLiteConnection
    private let commitRecord: CommitRecord

    init(_ connection: SQLiteConnection, _ commitRecord: CommitRecord) {
        self.connection = connection
        self.commitRecord = commitRecord
    }

    /// Tells of the log's pages after a commit. For the thread that commits; wakes this one only for work.
    func committed(logPages: Int) {
        // Fewer pages than before: the log has begun anew.
        if logPages < lastPages { pagesWithoutWork.store(Limits.checkpointPages, ordering: .relaxed) }
        lastPages = logPages
        guard logPages > pagesWithoutWork.load(ordering: .relaxed) else { return }
        pagesWithoutWork.store(.max, ordering: .relaxed)
        monitor.withLock {
            isDue = true
            monitor.signal()
        }
    }

    /// Lets the thread end.
    func finish() {
        monitor.withLock {
            isClosing = true
            monitor.signal()
        }
    }

    /// The thread's work, until `finish`, or until nobody knows any more what is on the disk: then it says why.
    func run() -> String? {
        var movedPages = 0
        while waitUntilDue() {
            commitRecord.synchronize()
            do throws(SQLiteError) {
                let log = try connection.checkpoint(.passive)
                movedPages = log.isWhole ? 0 : log.movedPages
            } catch {
                if !error.isBusy, !error.isFull { return "moving the log into the database: \(error)" }
            }
            pagesWithoutWork.store(movedPages + Limits.checkpointPages, ordering: .relaxed)
        }
        return nil
    }

    /// False when the end has come.
    private func waitUntilDue() -> Bool {
        monitor.withLock {
            while !isDue, !isClosing { monitor.wait() }
            isDue = false
            return !isClosing
        }
    }
}

/// The three threads of a store that runs.
final class StoreWorkers: Sendable {
    private let writer: CommitWriter
    private let checkpointer: Checkpointer
    private let reader: RowReader
    private let threads: [NamedThread]

    init(
        _ files: StoreFiles, writer: CommitWriter, checkpointer: Checkpointer, report: @escaping SQLiteStore.Report,
        log: @escaping SQLiteStore.Log
    ) throws(StoreError) {
        self.writer = writer
        self.checkpointer = checkpointer
        do throws(SQLiteError) {
            let connection = try SQLiteConnection(files.database, .read)
            reader = try RowReader(connection, report: report, log: log)
        } catch {
            throw .sqlite(error)
        }
        var threads: [NamedThread] = []
        do throws(SystemError) {
            threads.append(try NamedThread.start(name: "store write") { writer.run() })
            threads.append(
                try NamedThread.start(name: "store move") {
                    if let reason = checkpointer.run() { writer.fail(reason) }
                })
            threads.append(try NamedThread.start(name: "store read") { [reader] in reader.run() })
        } catch {
            Self.end(threads, writer, checkpointer, reader)
            throw .system("starting the store's threads", reason: error.description)
        }
        self.threads = threads
    }

    func commit(_ batch: JournalBatch, of shard: Int) { writer.add(batch, of: shard) }

    func commitHere(_ batch: JournalBatch, of shard: Int) { writer.commitHere(batch, of: shard) }

    func tidyUp() { writer.tidyUp() }

    var isQuick: Bool { writer.isQuick }

    var figures: StoreFigures { writer.figures }

    func read(_ request: StoreRequest, for shard: Int) { reader.add(request, of: shard) }

    /// Commits what waits, and ends the threads; whether the store is well then.
    func stop() -> Bool {
        Self.end(threads, writer, checkpointer, reader)
        return !writer.hasFailed
    }

    private static func end(_ threads: [NamedThread], _ writer: CommitWriter, _ checkpointer: Checkpointer, _ reader: RowReader) {
        writer.finish()
        checkpointer.finish()
        reader.finish()
        for thread in threads { thread.join() }
    }
}

extension Limits {
    /// Pages of the log after which it is moved into the database beside the commits.
    static let checkpointPages = 4000
}
