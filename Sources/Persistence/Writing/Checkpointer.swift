internal import Platform
internal import SQLite
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
    private let mark: StoreMark

    init(_ connection: SQLiteConnection, _ mark: StoreMark) {
        self.connection = connection
        self.mark = mark
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
            mark.synchronize()
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
