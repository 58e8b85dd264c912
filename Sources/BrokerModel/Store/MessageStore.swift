/// What keeps the broker's state through a crash. The core knows no more of it than this.
///
/// The calls return at once; what comes of them is reported later, to the shard that asked and on its thread.
public protocol MessageStore: AnyObject, Sendable {
    /// Makes a shard's batch durable, in one commit with what other shards have given meanwhile. A shard gives the next
    /// batch when this one is reported `committed`.
    func commit(_ batch: JournalBatch, of shard: Int)
    /// Reads rows that were committed.
    func read(_ request: StoreRequest, for shard: Int)
    /// What the last commit left. For any thread, at once.
    var figures: StoreFigures { get }
}

/// Changes of the store in the order in which they happened: one shard's part of a commit, all of it or nothing.
///
///     [ header | body ][ header | body ] …        a header is 16 bytes; a record that was taken back is passed over
///
/// Filled by one shard, then given to the store and never touched again: hence unchecked.
public final class JournalBatch: @unchecked Sendable {
    package struct Header: BitwiseCopyable {
        package var bodyCount: UInt32
        /// `JournalRecord.Operation`, or 0 for a record that was taken back.
        package var operation: UInt8
        package var table: UInt8
        package var padding: UInt16 = 0
        package var key: UInt64
    }

    private var block: UnsafeMutableRawPointer
    private var capacity: Int
    public private(set) var byteCount = 0
    /// How many records stand.
    public private(set) var liveCount = 0
    /// The shard's sequence number that the store has reached when the batch is committed.
    public package(set) var lastSequence: UInt64 = 0

    public init(capacity: Int = 16 * 1024) {
        self.capacity = capacity
        block = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { block.deallocate() }

    /// Whether nothing stands in it.
    public var isEmpty: Bool { liveCount == 0 }

    /// Adds a copy of a record.
    public func append(_ record: JournalRecord) {
        let offset = append(record.operation, record.table, key: record.key, bodyCount: record.body.count)
        if let source = record.body.baseAddress { body(at: offset).copyMemory(from: source, byteCount: record.body.count) }
    }

    /// Calls `visit` with each record that stands, in order.
    public func forEach<Failure>(_ visit: (JournalRecord) throws(Failure) -> Void) throws(Failure) {
        var offset = 0
        while offset < byteCount {
            let header = header(at: offset)
            let body = UnsafeRawBufferPointer(start: block + offset + Self.headerSize, count: Int(header.bodyCount))
            offset += Self.size(of: header.bodyCount)
            guard let operation = JournalRecord.Operation(rawValue: header.operation),
                let table = StoreTable(rawValue: header.table)
            else { continue }
            try visit(JournalRecord(operation, table, key: header.key, body: body))
        }
    }

    /// Adds a record whose body the caller fills in at once; returns where it stands.
    package func append(_ operation: JournalRecord.Operation, _ table: StoreTable, key: UInt64, bodyCount: Int) -> Int {
        let size = Self.size(of: UInt32(bodyCount))
        if capacity - byteCount < size { grow(size) }
        let offset = byteCount
        (block + offset).storeBytes(
            of: Header(bodyCount: UInt32(bodyCount), operation: operation.rawValue, table: table.rawValue, key: key),
            as: Header.self)
        byteCount += size
        liveCount += 1
        return offset
    }

    package func header(at offset: Int) -> Header { (block + offset).load(as: Header.self) }

    package func body(at offset: Int) -> UnsafeMutableRawPointer { block + offset + Self.headerSize }

    /// Takes a record back.
    package func kill(at offset: Int) {
        (block + offset + MemoryLayout<Header>.offset(of: \.operation).unsafelyUnwrapped).storeBytes(of: 0, as: UInt8.self)
        liveCount -= 1
    }

    /// Forgets all records; the memory stays.
    package func reset() { (byteCount, liveCount, lastSequence) = (0, 0, 0) }

    private func grow(_ count: Int) {
        while capacity - byteCount < count { capacity *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: block, byteCount: byteCount)
        block.deallocate()
        block = larger
    }

    private static let headerSize = MemoryLayout<Header>.size

    /// Records begin at multiples of eight bytes.
    private static func size(of bodyCount: UInt32) -> Int { headerSize + (Int(bodyCount) + 7) & ~7 }
}

/// One change of the store, as the core wants it.
public struct JournalRecord {
    public enum Operation: UInt8, Sendable {
        /// The key is new in its table.
        case insert = 1
        /// The key is there.
        case update
        /// The key may be there; the body is empty.
        case delete
    }

