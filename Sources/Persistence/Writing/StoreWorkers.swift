internal import BrokerModel
internal import Platform
internal import SQLite

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
