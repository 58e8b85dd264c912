public import ClientCore
internal import Platform

/// What a server retains below some topics, kept here and in step with it.
///
/// ```swift
/// let temperatures = try client.collection(of: Home.temperature)
/// try await temperatures.ready()
/// let write = try await temperatures.set(22, at: .kitchen, 3)
/// try await write.confirmed()
/// for await change in temperatures.changes { print(change.added.count, change.changed.count, change.removed.count) }
/// ```
/// With each new subscription the server tells everything; what came is compared when the last of it has come, so that
/// exactly what is missing is removed, and added, changed and removed come in one commit: nothing flickers, and nothing
/// stale stays. A Martlet broker tells when that is; with others it is a guess, see ``CollectionSettings/quiet``. Local
/// writes show at once and lie over the server's values until they come back or are refused. In MQTT 5.0 only retained
/// messages count; earlier versions do not tell them from others.
///
/// A collection is kept until the value and the iterators made of it are gone, or the client ends.
public struct LiveCollection<Value: Sendable, each Part: Sendable>: Sendable {
    let shape: CollectionShape<Value, repeat each Part>
    let lease: Lease

    /// Ends the collection with the last who has it.
    final class Lease: Sendable {
        let engine: CollectionEngine

        init(_ engine: CollectionEngine) { self.engine = engine }

        deinit { engine.end() }
    }

    init(
        _ messaging: any Messaging, _ filter: TopicFilter, _ settings: CollectionSettings,
        _ shape: CollectionShape<Value, repeat each Part>
    ) throws(ClientError) {
        self.shape = shape
        lease = Lease(try CollectionEngine(messaging, filter, settings))
        lease.engine.start()
    }

    var engine: CollectionEngine { lease.engine }

    /// Waits until the server has told everything for the first time. Throws `ClientError.refused` if it refuses the
    /// subscription, and `ClientError.ended`.
    public func ready() async throws(ClientError) { try await engine.ready.wait() }

    /// Whether `ready()` would return at once. Entries of before are `stored`.
    public var isReady: Bool { engine.ready.isMade }

    /// The entries that are there now, by topic. Values are read anew at each call.
    public var entries: [Entry] {
        engine.shown.compactMap { Entry($0.topic, $0.value, shape) }
    }

    /// The entry with these parameters, if there is one.
    public subscript(parameters: repeat each Part) -> Entry? {
        guard let topic = try? shape.topic(repeat each parameters) else { return nil }
        return engine.shown(topic).flatMap { Entry(topic, $0, shape) }
    }

    /// Topics whose payload is no value, or whose parameters are none of the endpoint's, each with the reason: they are
    /// no entries.
    public var undecodable: [TopicName: ClientError] {
        shape.undecodable(engine.shown.map { ($0.topic, $0.value.content) })
    }

    /// How many messages found no room within the bounds of the settings.
    public var omittedCount: Int { engine.omittedCount }

    /// What each commit changes. The first change of every iterator is all that is there, as added; so their sum is
    /// always what is there. A consumer that is slow gets several commits as one.
    public var changes: Changes { Changes(collection: self) }

    /// All entries after each commit, by topic: the newest picture for who shows it. The first one comes when there is
    /// something to show, or when nothing is known to be there.
    public var snapshots: Snapshots { Snapshots(collection: self) }

    /// The first of all entries in an order of one's own, so many of them:
    /// `entries(limit: 60) { $0.value.at > $1.value.at }`. Of entries that come before none of one another, the topics
    /// decide.
    ///
    /// - Parameters:
    ///   - limit: how many at most.
    ///   - isBefore: whether the first comes before the second.
    public func entries(
        limit: Int, by isBefore: (Entry, Entry) -> Bool
    ) -> [Entry] {
        entries.first(limit, by: isBefore)
    }

    /// As above after each commit, as `snapshots` are.
    public func snapshots(
        limit: Int, by isBefore: @escaping @Sendable (Entry, Entry) -> Bool
    ) -> OrderedSnapshots {
        OrderedSnapshots(snapshots: snapshots, limit: limit, isBefore: isBefore)
    }

