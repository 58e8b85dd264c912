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
