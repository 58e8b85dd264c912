internal import Glibc
internal import Platform
internal import RowStore

/// Does the work of one store on the process's writing thread: batches that wait are committed together. So the disk's
/// sync is the time in which batches gather, and there is no timer.
///
///     open ──no room──► open, and what waits for room is tried again twice a second      ──any other failure──► failed
///       └─end──► ended
final class StoreWorker: @unchecked Sendable {
    enum Work: Sendable {
        case commit(StoreBatch, @Sendable (StoreError?) -> Void)
        case read(StoreQuery, @Sendable (Result<StoreRows, StoreError>) -> Void)
    }

    enum End: Sendable {
        /// What waits is done first.
        case close
        /// What waits is lost.
        case crash
    }

    fileprivate typealias Letter = (batch: StoreBatch, done: @Sendable (StoreError?) -> Void)

    private struct State {
        var waiting: [Work] = []
        /// Whether the thread is to come, or is here.
        var isDue = false
        /// Whether the thread is to come for work that nobody waits for.
        var isDueSoon = false
        var end: End?
    }

    private let state = Locked(State())
    private let thread: StoreThread
    /// The database and what waits for room, for one thread at a time.
    private let inner: Locked<Inner>

    fileprivate struct Inner {
        /// Nil when it has ended.
        var database: StoreDatabase?
        var lock: StoreLock?
        /// Batches that found no room.
        var held: [Letter] = []
        var failure: StoreError?
    }

    init(_ database: sending StoreDatabase, _ lock: StoreLock, _ thread: StoreThread) {
        inner = Locked(Inner(database: database, lock: lock))
        self.thread = thread
    }

    /// For any thread.
    func add(_ work: Work) {
        let isEnded = state.withLock { state in
            if state.end == nil { state.waiting.append(work) }
            return state.end != nil
        }
        if isEnded { return Self.refuse(work, .closed) }
        if case .commit(let batch, _) = work, batch.isLazy { makeDueSoon() } else { makeDue() }
    }

    /// Ends it once; returns when that is done, unless the calling thread is the one that does it.
    func end(_ end: End, waits: Bool) {
        let isFirst = state.withLock { state in
            if state.end != nil { return false }
            state.end = end
            if end == .crash { state.waiting = [] }
            return true
        }
        guard isFirst else { return }
        if thread.isCurrent {
            makeDue()
        } else {
            finish()
        }
    }

    /// Lends the database to the calling thread, between two commits.
    func withDatabase<Answer>(_ body: (StoreDatabase) throws(StoreError) -> Answer) throws(StoreError) -> Answer {
        try inner.withLock { inner throws(StoreError) in
            if let failure = inner.failure { throw failure }
            guard let database = inner.database else { throw .closed }
            return try body(database)
        }
    }

    private func makeDueSoon() {
        let isFirst = state.withLock { state in
            defer { state.isDueSoon = true }
            return !state.isDueSoon && !state.isDue
        }
        if isFirst { thread.addSoon(self) }
    }

    private func makeDue() {
        let isFirst = state.withLock { state in
            defer { state.isDue = true }
            return !state.isDue
        }
        if isFirst { thread.add(self) }
    }

    /// The thread's turn: does what waits. Returns whether it has to come again in a while.
    func run() -> Bool {
        let (answers, isHeld) = inner.withLock { inner in
            // Inside, for the thread that ends the store must not be done before the one that has come for its work.
            let (work, end) = state.withLock { state in
                defer { (state.waiting, state.isDue, state.isDueSoon) = ([], false, false) }
                return (state.waiting, state.end)
            }
            let answers = inner.perform(work)
            if end != nil { inner.end(end == .close) }
            return (answers, !inner.held.isEmpty)
        }
        for answer in answers { answer() }
        return isHeld
    }

    /// Does what is left at the end, on any thread.
    private func finish() { _ = run() }

    private static func refuse(_ work: Work, _ error: StoreError) {
        switch work {
        case .commit(_, let done): done(error)
        case .read(_, let done): done(.failure(error))
        }
    }
}

extension StoreWorker.Inner {
    typealias Answer = @Sendable () -> Void

    /// Does what waits, in order; returns what its owners are to be told.
    fileprivate mutating func perform(_ work: [StoreWorker.Work]) -> [Answer] {
        var answers: [Answer] = []
        var letters = held
        held = []
        for work in work {
            switch work {
            case .commit(let batch, let done):
                letters.append((batch, done))
                if letters.count >= Limits.batchesAtOnceMax { commit(&letters, &answers) }
            case .read(let query, let done):
                commit(&letters, &answers)
                let rows = read(query)
                answers.append { done(rows) }
            }
        }
        commit(&letters, &answers)
        database?.tidyUp()
        return answers
    }

    private func read(_ query: StoreQuery) -> Result<StoreRows, StoreError> {
        if let failure { return .failure(failure) }
        guard let database else { return .failure(.closed) }
        return Result { () throws(StoreError) in try database.rows(query) }
    }

