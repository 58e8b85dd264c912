internal import ClientCore
internal import ClientStore
internal import Glibc
internal import Platform

/// What a client's collection has stored, read without a client or a network: by another task, or another process.
///
/// ```swift
/// let reader = try CollectionReader(Home.temperature, in: "panel.db")
/// let warm = try reader.entries { $0.value > 25 }
/// for await change in reader.changes { print(change.added.count, change.changed.count, change.removed.count) }
/// ```
/// Only what the server has told or taken over is stored: no other pending writes. All entries are `stored`: how old
/// they are the reader cannot know.
public struct CollectionReader<Value: Sendable, each Part: Sendable>: Sendable {
    private let shape: CollectionShape<Value, repeat each Part>
    private let store: StoredCollection

    /// Throws `ClientError.store` if there is no store, or none that can be read.
    public init(
        _ endpoint: Endpoint<Value, repeat each Part>, in path: String
    ) throws(ClientError) where repeat each Part: TopicParameter {
        try self.init(try endpoint.collectionFilter, path, CollectionShape(endpoint))
    }

    init(_ filter: TopicFilter, _ path: String, _ shape: CollectionShape<Value, repeat each Part>) throws(ClientError) {
        self.shape = shape
        store = try StoredCollection(path, "\(filter)")
    }

    /// The entries that are stored now and fulfil the condition, by topic. Throws `ClientError.store`, and what the
    /// condition throws.
    public func entries(where isWanted: (LiveCollection<Value, repeat each Part>.Entry) throws -> Bool = { _ in true }) throws
        -> [LiveCollection<Value, repeat each Part>.Entry]
    {
        try store.read().compactMap {
            LiveCollection<Value, repeat each Part>.Entry($0.topic, CollectionValue($0.content, .stored), shape)
        }.filter(isWanted)
    }

    /// Topics whose payload is no value, or whose parameters are none of the endpoint's, each with the reason: they are
    /// no entries. Throws `ClientError.store`.
    public func undecodable() throws(ClientError) -> [TopicName: ClientError] {
        shape.undecodable(try store.read().map { ($0.topic, $0.content) })
    }

    /// What changes, in one change for what was stored since the last look. The first one is all that is there, as
    /// added. The store is read as a whole when the client has committed; while it cannot be read, nothing changes.
    public var changes: Changes { Changes(shape: shape, store: store) }

    /// The changes of a store, which end with the cancellation of the task alone: an asynchronous sequence.
    public struct Changes: AsyncSequence, Sendable {
        /// What comes, one at a time.
        public typealias Element = LiveCollection<Value, repeat each Part>.Change
        /// Waiting throws nothing: it ends with the cancellation of the task as well.
        public typealias Failure = Never

        let shape: CollectionShape<Value, repeat each Part>
        let store: StoredCollection

        /// For `for await`: an iterator of its own for each who asks.
        public func makeAsyncIterator() -> Iterator {
            Iterator(shape: shape, store: store, commits: store.commits().makeAsyncIterator())
        }

        /// Takes what comes, for one task at a time.
        public struct Iterator: AsyncIteratorProtocol {
            let shape: CollectionShape<Value, repeat each Part>
            let store: StoredCollection
            var commits: AsyncStream<Void>.AsyncIterator
            var known: [TopicName: EntryContent] = [:]
            var version: Int64?

            /// The next change; nil when the task was cancelled.
            public mutating func next() async -> Element? { await next(isolation: #isolation) }

            /// As above, in the isolation of its caller.
            public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
                while await commits.next(isolation: isolation) != nil {
                    guard let version = try? store.version(), version != self.version, let rows = try? store.read() else {
                        continue
                    }
                    // Read before the rows: what is committed between is looked at once more.
                    self.version = version
                    let change = LiveCollection<Value, repeat each Part>.Change(steps(to: rows), shape)
                    if !change.isEmpty { return change }
                }
                return nil
            }

            private mutating func steps(to rows: [EntryRow]) -> [CollectionStep] {
                let new = Dictionary(rows.map { ($0.topic, $0.content) }) { $1 }
                let gone = known.keys.filter { new[$0] == nil }.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
                let topics = gone + rows.map(\.topic).filter { known[$0] != new[$0] }
                let steps = topics.map { topic in
                    CollectionStep(
                        topic, old: known[topic].map { CollectionValue($0, .stored) },
                        new: new[topic].map { CollectionValue($0, .stored) })
                }
                known = new
                return steps
            }
        }
    }
}

extension Client {
    /// A reader of what a client's collection of a filter has stored: topics and payloads as they are.
    ///
    /// Throws `ClientError.topic` if the text is no filter, and `ClientError.store` if there is no store, or none that
    /// can be read.
    ///
    /// - Parameters:
    ///   - filter: that of the collection.
    ///   - path: of the store's file.
    public static func readCollection(
        of filter: String, in path: String
    ) throws(ClientError) -> CollectionReader<Payload, TopicName> {
        try readCollection(of: try TopicFilter(validating: filter), in: path)
    }

