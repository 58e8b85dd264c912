internal import BrokerModel
internal import RowStore

extension RowSchema {
    /// The broker's: `meta`, and a table for each kind of row.
    static let broker = RowSchema(
        // "MrtL"
        applicationID: 0x4D72_744C, version: 3, key: .number, tables: [MetaTable.name] + StoreTable.allCases.map(\.name))
}

extension RowChecksum {
    static func of(_ body: UnsafeRawBufferPointer, _ table: StoreTable, key: UInt64) -> UInt64 {
        of(body, tableNumber: table.rawValue, key: key)
    }
}

/// What stays the same as long as a store lives.
///
///     seed 8 | created 8
struct StoreIdentity: Equatable, Sendable {
    /// Random: for the hashes that stand in rows, and to tell one store from another.
    let seed: UInt64
    /// Milliseconds since 1970.
    let createdAt: UInt64

    init(seed: UInt64, createdAt: UInt64) {
        self.seed = seed
        self.createdAt = createdAt
    }

    init?(decoding body: UnsafeRawBufferPointer) {
        guard body.count == 16 else { return nil }
        seed = UInt64(littleEndian: body.loadUnaligned(as: UInt64.self))
        createdAt = UInt64(littleEndian: body.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    func encoded() -> [UInt8] {
        [seed, createdAt].flatMap { value in withUnsafeBytes(of: value.littleEndian) { Array($0) } }
    }
}

/// The table `meta`: what the store knows of itself, in rows of the same kind as all others.
struct MetaTable {
    enum Row: UInt64 {
        /// A `StoreState`.
        case state = 1
        /// A `StoreIdentity`.
        case identity
    }

    static let name = "meta"
    /// No `StoreTable` has it.
    static let number: UInt8 = .max

    private let insertion: PreparedStatement
    private let update: PreparedStatement
    private let selection: PreparedStatement

    init(_ connection: SQLiteConnection) throws(SQLiteError) {
        insertion = try connection.prepare("INSERT INTO meta VALUES (?1, ?2, ?3)")
        update = try connection.prepare("UPDATE meta SET checksum = ?2, body = ?3 WHERE key = ?1")
        selection = try connection.prepare("SELECT checksum, body FROM meta WHERE key = ?1")
    }

    func insert(_ row: Row, _ body: [UInt8]) throws(SQLiteError) { try run(insertion, row, body) }

    func update(_ row: Row, _ body: [UInt8]) throws(SQLiteError) { try run(update, row, body) }

    /// Hands the row's body to `decode` if it is there and its checksum is right.
    func read<Value>(_ row: Row, _ decode: (UnsafeRawBufferPointer) -> Value?) throws(SQLiteError) -> Value? {
        selection.bind(row.rawValue, at: 1)
        defer { selection.reset() }
        guard try selection.step(), let body = selection.bytes(1),
            RowChecksum.of(body, tableNumber: Self.number, key: row.rawValue) == selection.bits(0)
        else { return nil }
        return decode(body)
    }

    private func run(_ statement: PreparedStatement, _ row: Row, _ body: [UInt8]) throws(SQLiteError) {
        var outcome: Result<Void, SQLiteError> = .success(())
        body.withUnsafeBytes { bytes in
            statement.bind(row.rawValue, at: 1)
            statement.bind(RowChecksum.of(bytes, tableNumber: Self.number, key: row.rawValue), at: 2)
            statement.bind(bytes, at: 3)
            outcome = Result { () throws(SQLiteError) in try statement.run() }
        }
        try outcome.get()
    }
}

/// What has to be in the store beside its rows, written by every commit but those of the tail.
///
/// A commit of nothing but one new entry, beyond all entries before it, writes its row and no more: half the pages.
/// Such entries are the store's tail, 63 at most. Each counts as one commit, so the state and the tail together tell
/// which commit the file is at, and what has to be in it. Of several shards, the one whose numbers are ahead has such
/// commits.
///
///     schema version 4 | commit number 8 | last entry 8 | for each table: count 8, sum 8
struct StoreState: Equatable, Sendable {
    /// Grows by one with each commit.
    var commitNumber: UInt64 = 0
    /// The highest key that an entry has had, as SQLite orders them: with a sign. What is beyond it is the tail.
    var lastEntry: Int64 = 0
    /// By the table's place in `StoreTable.allCases`.
    var tallies = [TableTally](repeating: TableTally(), count: StoreTable.allCases.count)

    init() {}

    init?(decoding body: UnsafeRawBufferPointer) {
        guard Self.version(of: body) == RowSchema.broker.version,
            body.count == Self.talliesOffset + 16 * StoreTable.allCases.count
        else { return nil }
        func read(_ offset: Int) -> UInt64 { UInt64(littleEndian: body.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        commitNumber = read(4)
        lastEntry = Int64(bitPattern: read(12))
        for index in tallies.indices {
            let offset = Self.talliesOffset + 16 * index
            tallies[index] = TableTally(count: read(offset), sum: read(offset + 8))
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
        bytes.reserveCapacity(Self.talliesOffset + 16 * tallies.count)
        withUnsafeBytes(of: RowSchema.broker.version.littleEndian) { bytes.append(contentsOf: $0) }
        for value in [commitNumber, UInt64(bitPattern: lastEntry)] + tallies.flatMap({ [$0.count, $0.sum] }) {
            withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    private static let talliesOffset = 20
}

/// What a table holds, in a form that can be kept up with each change and compared with what is found later: how many
/// rows, and the sum of their checksums. A row that vanished, came back or is older than it should be changes one of
/// the two.
struct TableTally: Equatable, Sendable {
    var count: UInt64 = 0
    /// Wraps around.
    var sum: UInt64 = 0

    mutating func add(checksum: UInt64) {
        count &+= 1
        sum &+= checksum
    }
}
