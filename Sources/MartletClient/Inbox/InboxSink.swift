internal import ClientCore
internal import ClientStore

/// Puts what comes for an inbox into the store. Belongs to the loop's thread.
final class InboxSink: MessageSink {
    var book: InboxBook
    let core: InboxCore
    private let key: @Sendable (ReceivedMessage) -> String?
    let bounds: InboxBounds
    /// In this turn.
    private var arrived: [InboxMessage] = []
    /// The jobs that wait, which are done one after another.
    var jobs: [InboxJob] = []
    var isWorking = false
    /// When the oldest message is too old, in milliseconds since 1970; nil for never.
    var nextExpiry: UInt64?

    init(_ book: InboxBook, _ core: InboxCore, _ bounds: InboxBounds, key: @escaping @Sendable (ReceivedMessage) -> String?) {
        (self.book, self.core, self.bounds, self.key) = (book, core, bounds, key)
    }

    func accept(_ message: ReceivedMessage, _ engine: ClientEngine) -> Bool {
        guard let records = engine.records, records.failure == nil else { return true }
        guard let conversation = key(message) else {
            core.countUndecodable()
            if let token = message.token { engine.subscriptions.acknowledge(token, .topicNameInvalid, engine) }
            return true
        }
        if let (item, changes) = book.arrived(message, in: conversation, now: engine.wallNow) {
            records.add(changes, holdsOutput: true)
            if let item {
                if arrived.isEmpty { records.beforeCommit { [self] in turnEnded($0) } }
                arrived.append(item)
            }
        }
        // A repeat is acknowledged too, and not before what it repeats is on the disk: output leaves in order.
        if let token = message.token { engine.subscriptions.acknowledge(token, .success, engine) }
        return true
    }

    /// What has come in this turn is told when it is on the disk, and with it the counts as they are then.
    private func turnEnded(_ records: ClientRecords) {
        let (messages, count) = (arrived, book.unread)
        arrived = []
        records.add([book.totals])
        trimSoon(records)
        records.afterCommit { [core] _, error in
            if error == nil { core.arrived(messages, count) }
        }
    }

    func resume(_ engine: ClientEngine) {}

    func close(_ engine: ClientEngine) { end(engine) }

    func end(_ engine: ClientEngine) {
        engine.records?.inboxes[core.name] = nil
        engine.storeNames.release("inbox\u{1}\(core.name)")
        core.ended()
        fail(.ended)
    }
}

extension ClientEngine {
    /// Any thread.
    func inbox(
        _ name: String, _ filter: TopicFilter, _ settings: SubscriptionSettings, _ bounds: InboxBounds,
        by key: @escaping @Sendable (ReceivedMessage) -> String?
    ) throws(ClientError) -> InboxCore {
        guard let records else { throw .settings("an inbox needs a store: set settings.store") }
        guard !name.utf8.contains(0) else { throw .settings("an inbox's name has no character U+0000") }
        guard storeNames.claim("inbox\u{1}\(name)") else { throw .settings("the inbox \(name) is open") }
        do throws(StoreError) {
            let book = try InboxBook(name, in: records.storage)
            let pipe = MessagePipe(filters: [filter], settings: settings, backlog: .hold(.max, bytes: .max), source: self)
            let core = InboxCore(name, pipe, book.unread, self, key: key)
            let sink = LoopOwned(InboxSink(book, core, bounds, key: key))
            post(
                .records { engine in
                    engine.records?.inboxes[name] = sink.value
                    sink.value.begin(engine)
                    pipe.sink = sink.value
                    engine.subscriptions.subscribe(pipe, engine)
                })
            return core
        } catch {
            storeNames.release("inbox\u{1}\(name)")
            throw error == .closed ? .ended : ClientError(error)
        }
    }
}

extension ClientRecords {
    func markRead(_ core: InboxCore, _ conversation: String, _ number: UInt64, _ call: AwaitedOutcome<Void>) {
        guard let sink = inboxes[core.name] else {
            call.complete(.failure(.ended))
            return
        }
        let changes = sink.book.markRead(conversation, through: number)
        guard !changes.isEmpty else {
            call.complete(.success(()))
            return
        }
        add(changes)
        let count = sink.book.unread
        afterCommit { _, error in
            if let error {
                call.complete(.failure(error))
            } else {
                core.arrived([], count)
                call.complete(.success(()))
            }
        }
    }
}

/// What an inbox has to look into its store for, on the loop's thread.
struct InboxJob {
    enum Work {
        /// Removes what is beyond the inbox's bounds.
        case trim
        /// Messages of a conversation go.
        case remove(String, ClosedRange<UInt64>)
        /// The newest message of a conversation stands for it again.
        case show(String)
    }

