internal import ClientCore

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

    /// All entries of a collection after each commit, the newest alone for who is slow: an asynchronous sequence, which ends with the client.
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
    /// The first entries of a collection in an order after each commit: an asynchronous sequence, which ends with the client.
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
