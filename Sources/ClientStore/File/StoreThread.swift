internal import Glibc
internal import Platform

/// The thread that writes for all stores of the process, one after another. It lives as long as the process.
final class StoreThread: @unchecked Sendable {
    private let monitor = Monitor()
    // Under the monitor.
    private var due: [StoreWorker] = []
    /// Stores without room.
    private var held: [StoreWorker] = []
    /// Stores with work that nobody waits for.
    private var soon: [StoreWorker] = []
    private var thread: pthread_t?

    private static let shared = Locked<StoreThread?>(nil)

    /// The thread, which is started with the first store.
    static func running() throws(SystemError) -> StoreThread {
        try shared.withLock { shared throws(SystemError) in
            if let shared { return shared }
            let new = StoreThread()
            _ = try NamedThread.start(name: "client store") { new.run() }
            shared = new
            return new
        }
    }

    /// Lets it come to a store.
    func add(_ worker: StoreWorker) {
        let isFirst = monitor.withLock {
            due.append(worker)
            return due.count == 1
        }
        // Outside: the thread would wake up only to wait for this one to leave.
        if isFirst { monitor.signal() }
    }

    /// Lets it come to a store within a short time.
    func addSoon(_ worker: StoreWorker) {
        let isFirst = monitor.withLock {
            soon.append(worker)
            return soon.count == 1 && due.isEmpty
        }
        if isFirst { monitor.signal() }
    }

    /// Whether the calling thread is this one.
    var isCurrent: Bool { monitor.withLock { thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false } }

    private func run() {
        monitor.withLock { thread = pthread_self() }
        while true {
            var again: [StoreWorker] = []
            for worker in take() where worker.run() { again.append(worker) }
            if !again.isEmpty {
                monitor.withLock {
                    for worker in again where !held.contains(where: { $0 === worker }) { held.append(worker) }
                }
            }
        }
    }

    private func take() -> [StoreWorker] {
        monitor.withLock {
            while due.isEmpty, soon.isEmpty, held.isEmpty { monitor.wait() }
            if due.isEmpty, soon.isEmpty { monitor.wait(milliseconds: Limits.retryMilliseconds) }
            if due.isEmpty, !soon.isEmpty { monitor.wait(milliseconds: Limits.lazyMilliseconds) }
            defer { (due, soon, held) = ([], [], []) }
            var taken = due
            for store in soon + held where !taken.contains(where: { $0 === store }) { taken.append(store) }
            return taken
        }
    }
}