    /// Shows a value at once, as pending, and publishes it. The task may go on at once, or wait for
    /// `CollectionWrite.confirmed()`.
    ///
    /// With a store it returns when the write is on the disk: the ``Outbox`` sends it, in this run or a later one,
    /// where it is pending again until the server has it. Without one, a write that the server does not have is gone
    /// with the process.
    ///
    /// Throws `ClientError.topic` and `ClientError.unencodable`, and `ClientError.queueFull` where ten thousand writes,
    /// or 64 MiB of them, wait to be published; with a store also what `Client.enqueue` throws: the old value is back
    /// then. An empty payload is a removal.
    @discardableResult
    public func set(_ value: Value, at parameters: repeat each Part) async throws(ClientError) -> CollectionWrite {
        let topic = try shape.topic(repeat each parameters)
        return try await engine.write(try shape.encode(value, topic))
    }

    /// Removes an entry at once, and publishes that; with a store it survives the process, as above. Throws
    /// `ClientError.topic`, `ClientError.queueFull` and what `Client.enqueue` throws, as above.
    @discardableResult
    public func remove(at parameters: repeat each Part) async throws(ClientError) -> CollectionWrite {
        try await engine.write(Publication(try shape.topic(repeat each parameters)))
    }

    /// Changes some fields of what an entry shows, and publishes that as `set` does:
    /// `update(at: .kitchen) { $0.title = "new" }`. Returns nil, and publishes nothing, where there is no entry.
    ///
    /// The change is made to what is shown, be it pending or local. Where another one comes between, it is made once
    /// more, to what is shown then, so that none of this process is lost; what another client publishes in the same
    /// moment may be. Throws what `set` throws, and `ClientError.undecodable` where the topic's payload is no value.
    @discardableResult
    public func update(
        at parameters: repeat each Part, by change: (inout Value) -> Void
    ) async throws(ClientError) -> CollectionWrite? {
        let topic = try shape.topic(repeat each parameters)
        while let content = engine.shown(topic)?.content {
            var value = try shape.decode(content)
            change(&value)
            if let write = try await engine.write(try shape.encode(value, topic), over: content) { return write }
        }
        return nil
    }
}

/// Entries of the program's own beside the server's: one list of both, ordered together.
extension LiveCollection {
    /// Shows an entry of the program's own, as ``Entry/State/local``: in `entries`, `changes` and `snapshots` as all
    /// others. It is never published nor stored, and does not count for the bounds of the settings.
    ///
    /// Where the server has an entry at the same topic, or a write is pending, that one shows. A write that is
    /// confirmed there takes the local entry away for good, so `set` with its parameters, or `update`, makes it one of
    /// the server's. A value that encodes to nothing takes the local entry away, as an empty payload does with the
    /// server's. Throws `ClientError.topic` and `ClientError.unencodable`.
    public func setLocal(_ value: Value, at parameters: repeat each Part) throws(ClientError) {
        let topic = try shape.topic(repeat each parameters)
        engine.setLocal(try shape.encode(value, topic))
    }

    /// Takes an entry of the program's own away; what the server has stays. Throws `ClientError.topic`.
    public func removeLocal(at parameters: repeat each Part) throws(ClientError) {
        engine.setLocal(Publication(try shape.topic(repeat each parameters)))
    }

    /// Takes all entries of the program's own away, in one commit.
    public func removeAllLocal() { engine.change { $0.collection.removeAllLocal() } }
}

extension Messaging {
    /// Follows what the server retains at topics that match, as payloads. Begins at once, or as soon as there is a
    /// connection.
    ///
    /// Throws `ClientError.store` if what is stored cannot be read.
    public func collection(
        of filter: TopicFilter, _ settings: CollectionSettings = CollectionSettings()
    ) throws(ClientError) -> LiveCollection<Payload, TopicName> {
        try LiveCollection(self, filter, settings, plainCollectionShape)
    }

