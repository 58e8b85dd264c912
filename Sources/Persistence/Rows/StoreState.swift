internal import BrokerModel

/// What has to be in the store beside its rows, written by every commit but those of the tail.
///
/// A commit of nothing but one new entry, beyond all entries before it, writes its row and no more: half the pages. Such entries are the
/// store's tail, 63 at most. Each counts as one commit, so the state and the tail together tell which commit the file is at, and what has
/// to be in it. Of several shards, the one whose numbers are ahead has such commits.
///
///     schema version 4 | commit number 8 | last entry 8 | for each table: count 8, sum 8          version 1 has no last entry, and no tail
struct StoreState: Equatable, Sendable {
    /// Grows by one with each commit.
    var commitNumber: UInt64 = 0
    /// The highest key that an entry has had, as SQLite orders them: with a sign. What is beyond it is the tail.
    var lastEntry: Int64 = 0
    /// By the table's place in `StoreTable.allCases`.
    var tallies = [TableTally](repeating: TableTally(), count: StoreTable.allCases.count)

    init() {}

    init?(decoding body: UnsafeRawBufferPointer) {
        guard let version = Self.version(of: body), (1...StoreSchema.version).contains(version) else { return nil }
        let talliesOffset = version == 1 ? 12 : 20
        guard body.count == talliesOffset + 16 * StoreTable.allCases.count else { return nil }
        func read(_ offset: Int) -> UInt64 { UInt64(littleEndian: body.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        commitNumber = read(4)
        lastEntry = version == 1 ? .max : Int64(bitPattern: read(12))
        for index in tallies.indices {
            tallies[index] = TableTally(count: read(talliesOffset + 16 * index), sum: read(talliesOffset + 16 * index + 8))
        }
    }

    /// Every version of the schema begins with its number.
    static func version(of body: UnsafeRawBufferPointer) -> UInt32? {
        body.count < 4 ? nil : UInt32(littleEndian: body.loadUnaligned(as: UInt32.self))
    }

    /// Takes in an entry of the tail.
    mutating func add(tailEntry checksum: UInt64) {
        commitNumber += 1
        tallies[Int(StoreTable.entry.rawValue)].add(checksum: checksum)
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + 16 * tallies.count)
        withUnsafeBytes(of: StoreSchema.version.littleEndian) { bytes.append(contentsOf: $0) }
        for value in [commitNumber, UInt64(bitPattern: lastEntry)] + tallies.flatMap({ [$0.count, $0.sum] }) {
            withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }
}
