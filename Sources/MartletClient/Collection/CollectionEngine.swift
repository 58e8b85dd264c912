internal import ClientCore
package import ClientStore
internal import Platform

/// Keeps a collection in step with its server: subscribes afresh on new connections, publishes local writes, tells its
/// consumers of each commit, and stores what the server has.
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
    /// The client that keeps local writes until the server has them, also for a later run; nil where there is no store.
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
            if !commit.steps.isEmpty { notifyFeeds(commit.steps, &state) }
            store(commit, state.generation)
            return commit.confirmed.compactMap { state.writes.decisions.removeValue(forKey: $0) }
        }
        for decision in decided { decision.make(.success(())) }
    }

    private func notifyFeeds(_ steps: [CollectionStep], _ state: inout State) {
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
        state.withLock { notifyFeeds([], &$0) }
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

    /// The collection is no longer kept: its owner has left, the client has ended, or the server refuses the
    /// subscription. Writes that are under way stay so.
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

/// Subscriptions, and what comes for them.
extension CollectionEngine {
    /// Begins: the subscription is declared before this returns.
    func start() {
        let first = renew()
        followRestoredWrites()
        guard let observer = messaging as? any ConnectionObserving else {
            return follow(first, .v5, connection: nil)
        }
        let observing = Task(executorPreference: executor) { [weak self] in
            var observation = ConnectionObservation(first)
            for await server in observer.connections() {
                guard let self else { return }
                notice(server, &observation)
            }
        }
        state.withLock { $0.observing = observing }
    }

    /// The state of the client's connection, as the collection knows it.
    private struct ConnectionObservation {
        var subscription: CollectionSubscription
        /// The connection on which the subscription was first made; nil before that.
        var connectionNumber: UInt64?

        init(_ subscription: CollectionSubscription) { self.subscription = subscription }
    }

    private func notice(_ server: ConnectedServer?, _ known: inout ConnectionObservation) {
        state.withLock { $0.isOnline = server != nil }
        let number = known.connectionNumber
        if number != nil, server?.connectionNumber != number {
            // A picture that is not whole cannot be completed on another connection: the end-of-retained message is
            // lost.
            let isWhole = state.withLock { !$0.collection.isGathering }
            let isKept = settings.resynchronize == .whenSessionLost && isWhole && server?.isSessionPresent ?? true
            if isKept {
                if let server { known.connectionNumber = server.connectionNumber }
            } else {
                known = ConnectionObservation(renew())
            }
        }
        if let server, known.connectionNumber == nil {
            known.connectionNumber = server.connectionNumber
            follow(known.subscription, server.version, connection: server.connectionNumber)
        }
    }

    /// Makes a new subscription in place of the present one.
    private func renew() -> CollectionSubscription {
        let old = state.withLock { state in
            state.collection.begin()
            state.generation += 1
            return state.subscription.take()
        }
        let subscription = CollectionSubscription(messaging, filter, settings, chance: chance())
        let isEnded = state.withLock { state in
            if !state.isEnded { state.subscription = subscription }
            return state.isEnded
        }
        // After the new one is declared, so that the client does not unsubscribe what both want.
        old?.cancel()
        if isEnded { subscription.cancel() }
        return subscription
    }

    /// - Parameter connection: the number of the one on which it was made; nil where nobody tells of connections.
    private func follow(
        _ subscription: CollectionSubscription, _ version: ProtocolVersion, connection: UInt64?
    ) {
        state.withLock { $0.collection.speaks(version) }
        let reading = Task(executorPreference: executor) { [self] in
            do throws(ClientError) {
                while let batch = try await subscription.messages.nextBatch() {
                    if !isForgotten(connection) { received(batch, subscription) }
                    // The picture is not whole any more.
                    if subscription.messages.droppedCount > 0, isCurrent(subscription) {
                        return follow(renew(), version, connection: connection)
                    }
                }
                if isCurrent(subscription) { end() }
            } catch {
                if isCurrent(subscription) { end(error) }
            }
        }
        let ending = Task(executorPreference: executor) { [self] in await guessEnd(of: subscription, connection) }
        subscription.progress.withLock { $0.tasks = [reading, ending] }
        // It may have been given up meanwhile.
        if !isCurrent(subscription) { subscription.cancel() }
    }

    /// Whether there is a later connection already than the one on which a subscription was made, and everything is to
    /// be asked for anew on it. The client makes its subscriptions again before this collection hears of the
    /// connection: what the old one is told then would show a part of the new picture before the rest.
    private func isForgotten(_ connection: UInt64?) -> Bool {
        guard let connection, let present = (messaging as? any ConnectionObserving)?.connection,
            present.connectionNumber != connection
        else { return false }
        if settings.resynchronize == .always || !present.isSessionPresent { return true }
        return state.withLock { $0.collection.isGathering }
    }

    private func isCurrent(_ subscription: CollectionSubscription) -> Bool {
        state.withLock { $0.subscription === subscription }
    }

    private func received(_ batch: [ReceivedMessage], _ subscription: CollectionSubscription) {
        var isWhole = false
        change { state in
            guard state.subscription === subscription else { return }
            for message in batch {
                if message.topic == subscription.endOfRetained {
                    isWhole = isWhole || state.collection.isGathering
                    state.collection.ended(identifier: message.greatestSubscriptionIdentifier)
                } else if message.topic == subscription.fence {
                    subscription.progress.withLock { $0.fenceIdentifier = message.greatestSubscriptionIdentifier }
                } else {
                    if message.retain { subscription.progress.withLock { $0.retainedCount += 1 } }
                    state.collection.received(message)
                }
            }
        }
        if isWhole { retainedPictureIsWhole() }
    }

    /// Ends the gathering where the server does not tell: when the collection's own message has come back, and nothing
    /// retained has come for a while; or when both take too long, as where values are published without a pause.
    private func guessEnd(of subscription: CollectionSubscription, _ connection: UInt64?) async {
        guard let granted = try? await subscription.messages.granted() else { return }
        if subscription.willSendEndOfRetained(granted) { return }
        var hasFence = false
        if let fence = subscription.fence, granted.count < 3 || !granted[2].isError {
            hasFence = (try? await messaging.publish(Publication(fence, Payload([1]), qos: .atLeastOnce))) != nil
        }
        var retainedCount = -1
        for turn in 0..<Limits.quietTurnsMax {
            let progress = subscription.progress.withLock { ($0.retainedCount, $0.fenceIdentifier) }
            let isBack = progress.1 != nil || !hasFence || turn >= Limits.fenceTurnsMax
            if isBack, progress.0 == retainedCount { break }
            retainedCount = progress.0
            do { try await messaging.clock.sleep(for: settings.quiet) } catch { return }
        }
        if isForgotten(connection) { return }
        var isWhole = false
        change { state in
            guard state.subscription === subscription, state.collection.isGathering else { return }
            isWhole = true
            state.collection.ended(identifier: subscription.progress.withLock(\.fenceIdentifier) ?? 0)
        }
        if isWhole { retainedPictureIsWhole() }
    }
}

/// One subscription of a collection: a collection makes another when it asks for everything again.
final class CollectionSubscription: Sendable {
    /// On which a Martlet broker tells that all retained messages have come: the SUBSCRIBE names this topic beside the
    /// filter. To other servers it is a filter on which nothing comes.
    let endOfRetained: TopicName
    /// On which the collection's own message comes back.
    let fence: TopicName?
    let messages: Messages
    let progress = Locked(Progress())

    struct Progress {
        /// How many retained messages have come.
        var retainedCount = 0
        /// The Subscription Identifier of the fence message, 0 for none; nil before it comes.
        var fenceIdentifier: UInt32?
        /// The tasks that read this subscription.
        var tasks: [Task<Void, Never>] = []
    }

    /// - Parameter chance: random bits, which no other subscription has.
    init(_ messaging: any Messaging, _ filter: TopicFilter, _ settings: CollectionSettings, chance: UInt64) {
        let nonce = String(chance, radix: 16)
        endOfRetained = TopicName("$SYS/broker/subscribed/\(nonce)") ?? "$SYS/broker/subscribed/0"
        fence = settings.fence.flatMap { TopicName("\($0)/\(nonce)") }
        // What waits is lost with the process, and so is the collection: the next one asks for everything.
        var subscription = SubscriptionSettings(
            qos: max(settings.qos, .atLeastOnce),
            backlog: .hold(Limits.collectionBacklogMax, bytes: Limits.collectionBacklogBytesMax), acknowledging: .atOnce)
        subscription.retainAsPublished = true
        // Who asks a broker for the other two may be refused.
        subscription.optionalFilterCount = fence == nil ? 1 : 2
        let filters = [filter] + [endOfRetained, fence].compactMap { $0.flatMap { TopicFilter($0.bytes) } }
        messages = messaging.messages(filters, subscription)
    }

    /// Whether the server will send the end-of-retained message, by what it has granted. A Martlet broker grants QoS 0
    /// for it, whatever is asked.
    func willSendEndOfRetained(_ granted: [ReasonCode]) -> Bool {
        granted.count >= 2 && granted[1] == .grantedQoS0 && (granted[0] == .grantedQoS1 || granted[0] == .grantedQoS2)
    }

    func cancel() {
        messages.cancel()
        for task in progress.withLock({ $0.tasks }) { task.cancel() }
    }
}

/// How a collection is kept.
public struct CollectionSettings: Hashable, Sendable {
    /// When everything is asked for again.
    public var resynchronize = Resynchronize.always
    /// The highest QoS at which values come, and that of writes; at least 1, as what gets lost would never be
    /// corrected.
    public var qos = QoS.atLeastOnce
    /// How many topics the collection may have; more are left out and counted.
    public var entriesMax = 1_000_000
    /// How many bytes their names and payloads may have together; what does not fit is left out and counted.
    public var bytesMax = 256 << 20
    /// How long a write that the server has taken over may take to come back. Then it is rolled back: a server before
    /// MQTT 5.0 cannot say that it drops a message.
    public var echoPatience = Duration.seconds(10)

    // What follows is for servers that do not tell when they have sent all that they retain. Then the end is a guess: a
    // message of one's own that has come back, and silence after that. A server that is slow, or sends its retained
    // messages later than others, makes it wrong; then entries go and come back, and the collection is right again.

    /// Below which topic the collection publishes and awaits a message of its own after it has subscribed; nil for
    /// none.
    public var fence: TopicName? = "martlet/fence"
    /// How long no retained message may have come.
    public var quiet = Duration.milliseconds(250)

    /// As the properties say.
    public init() {}
}

extension CollectionSettings {
    /// When a collection asks its server for everything again.
    public enum Resynchronize: Hashable, Sendable {
        /// On each new connection: also a server that keeps the session drops messages when their queue is full, and
        /// tells nobody.
        case always
        /// Only when the server has lost the session.
        case whenSessionLost
    }
}

extension Limits {
    /// Messages that wait for a collection; when one of QoS 0 is dropped beyond them, it asks for everything anew.
    static let collectionBacklogMax = 1_000_000

    /// Bytes of these; then the same.
    static let collectionBacklogBytesMax = 64 << 20

    /// How often a collection waits for silence before it takes what it has for all: with 250 ms ten seconds.
    static let quietTurnsMax = 40

    /// How often it does so for its own message to come back; then it goes by silence alone.
    static let fenceTurnsMax = 20
}
