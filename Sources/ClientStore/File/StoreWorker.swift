internal import Platform

/// What is to be done to one store, and does it on the process's writing thread: batches that wait are committed together. So the disk's
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
        /// The same for work that nobody waits for.
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

    /// The same for what is left at the end, on any thread.
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
