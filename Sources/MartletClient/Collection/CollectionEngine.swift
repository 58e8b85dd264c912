internal import ClientCore
package import ClientStore
internal import Platform

/// Keeps a collection in step with its server: subscribes afresh on new connections, publishes local writes, tells its consumers of each commit,
/// and stores what the server has.
///
/// Locks: its own, and inside that those of its feeds and of the storage.
final class CollectionEngine: Sendable {
    let filter: TopicFilter
    let settings: CollectionSettings
    let messaging: any Messaging
    let ready = Decision()
    let state: Locked<State>
    let executor: (any TaskExecutor)?
    /// Random bits.
    let chance: @Sendable () -> UInt64
    private let storage: (any ClientStorage)?
    /// Who keeps local writes until the server has them, also for a later run; nil where there is no store.
    let keeper: Client?

    struct State {
        var collection: TopicCollection
        var feeds: [WeakFeed] = []
        var subscription: CollectionSubscription?
        var observing: Task<Void, Never>?
        var isOnline = false
        var isEnded = false
        /// Which picture of the server's topics this is, since the process began.
        var generation: UInt64 = 0
        var writes = CollectionWrites()
    }

    struct WeakFeed {
        weak var feed: CollectionFeed?
    }

    /// Throws `ClientError.store` if what is stored cannot be read.
    init(_ messaging: any Messaging, _ filter: TopicFilter, _ settings: CollectionSettings) throws(ClientError) {
        (self.messaging, self.filter, self.settings) = (messaging, filter, settings)
        let host = messaging as? any CollectionHost
        (storage, executor) = (host?.storage, host?.taskExecutor)
        keeper = host?.storage == nil ? nil : messaging as? Client
        chance = { host?.random() ?? RandomBytes.seed() }
        var collection = TopicCollection(
            entriesMax: settings.entriesMax, bytesMax: settings.bytesMax, nonce: chance())
        var writes = CollectionWrites()
        if let storage {
            do throws(StoreError) {
                let rows = try storage.rows(EntryRow.all(of: "\(filter)")).rows
                collection.restore(rows.compactMap { EntryRow($0, of: "\(filter)") }.map { ($0.topic, $0.content) })
                if keeper != nil {
                    writes.restore(try OutboxOwner.writes(to: "\(filter)", in: storage), in: &collection)
                }
            } catch {
                throw .store("\(error)")
            }
            _ = collection.commit()
        }
        state = Locked(State(collection: collection, writes: writes))
    }

    /// Changes the collection, and tells all who want to know.
    func change(_ body: (inout State) -> Void) {
        let decided = state.withLock { state in
            body(&state)
            let commit = state.collection.commit()
            if !commit.steps.isEmpty { tell(commit.steps, &state) }
            store(commit, state.generation)
            return commit.confirmed.compactMap { state.writes.decisions.removeValue(forKey: $0) }
        }
        for decision in decided { decision.make(.success(())) }
    }

    private func tell(_ steps: [CollectionStep], _ state: inout State) {
        state.feeds.removeAll { $0.feed == nil }
        for feed in state.feeds { feed.feed?.add(steps) }
    }

    /// Nobody waits for the disk: what it has not got comes from the server again.
    private func store(_ commit: TopicCollection.Commit, _ generation: UInt64) {
        guard let storage, !commit.stored.isEmpty else { return }
        let changes = commit.stored.map { topic, content in
            content.map { EntryRow(topic, generation: generation, $0).put(in: "\(filter)") }
                ?? EntryRow.remove(topic, from: "\(filter)")
        }
        storage.commit(StoreBatch(changes, waitsForRoom: false)) { _ in }
    }

    /// All that has come, for consumers whose picture is empty.
    func retainedPictureIsWhole() {
        ready.make(.success(()))
        // Those who draw pictures draw the first one, also an empty one.
        state.withLock { tell([], &$0) }
    }

    /// A feed that begins with all that is shown.
    func makeFeed() -> CollectionFeed {
        state.withLock { state in
            let feed = CollectionFeed(shown(state).map { CollectionStep($0.topic, old: nil, new: $0.value) })
            if state.isEnded { feed.end() } else { state.feeds.append(WeakFeed(feed: feed)) }
            if ready.isMade { feed.add([]) }
            return feed
        }
    }

    /// All that is shown, by topic.
    var shown: [(topic: TopicName, value: CollectionValue)] { state.withLock { shown($0) } }

    private func shown(_ state: State) -> [(topic: TopicName, value: CollectionValue)] {
        state.collection.topics.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
            .compactMap { topic in state.collection[topic].map { (topic, $0) } }
    }

    func shown(_ topic: TopicName) -> CollectionValue? { state.withLock { $0.collection[topic] } }

    var omittedCount: Int { state.withLock(\.collection.omittedCount) }

    /// The collection is no longer kept: its owner has left, the client has ended, or the server refuses the subscription. Writes that are under
    /// way stay so.
    func end(_ error: ClientError = .ended) {
        let (subscription, observing, feeds, unkept) = state.withLock { state in
            state.isEnded = true
            defer { (state.subscription, state.observing, state.feeds) = (nil, nil, []) }
            return (state.subscription, state.observing, state.feeds, state.writes.takeAcknowledged())
        }
        subscription?.cancel()
        observing?.cancel()
        for feed in feeds { feed.feed?.end() }
        // The server has taken them over, and nobody would hear of them any more.
        for decision in unkept { decision.make(.success(())) }
        ready.make(.failure(error))
    }
}

/// What a collection takes from a client beside messages.
package protocol CollectionHost: Messaging {
    /// Where it keeps what is to outlive it; nil for nowhere.
    var storage: (any ClientStorage)? { get }
    /// On which tasks for it run; nil for anywhere.
    var taskExecutor: (any TaskExecutor)? { get }
    /// Random bits, for what tells its subscriptions from those of others.
    func random() -> UInt64
}

extension CollectionHost {
    package func random() -> UInt64 { RandomBytes.seed() }
}

extension Client: CollectionHost {
    package var storage: (any ClientStorage)? { engine.records?.storage }
    package var taskExecutor: (any TaskExecutor)? { engine.loop.taskExecutor }
    package func random() -> UInt64 { engine.loop.random() }
}