    /// Follows what the server retains at an endpoint's topics. Begins at once, or as soon as there is a connection.
    ///
    /// Throws `ClientError.settings` if the endpoint does not retain, `ClientError.store` if what is stored cannot be
    /// read.
    public func collection<Value, each Part>(
        of endpoint: Endpoint<Value, repeat each Part>, _ settings: CollectionSettings = CollectionSettings()
    ) throws(ClientError) -> LiveCollection<Value, repeat each Part> {
        var settings = settings
        settings.qos = max(settings.qos, endpoint.qos)
        return try LiveCollection(self, try endpoint.collectionFilter, settings, CollectionShape(endpoint))
    }

    /// As above, of the topics with some parameters: `Home.temperature.matching(.kitchen, nil)`.
    public func collection<Value, each Part>(
        of selection: Endpoint<Value, repeat each Part>.Selection, _ settings: CollectionSettings = CollectionSettings()
    ) throws(ClientError) -> LiveCollection<Value, repeat each Part> {
        var settings = settings
        settings.qos = max(settings.qos, selection.endpoint.qos)
        _ = try selection.endpoint.collectionFilter
        return try LiveCollection(self, try selection.filter, settings, CollectionShape(selection.endpoint))
    }
}

extension Endpoint {
    /// All its topics. Throws `ClientError.settings` if there is nothing to be collected.
    var collectionFilter: TopicFilter {
        get throws(ClientError) {
            guard retain else { throw .settings("“\(pattern.template)” is not retained: there is nothing to be kept in step with") }
            return try pattern.filter(repeat Optional<each Part>.none)
        }
    }
}

extension CollectionShape where repeat each Part: TopicParameter {
    init(_ endpoint: Endpoint<Value, repeat each Part>) {
        self.init(
            key: { (topic) throws(ClientError) in try endpoint.parameters(of: topic) },
            topic: { (parameters: repeat each Part) throws(ClientError) in try endpoint.pattern.topic(repeat each parameters) },
            decode: { (content) throws(ClientError) in
                try endpoint.coding.decode(content.payload, contentType: content.contentType)
            },
            encode: { (value, topic) throws(ClientError) in
                var publication = Publication(topic, Payload(), qos: endpoint.qos, retain: true)
                try endpoint.coding.encode(value, into: &publication)
                return publication
            })
    }
}

extension LiveCollection {
    /// What a collection has at a topic.
    public struct Entry: Sendable {
        /// The topic's parameters: a tuple, or the value itself if there is one. Of a collection without an endpoint,
        /// the topic.
        public let key: (repeat each Part)
        /// The topic at which the server retains it.
        public let topic: TopicName
        /// In `LiveCollection.Change.removed`, what was there last.
        public let value: Value
        /// In `LiveCollection.Change.changed`, what was there before.
        public let old: Value?
        /// Whether the server has told it, or it is a local write, of an earlier run, or the program's own.
        public let state: State

        /// Where an entry comes from.
        public typealias State = EntryState

        /// Nil if the topic or the payload is not what the collection is made of.
        init?(
            _ topic: TopicName, _ new: CollectionValue, old: CollectionValue? = nil,
            _ shape: CollectionShape<Value, repeat each Part>
        ) {
            guard let value = try? shape.decode(new.content) else { return nil }
            self.topic = topic
            self.value = value
            self.old = old.flatMap { try? shape.decode($0.content) }
            state = new.state
            // Last: the compiler fails on what would have to end these when a later line throws.
            do { key = try shape.key(topic) } catch { return nil }
        }
    }
}

extension LiveCollection.Entry: Identifiable {
    /// The topic: there is one entry for each.
    public var id: TopicName { topic }
}

/// Among the changed entries of a change: which fields are others.
extension LiveCollection.Entry {
    /// Whether a field is another than it was: `entry.hasChanged(\.title)`. False for an entry that was not there
    /// before.
    public func hasChanged<Field: Equatable>(_ field: KeyPath<Value, Field>) -> Bool {
        old.map { $0[keyPath: field] != value[keyPath: field] } ?? false
    }

    /// Whether a field had a value and has none now. False for an entry that was not there before.
    public func hasCleared<Field>(_ field: KeyPath<Value, Field?>) -> Bool {
        old.map { $0[keyPath: field] != nil && value[keyPath: field] == nil } ?? false
    }