    /// As above.
    public static func readCollection(
        of filter: TopicFilter, in path: String
    ) throws(ClientError) -> CollectionReader<Payload, TopicName> {
        try CollectionReader(filter, path, plainCollectionShape)
    }
}

/// A collection's rows in a store.
final class StoredCollection: Sendable {
    private let reader: StoreReader
    private let name: String

    init(_ path: String, _ name: String) throws(ClientError) {
        self.name = name
        do throws(StoreError) { reader = try StoreReader(path) } catch { throw .store("\(error)") }
    }

    func version() throws(ClientError) -> Int64 {
        do throws(StoreError) { return try reader.version() } catch { throw .store("\(error)") }
    }

    /// All rows, by topic.
    func read() throws(ClientError) -> [EntryRow] {
        do throws(StoreError) {
            return try reader.rows(EntryRow.all(of: name)).rows.compactMap { EntryRow($0, of: name) }
        } catch {
            throw .store("\(error)")
        }
    }

    /// Something at once, and whenever entries may have changed: told by the kernel, or ten times a second where it
    /// cannot.
    func commits() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        continuation.yield()
        if let watch = FileWatch(reader.watchedPath, { continuation.yield() }) {
            // The file may have changed before the watch began.
            continuation.yield()
            continuation.onTermination = { _ in withExtendedLifetime(watch) {} }
        } else {
            let polling = Task {
                while !Task.isCancelled {
                    try? await ContinuousClock().sleep(for: .milliseconds(Limits.storePollMilliseconds))
                    continuation.yield()
                }
            }
            continuation.onTermination = { _ in polling.cancel() }
        }
        return stream
    }
}

/// Tells when a file's times change. A thread sleeps in the kernel for it.
final class FileWatch: Sendable {
    private let descriptor: Int32
    private let watch: Int32

    /// Nil where the kernel allows no more watches, or there is no such file.
    ///
    /// - Parameter changed: on the thread of the watch; what is done there keeps it from seeing the next change.
    init?(_ path: String, _ changed: @escaping @Sendable () -> Void) {
        let descriptor = inotify_init1(O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let watch = inotify_add_watch(descriptor, path, UInt32(IN_ATTRIB))
        guard watch >= 0,
            // The thread closes the descriptor, so that nobody else's gets its number while it reads.
            (try? NamedThread.start(name: "client watch") { Self.run(descriptor, changed) }) != nil
        else {
            close(descriptor)
            return nil
        }
        (self.descriptor, self.watch) = (descriptor, watch)
    }

    /// Ends the thread: it reads that the watch is gone.
    deinit { inotify_rm_watch(descriptor, watch) }

    private static func run(_ descriptor: Int32, _ changed: () -> Void) {
        let size = 64 * (MemoryLayout<inotify_event>.size + 256)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: MemoryLayout<inotify_event>.alignment)
        defer {
            buffer.deallocate()
            close(descriptor)
        }
        while true {
            let count = read(descriptor, buffer.baseAddress, size)
            if count < 0, errno == EINTR { continue }
            guard count > 0, !isOver(UnsafeRawBufferPointer(rebasing: buffer[..<count])) else { return }
            changed()
        }
    }

    /// Whether one of these events says that the watch is gone, or the file.
    private static func isOver(_ events: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset + MemoryLayout<inotify_event>.size <= events.count {
            let event = events.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
            if event.mask & UInt32(IN_IGNORED) != 0 { return true }
            offset += MemoryLayout<inotify_event>.size + Int(event.len)
        }
        return false
    }
}

extension Limits {
    /// Milliseconds between two looks at a store whose file the kernel cannot watch.
    static let storePollMilliseconds = 100
}
