internal import ClientCore
internal import ClientStore
internal import Platform

/// What the values of an inbox share: what has come for those who follow it.
final class InboxCore: Sendable {
    let name: String
    let engine: ClientEngine
    let pipe: MessagePipe
    let unread: LatestValue<UnreadCount>
    let undecodable = Locked(0)
    private let state = Locked(State())

    private struct State {
        var waiting: [InboxMessage] = []
        var waitingByteCount = 0
        var followers = 0
        var wasFollowed = false
        var isFull = false
        var consumers: [UnsafeContinuation<Void, Never>] = []

        mutating func add(_ messages: [InboxMessage]) {
            waiting += messages
            waitingByteCount += messages.reduce(0) { $0 + $1.publication.byteCount }
        }

        /// What nobody follows is bounded by forgetting: it is in the store.
        mutating func dropOldest() {
            var count = max(0, waiting.count - Limits.inboxWindowMax)
            waitingByteCount -= waiting[..<count].reduce(0) { $0 + $1.publication.byteCount }
            while waitingByteCount > Limits.inboxWindowBytesMax, count < waiting.count - 1 {
                waitingByteCount -= waiting[count].publication.byteCount
                count += 1
            }
            waiting.removeFirst(count)
        }

        mutating func takeAll() -> [InboxMessage] {
            defer { (waiting, waitingByteCount) = ([], 0) }
            return waiting
        }
    }

    init(_ name: String, _ pipe: MessagePipe, _ unread: UnreadCount, _ engine: ClientEngine) {
        (self.name, self.pipe, self.engine) = (name, pipe, engine)
        self.unread = LatestValue(unread)
    }

    /// Counts whoever follows the arrivals.
    final class Lease: Sendable {
        private let core: InboxCore

        init(_ core: InboxCore) {
            self.core = core
            core.state.withLock { state in
                state.followers += 1
                state.wasFollowed = true
            }
        }

        deinit { core.unfollow() }
    }

    /// Messages are on the disk. Returns whether the source should wait.
    func arrived(_ messages: [InboxMessage], _ count: UnreadCount) -> Bool {
        let (consumers, isFull) = state.withLock { state in
            if state.followers > 0 || !state.wasFollowed { state.add(messages) }
            if state.followers == 0 { state.dropOldest() }
            state.isFull =
                state.followers > 0
                && (state.waiting.count >= Limits.inboxWindowMax || state.waitingByteCount >= Limits.inboxWindowBytesMax)
            defer { state.consumers = [] }
            return (state.consumers, state.isFull)
        }
        unread.set(count)
        for consumer in consumers { consumer.resume() }
        return isFull
    }

    /// What waits for those who follow.
    var size: ClientSize.Part { state.withLock { ClientSize.Part(messages: $0.waiting.count, bytes: $0.waitingByteCount) } }

    /// Nothing comes any more.
    func ended() {
        unread.finish()
        wake()
    }

    func take() -> [InboxMessage] {
        let (messages, wasFull) = state.withLock { state in
            let wasFull = state.isFull
            state.isFull = false
            return (state.takeAll(), wasFull)
        }
        if wasFull { engine.resume(pipe) }
        return messages
    }

    func waitForArrival() async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { consumer in
                let isDue = state.withLock { state in
                    if !state.waiting.isEmpty || pipe.end != nil || Task.isCancelled { return true }
                    state.consumers.append(consumer)
                    return false
                }
                if isDue { consumer.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    func countUndecodable() { undecodable.withLock { $0 += 1 } }

    func read(_ query: StoreQuery) async throws(ClientError) -> [StoreRow] {
        guard let storage = engine.records?.storage else { return [] }
        let result = await withUnsafeContinuation { continuation in
            storage.read(query) { continuation.resume(returning: $0) }
        }
        switch result {
        case .success(let rows): return rows.rows
        case .failure(let error): throw error == .closed ? .ended : ClientError(error)
        }
    }

    private func wake() {
        let consumers = state.withLock { state in
            defer { state.consumers = [] }
            return state.consumers
        }
        for consumer in consumers { consumer.resume() }
    }

    private func unfollow() {
        let wasFull = state.withLock { state in
            state.followers -= 1
            guard state.followers == 0 else { return false }
            _ = state.takeAll()
            defer { state.isFull = false }
            return state.isFull
        }
        if wasFull { engine.resume(pipe) }
    }
}