    /// The names of the stored properties that are others than they were, in the order of their declaration; what they
    /// were stands in ``old``. None for an entry that was not there before, and for values without properties.
    ///
    /// Properties are compared with `==`, and those that are not `Equatable` by what they print. For one field that is
    /// known, ``hasChanged(_:)`` is quicker.
    public var changedFields: [String] {
        guard let old else { return [] }
        return zip(Mirror(reflecting: old).children, Mirror(reflecting: value).children).compactMap { before, now in
            guard let name = now.label, before.label == name, !isSame(before.value, now.value) else { return nil }
            return name
        }
    }
}

private func isSame(_ before: Any, _ now: Any) -> Bool {
    (before as? any Equatable)?.equals(now) ?? (String(reflecting: before) == String(reflecting: now))
}

extension Equatable {
    /// Nil if the other is of another type.
    fileprivate func equals(_ other: Any) -> Bool? { (other as? Self).map { $0 == self } }
}

extension LiveCollection {
    /// What one commit of a collection has changed. Entries of which only the state is another are among the changed
    /// ones.
    public struct Change: Sendable {
        /// Entries at topics where there was none.
        public private(set) var added: [Entry] = []
        /// Entries of another value or state than before.
        public private(set) var changed: [Entry] = []
        /// Entries that are gone, with what was there last.
        public private(set) var removed: [Entry] = []

        init(_ steps: [CollectionStep], _ shape: CollectionShape<Value, repeat each Part>) {
            for step in steps {
                let new = step.new.flatMap { Entry(step.topic, $0, old: step.old, shape) }
                if let new, new.old != nil {
                    changed.append(new)
                } else if let new {
                    added.append(new)
                } else if let old = step.old.flatMap({ Entry(step.topic, $0, shape) }) {
                    removed.append(old)
                }
            }
        }

        /// Whether nothing has changed.
        public var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }
}

/// What a collection's topics and payloads stand for.
struct CollectionShape<Value: Sendable, each Part: Sendable>: Sendable {
    let key: @Sendable (TopicName) throws(ClientError) -> (repeat each Part)
    let topic: @Sendable (repeat each Part) throws(ClientError) -> TopicName
    let decode: @Sendable (EntryContent) throws(ClientError) -> Value
    /// The message that says a value; the collection sets what it needs.
    let encode: @Sendable (Value, TopicName) throws(ClientError) -> Publication

    /// What stands for nothing, and why.
    func undecodable(_ contents: [(topic: TopicName, content: EntryContent)]) -> [TopicName: ClientError] {
        var errors: [TopicName: ClientError] = [:]
        for (topic, content) in contents {
            do throws(ClientError) {
                _ = try key(topic)
                _ = try decode(content)
            } catch {
                errors[topic] = error
            }
        }
        return errors
    }
}

/// Topics and payloads as they are.
let plainCollectionShape = CollectionShape<Payload, TopicName>(
    key: { $0 }, topic: { $0 }, decode: { $0.payload }, encode: { Publication($1, $0) })

extension LiveCollection {
    /// What each commit of a collection changes: an asynchronous sequence, which ends with the client.
    public struct Changes: AsyncSequence, Sendable {
        /// What comes, one at a time.
        public typealias Element = Change
        /// Waiting throws nothing: it ends with the cancellation of the task as well.
        public typealias Failure = Never

        let collection: LiveCollection

        /// For `for await`: an iterator of its own for each who asks.
        public func makeAsyncIterator() -> Iterator { Iterator(collection) }

        /// Takes what comes, for one task at a time.
        public struct Iterator: AsyncIteratorProtocol {
            private let collection: LiveCollection
            private let feed: CollectionFeed

            init(_ collection: LiveCollection) { (self.collection, feed) = (collection, collection.engine.makeFeed()) }

            /// The next change; nil when the collection has ended or the task was cancelled.
            public mutating func next() async -> Element? { await next(isolation: #isolation) }

            /// As above, in the isolation of its caller.
            public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
                while let steps = await feed.next() {
                    let change = Change(steps, collection.shape)
                    if !change.isEmpty { return change }
                }
                return nil
            }
        }
    }

