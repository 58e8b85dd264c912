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
    /// What is to be removed or looked for, one after another.
    var jobs: [InboxJob] = []
    var isWorking = false
    /// When the oldest message is too old, in milliseconds since 1970; nil for never.
    var nextExpiry: UInt64?

    init(_ book: InboxBook, _ core: InboxCore, _ bounds: InboxBounds, key: @escaping @Sendable (ReceivedMessage) -> String?) {
        (self.book, self.core, self.bounds, self.key) = (book, core, bounds, key)
    }

    func take(_ message: ReceivedMessage, _ engine: ClientEngine) -> Bool {
        guard let records = engine.records, records.failure == nil else { return true }
        guard let conversation = key(message) else {
            core.countUndecodable()
            if let token = message.token { engine.acknowledge(token, .topicNameInvalid) }
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
        if let token = message.token { engine.acknowledge(token, .success) }
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
                    engine.subscribe(pipe)
                })
            return core
        } catch {
            storeNames.release("inbox\u{1}\(name)")
            throw error == .closed ? .ended : ClientError(error)
        }
    }

    func markRead(_ core: InboxCore, _ conversation: String, _ number: UInt64, _ call: AwaitedOutcome<Void>) {
        guard let records, let sink = records.inboxes[core.name] else {
            call.complete(.failure(.ended))
            return
        }
        let changes = sink.book.markRead(conversation, through: number)
        guard !changes.isEmpty else {
            call.complete(.success(()))
            return
        }
        records.add(changes)
        let count = sink.book.unread
        records.afterCommit { _, error in
            if let error {
                call.complete(.failure(error))
            } else {
                core.arrived([], count)
                call.complete(.success(()))
            }
        }
    }
}
