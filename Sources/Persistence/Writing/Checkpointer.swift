internal import EpollLoop

/// The thread that moves pages from the log into the database, so that commits need not wait for it.
final class Checkpointer: @unchecked Sendable {
    private let monitor = Monitor()
    // Under the monitor.
    private var logPages = 0
    private var isClosing = false
    // The thread's own.
    private let connection: SQLiteConnection
    private var movedPages = 0

    init(_ connection: SQLiteConnection) { self.connection = connection }

    /// Tells of the log's pages after a commit. For any thread.
    func committed(logPages: Int) {
        guard logPages > Self.pagesAtOnce else { return }
        monitor.withLock {
            self.logPages = logPages
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
        while waitForPages() {
            do throws(SQLiteError) {
                let log = try connection.checkpoint(.passive)
                movedPages = log.isWhole ? 0 : log.movedPages
            } catch {
                if error.isBusy || error.isFull { continue }
                return "moving the log into the database: \(error)"
            }
        }
        return nil
    }

    /// Whether there is more to do, once there is enough of it or the end has come.
    private func waitForPages() -> Bool {
        monitor.withLock {
            while !isClosing {
                // Fewer pages than before: the log has begun anew.
                if logPages < movedPages { movedPages = 0 }
                if logPages - movedPages > Self.pagesAtOnce {
                    logPages = 0
                    return true
                }
                monitor.wait()
            }
            return false
        }
    }

    private static let pagesAtOnce = 4000
}