    var work: Work
    /// The call that waits for the job.
    var call: AwaitedOutcome<Void>?
}

/// Removes messages: read first, as their rows say what else belongs to them. One job after another, so that none
/// removes what another has read.
extension InboxSink {
    /// The inbox is open.
    func begin(_ engine: ClientEngine) {
        guard let records = engine.records else { return }
        records.add(book.repairs)
        showUnshown(records)
        if bounds.milliseconds != nil || book.isBeyond(bounds) { add(InboxJob(work: .trim), records) }
    }

    func add(_ job: InboxJob, _ records: ClientRecords) {
        jobs.append(job)
        work(records)
    }

    /// Something has come.
    func trimSoon(_ records: ClientRecords) {
        if book.isBeyond(bounds) || (bounds.milliseconds != nil && nextExpiry == nil) { trim(records) }
    }

    /// The oldest message is too old.
    func trimIfDue(_ records: ClientRecords, now: UInt64) {
        if let nextExpiry, nextExpiry <= now { trim(records) }
    }

    private func trim(_ records: ClientRecords) {
        guard !jobs.contains(where: { if case .trim = $0.work { true } else { false } }) else { return }
        add(InboxJob(work: .trim), records)
    }

    private func showUnshown(_ records: ClientRecords) {
        for conversation in book.unshown.sorted() {
            let isAsked = jobs.contains { if case .show(conversation) = $0.work { true } else { false } }
            if !isAsked { add(InboxJob(work: .show(conversation)), records) }
        }
    }

    private func work(_ records: ClientRecords) {
        guard !isWorking, let job = jobs.first else { return }
        isWorking = true
        let query =
            switch job.work {
            case .trim: book.oldest
            case .remove(let conversation, let numbers): book.messages(of: conversation, numbers)
            case .show(let conversation): book.newest(of: conversation)
            }
        // Behind what this turn writes.
        let sink = LoopOwned(self)
        records.afterCommit { engine, error in
            guard error == nil, let records = engine.records else { return sink.value.fail(error ?? .ended) }
            records.storage.read(query) { [weak engine] result in engine?.post(.records { sink.value.looked(result, $0) }) }
        }
    }

    private func looked(_ result: Result<StoreRows, StoreError>, _ engine: ClientEngine) {
        isWorking = false
        guard let records = engine.records, !jobs.isEmpty else { return }
        let rows: StoreRows
        switch result {
        case .success(let found): rows = found
        case .failure(let error):
            return fail(error == .closed ? .ended : ClientError(error))
        }
        let job = jobs.removeFirst()
        var isOver = true
        switch job.work {
        case .trim:
            let (removed, changes, hasMore, next) = book.trim(rows, to: bounds, now: engine.wallNow)
            nextExpiry = next
            taken(removed, changes, records)
            if hasMore { jobs.insert(job, at: 0) }
            isOver = !hasMore
        case .remove(let conversation, let numbers):
            let (removed, changes, next) = book.remove(rows)
            taken(removed, changes, records)
            if let next, next <= numbers.upperBound {
                jobs.insert(InboxJob(work: .remove(conversation, next...numbers.upperBound), call: job.call), at: 0)
                isOver = false
            }
        case .show(let conversation): records.add(book.show(rows, of: conversation))
        }
        showUnshown(records)
        if isOver, let call = job.call { completeWhenShown(call, records) }
        work(records)
    }

    /// Nothing is removed any more.
    func fail(_ error: ClientError) {
        for job in jobs { job.call?.complete(.failure(error)) }
        jobs = []
    }

    /// Completes a removal's call when the removal is on the disk and the conversation shows it.
    private func completeWhenShown(_ call: AwaitedOutcome<Void>, _ records: ClientRecords) {
        guard let place = jobs.lastIndex(where: { if case .show = $0.work { true } else { false } }), jobs[place].call == nil else {
            records.afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(())) }
            return
        }
        jobs[place].call = call
    }

    private func taken(_ removed: [(conversation: String, number: UInt64)], _ changes: [StoreChange], _ records: ClientRecords) {
        guard !changes.isEmpty else { return }
        records.add(changes + [book.totals])
        records.add(
            records.owners.release(
                Set(removed.map { .inbox(book.name, conversation: $0.conversation, number: $0.number) })))
        let count = book.unread
        records.afterCommit { [core] _, error in if error == nil { core.arrived([], count) } }
    }
}