    /// All entries of a collection after each commit, the newest alone for who is slow: an asynchronous sequence, which
    /// ends with the client.
    public struct Snapshots: AsyncSequence, Sendable {
        /// What comes, one at a time.
        public typealias Element = [Entry]
        /// Waiting throws nothing: it ends with the cancellation of the task as well.
        public typealias Failure = Never

        let collection: LiveCollection

        /// For `for await`: an iterator of its own for each who asks.
        public func makeAsyncIterator() -> Iterator { Iterator(collection) }

        /// Takes what comes, for one task at a time.
        public struct Iterator: AsyncIteratorProtocol {
            private let collection: LiveCollection
            private let feed: CollectionFeed
            private var picture = CollectionPicture<Value, repeat each Part>()

            init(_ collection: LiveCollection) { (self.collection, feed) = (collection, collection.engine.makeFeed()) }

            /// The next picture; nil when the collection has ended or the task was cancelled.
            public mutating func next() async -> Element? { await next(isolation: #isolation) }

            /// As above, in the isolation of its caller.
            public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
                guard let steps = await feed.next(merged: true) else { return nil }
                picture.apply(steps, collection.shape)
                return picture.entries
            }
        }
    }
}

extension LiveCollection {
    /// The first entries of a collection in an order after each commit: an asynchronous sequence, which ends with the
    /// client.
    public struct OrderedSnapshots: AsyncSequence, Sendable {
        /// What comes, one at a time.
        public typealias Element = [Entry]
        /// Waiting throws nothing: it ends with the cancellation of the task as well.
        public typealias Failure = Never

        let snapshots: Snapshots
        let limit: Int
        let isBefore: @Sendable (Entry, Entry) -> Bool

        /// For `for await`: an iterator of its own for each who asks.
        public func makeAsyncIterator() -> Iterator { Iterator(snapshots.makeAsyncIterator(), limit, isBefore) }

        /// Takes what comes, for one task at a time.
        public struct Iterator: AsyncIteratorProtocol {
            private var all: Snapshots.Iterator
            private let limit: Int
            private let isBefore: @Sendable (Entry, Entry) -> Bool

            init(
                _ all: Snapshots.Iterator, _ limit: Int,
                _ isBefore: @escaping @Sendable (Entry, Entry) -> Bool
            ) {
                (self.all, self.limit, self.isBefore) = (all, limit, isBefore)
            }

            /// The next picture; nil when the collection has ended or the task was cancelled.
            public mutating func next() async -> Element? { await next(isolation: #isolation) }

            /// As above, in the isolation of its caller.
            public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
                await all.next(isolation: isolation)?.first(limit, by: isBefore)
            }
        }
    }
}

extension Array {
    /// The first elements in an order; those that come before none of one another stay in theirs.
    func first(_ limit: Int, by isBefore: (Element, Element) -> Bool) -> [Element] {
        let sorted = enumerated().sorted {
            isBefore($0.element, $1.element) || (!isBefore($1.element, $0.element) && $0.offset < $1.offset)
        }
        return sorted.prefix(Swift.max(0, limit)).map(\.element)
    }
}

/// Entries by topic, as changes make them: only what has changed is read again.
struct CollectionPicture<Value: Sendable, each Part: Sendable> {
    private var entriesByTopic: [TopicName: LiveCollection<Value, repeat each Part>.Entry] = [:]
    private var topics: [TopicName] = []

    mutating func apply(_ steps: [CollectionStep], _ shape: CollectionShape<Value, repeat each Part>) {
        let before = entriesByTopic.count
        var isSorted = true
        for step in steps {
            let entry = step.new.flatMap { LiveCollection<Value, repeat each Part>.Entry(step.topic, $0, shape) }
            let isKnown = entriesByTopic[step.topic] != nil
            if isKnown != (entry != nil) { isSorted = false }
            entriesByTopic[step.topic] = entry
        }
        if isSorted, before == entriesByTopic.count { return }
        topics = entriesByTopic.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    var entries: [LiveCollection<Value, repeat each Part>.Entry] { topics.compactMap { entriesByTopic[$0] } }
}