    public let operation: Operation
    public let table: StoreTable
    public let key: UInt64
    /// Valid as long as the batch that holds it.
    public let body: UnsafeRawBufferPointer

    public init(_ operation: Operation, _ table: StoreTable, key: UInt64, body: UnsafeRawBufferPointer) {
        self.operation = operation
        self.table = table
        self.key = key
        self.body = body
    }
}

/// How much a store holds, as its last commit left it.
public struct StoreFigures: Equatable, Sendable {
    /// Bytes of the database that are in use, without its log.
    public var bytes: UInt64
    /// Records of every kind.
    public var rows: UInt64
    /// Since the store was made.
    public var commits: UInt64

    public init(bytes: UInt64, rows: UInt64, commits: UInt64) {
        self.bytes = bytes
        self.rows = rows
        self.commits = commits
    }
}

/// Rows that a shard wants to read for a session.
public struct StoreRequest: Sendable {
    public struct Row: Sendable, Hashable {
        public let table: StoreTable
        public let key: UInt64

        public init(_ table: StoreTable, key: UInt64) {
            self.table = table
            self.key = key
        }
    }

    package let sessionIndex: UInt32
    package let sessionKey: UInt64
    /// The entries that wait for the rows, by place.
    package let entries: [UInt64]
    public let rows: [Row]
    /// Whether they are of the part of a queue of which memory has nothing.
    package var isPaged = false
    /// Whether a command looks for topics among them.
    package var isPurge = false
    /// Of a session that leaves: which time its queue is read; 0 for another one.
    package var departureRound = 0

    package init(
        sessionIndex: UInt32, sessionKey: UInt64, entries: [UInt64], rows: [Row], isPaged: Bool = false, isPurge: Bool = false,
        departureRound: Int = 0
    ) {
        self.sessionIndex = sessionIndex
        self.sessionKey = sessionKey
        self.entries = entries
        self.rows = rows
        self.isPaged = isPaged
        self.isPurge = isPurge
        self.departureRound = departureRound
    }
}

/// The rows that a shard asked for.
public struct StoreRows: Sendable {
    public let request: StoreRequest
    /// By place in the request; nil for a row that is missing or damaged.
    public let bodies: [[UInt8]?]

    public init(answering request: StoreRequest, bodies: [[UInt8]?]) {
        precondition(bodies.count == request.rows.count, "every row that was asked for has an answer")
        self.request = request
        self.bodies = bodies
    }
}

/// What a store tells a shard.
public enum StoreReport: Sendable {
    /// All changes up to this sequence number would survive a power cut.
    case committed(through: UInt64)
    /// To every shard: there is no room; the store keeps the batches that it has and tries again.
    case full
    /// To every shard, after `full`: what was kept waiting is committed.
    case hasRoom
    /// The store does not know what is on the disk and takes nothing more until the broker is started again.
    case failed
    /// The answer to a request.
    case rows(StoreRows)
}

/// Whether the store takes what it is given.
package enum StoreHealth: UInt8 {
    case good
    /// The disk is full, or the store has reached its bound: nothing new is promised until there is room.
    case full
    /// The store has failed for good: nothing is promised any more.
    case failed

    /// As `$SYS` says it.
    package var word: String {
        switch self {
        case .good: "ok"
        case .full: "full"
        case .failed: "failed"
        }
    }
}
