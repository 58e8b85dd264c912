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
        var followers = 0
        var wasFollowed = false
        var isFull = false
        var consumers: [UnsafeContinuation<Void, Never>] = []
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
            if state.followers > 0 || !state.wasFollowed { state.waiting += messages }
            if state.followers == 0, state.waiting.count > Limits.inboxWindowMax {
                state.waiting.removeFirst(state.waiting.count - Limits.inboxWindowMax)
            }
            state.isFull = state.followers > 0 && state.waiting.count >= Limits.inboxWindowMax
            defer { state.consumers = [] }
            return (state.consumers, state.isFull)
        }
        unread.set(count)
        for consumer in consumers { consumer.resume() }
        return isFull
    }

    /// Nothing comes any more.
    func ended() {
        unread.finish()
        wake()
    }

    func take() -> [InboxMessage] {
        let (messages, wasFull) = state.withLock { state in
            defer { (state.waiting, state.isFull) = ([], false) }
            return (state.waiting, state.isFull)
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
            defer { (state.waiting, state.isFull) = ([], false) }
            return state.isFull
        }
        if wasFull { engine.resume(pipe) }
    }
}
