internal import BrokerCore

/// What one commit leaves behind beside its rows: written by each, so that it tells which commit the file is at, and what has to be in it.
///
///     schema version 4 | commit number 8 | for each table: count 8, sum 8
struct StoreState: Equatable, Sendable {
    /// Grows by one with each commit.
    var commitNumber: UInt64 = 0
    /// By the table's place in `StoreTable.allCases`.
    var tallies = [TableTally](repeating: TableTally(), count: StoreTable.allCases.count)

    init() {}

    init?(decoding body: UnsafeRawBufferPointer) {
        guard body.count == Self.size, Self.version(of: body) == StoreSchema.version else { return nil }
        func read(_ offset: Int) -> UInt64 { UInt64(littleEndian: body.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        commitNumber = read(4)
        for index in tallies.indices {
            tallies[index] = TableTally(count: read(12 + 16 * index), sum: read(20 + 16 * index))
        }
    }

    /// Every version of the schema begins with its number.
    static func version(of body: UnsafeRawBufferPointer) -> UInt32? {
        body.count < 4 ? nil : UInt32(littleEndian: body.loadUnaligned(as: UInt32.self))
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.size)
        withUnsafeBytes(of: StoreSchema.version.littleEndian) { bytes.append(contentsOf: $0) }
        for value in [commitNumber] + tallies.flatMap({ [$0.count, $0.sum] }) {
            withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    private static let size = 12 + 16 * StoreTable.allCases.count
}