    /// Commits all letters together; when there is no room, each that may fail for itself.
    private mutating func commit(_ letters: inout [StoreWorker.Letter], _ answers: inout [Answer]) {
        defer { letters = [] }
        guard !letters.isEmpty else { return }
        switch commit(letters) {
        case nil:
            for letter in letters { answers.append { letter.done(nil) } }
            if letters.contains(where: \.batch.changesEntries) { lock?.touch() }
        case .noRoom where letters.allSatisfy(\.batch.waitsForRoom):
            held += letters
        case .noRoom(let path):
            // Those that do not wait make room for those that do.
            for letter in letters where !letter.batch.waitsForRoom { answers.append { letter.done(.noRoom(path)) } }
            letters.removeAll { !$0.batch.waitsForRoom }
            commit(&letters, &answers)
        case let error?:
            for letter in letters { answers.append { letter.done(error) } }
        }
    }

    private mutating func commit(_ letters: [StoreWorker.Letter]) -> StoreError? {
        if let failure { return failure }
        guard let database else { return .closed }
        do throws(StoreError) {
            try database.commit(letters.lazy.map(\.batch))
            return nil
        } catch {
            switch error {
            case .noRoom: database.tidyUp()
            default: failure = error
            }
            return error
        }
    }

    /// Lets go of the file.
    fileprivate mutating func end(_ isOrderly: Bool) {
        if isOrderly, failure == nil { database?.moveAll() }
        (database, lock, held) = (nil, nil, [])
    }
}

extension StoreBatch {
    /// Whether readers of collections may want to know of it.
    fileprivate var changesEntries: Bool {
        changes.contains { change in
            switch change {
            case .put(let table, _, _), .remove(let table, _), .removeRange(let table, _, _): table == .entry
            }
        }
    }
}

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

/// A store in a file: an SQLite database. What is committed survives a crash of the process and a power cut.
///
/// Beside the file are its log (`-wal`), what its connections share (`-shm`), and a lock (`-lock`).
public final class FileStore: ClientStorage {
    private let worker: StoreWorker

    /// Opens a store, or makes one. Throws `inUse` while another client has it.
    ///
    /// - Parameters:
    ///   - path: of the database.
    ///   - bytesMax: the size that the database may have; beyond it there is no room. Nil for any.
    public init(_ path: String, bytesMax: Int? = nil) throws(StoreError) {
        // Not made by SQLite, which gives it to everybody to read.
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(path) }
        // Before SQLite has locks on it, which this would end.
        Glibc.close(descriptor)
        let lock = try StoreLock(path)
        let database = try StoreDatabase(path, .change, bytesMax: bytesMax)
        do throws(SystemError) {
            worker = StoreWorker(database, lock, try StoreThread.running())
        } catch {
            throw .failed(path, "starting the thread that writes: \(error)")
        }
    }

    deinit { worker.end(.close, waits: true) }

    public func commit(_ batch: StoreBatch, _ done: @escaping @Sendable (StoreError?) -> Void) { worker.add(.commit(batch, done)) }

    public func read(_ query: StoreQuery, _ done: @escaping @Sendable (Result<StoreRows, StoreError>) -> Void) {
        worker.add(.read(query, done))
    }

    public func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        try worker.withDatabase { database throws(StoreError) in try database.rows(query) }
    }

    public func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        try worker.withDatabase { database throws(StoreError) in try database.measure(query) }
    }

    public func close() { worker.end(.close, waits: true) }

    /// Lets go of the file as a process does that dies: what waits is lost, and nobody is told. For tests.
    public func crash() { worker.end(.crash, waits: true) }
}

/// The file beside a store's database that keeps other clients out. It names the process that has the store, and
/// changes with each commit that its readers may want to know of.
final class StoreLock: Sendable {
    private let file: LockFile

    /// Throws `inUse` while another client has the store, of this process or another.
    init(_ database: String) throws(StoreError) {
        let path = database + "-lock"
        do throws(LockFile.Failure) {
            file = try LockFile(path)
        } catch {
            switch error {
            case .isLocked(let contents): throw .inUse(database, process: Self.process(contents))
            case .opening(let number), .locking(let number): throw .system(path, number)
            }
        }
        let text = Array("\(getpid())\n".utf8)
        ftruncate(file.descriptor, 0)
        _ = text.withUnsafeBytes { pwrite(file.descriptor, $0.baseAddress, $0.count, 0) }
    }

    /// Wakes those who watch the file.
    func touch() {
        futimens(file.descriptor, nil)
    }

    private static func process(_ contents: [UInt8]) -> Int? {
        contents.firstIndex(of: 0x0a).flatMap { Int(String(decoding: contents[..<$0], as: UTF8.self)) }
    }
}

extension StoreError {
    /// The kernel's last word, or that of a given number.
    static func system(_ path: String, _ number: Int32 = errno) -> StoreError {
        .failed(path, strerror(number).map { String(cString: $0) } ?? "error \(number)")
    }
}

extension Limits {
    /// How long after a commit that found no room the next is tried, in milliseconds.
    static let retryMilliseconds = 500

    /// How long a batch that nobody waits for is left to go together with another, in milliseconds.
    static let lazyMilliseconds = 10

    /// Batches that are committed together; those beyond wait for the next commit.
    static let batchesAtOnceMax = 1000
}
