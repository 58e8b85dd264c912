internal import BrokerModel
internal import CSQLite
internal import SQLite

/// Reads all rows of one table, in the order of their keys; where pages cannot be read, whatever lies around them.
///
///     ──up──► ✗ … gap … ✗ ◄──down──         then from the middle of the gap both ways, and so on in what is left of it
///
/// A key is never visited twice, whatever the pages say: within a range the keys have to rise, or to fall.
struct TableScan {
    typealias Visit = (_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool

    private enum Direction { case up, down }

    /// What was read and is right.
    private(set) var tally = TableTally()
    /// Rows whose checksum is wrong.
    private(set) var damagedCount: UInt64 = 0
    private(set) var damages: [StoreDamage] = []
    private let table: StoreTable
    private let rising: PreparedStatement
    private let falling: PreparedStatement
    private var failure: SQLiteError?

    init(_ connection: SQLiteConnection, _ table: StoreTable) throws(SQLiteError) {
        self.table = table
        let selection = "SELECT key, checksum, body FROM \(table.name) WHERE key BETWEEN ?1 AND ?2 ORDER BY key"
        rising = try connection.prepare(selection)
        falling = try connection.prepare("\(selection) DESC")
    }

    /// Calls `visit` with each row that is right; a row for which it returns false has no meaning to the core.
    mutating func run(_ visit: Visit) {
        // SQLite's integers are signed: the upper half of the keys comes first there.
        for half in [0...UInt64(Int64.max), UInt64(bitPattern: .min)...UInt64.max] { readHalf(half, visit) }
        if let failure { damages.append(StoreDamage(table, .unreadable(failure))) }
    }

    private mutating func readHalf(_ half: ClosedRange<UInt64>, _ visit: Visit) {
        guard let low = read(half, .up, visit) else { return }
        guard let high = read(low...half.upperBound, .down, visit) else { return }
        var gaps = [(low, high)]
        var probesLeft = Limits.probesMax
        while probesLeft > 0, !gaps.isEmpty {
            let (low, high) = gaps.removeFirst()
            guard low < high else { continue }
            probesLeft -= 1
            let middle = low + (high - low) / 2
            if let end = read(low...middle, .down, visit) { gaps.append((low, min(end, middle))) }
            if middle < high, let start = read((middle + 1)...high, .up, visit) { gaps.append((max(start, middle + 1), high)) }
        }
    }

    /// Reads a range from one of its ends; the first key that was not reached if the pages let it come no further, else nil.
    private mutating func read(_ range: ClosedRange<UInt64>, _ direction: Direction, _ visit: Visit) -> UInt64? {
        let selection = direction == .up ? rising : falling
        defer { selection.reset() }
        selection.bind(range.lowerBound, at: 1)
        selection.bind(range.upperBound, at: 2)
        var next = direction == .up ? range.lowerBound : range.upperBound
        do throws(SQLiteError) {
            while try selection.step() {
                let key = selection.bits(0)
                guard range.contains(key), direction == .up ? key >= next : key <= next else {
                    throw SQLiteError(code: SQLITE_CORRUPT, message: "keys out of order")
                }
                receive(selection, key, visit)
                if key == (direction == .up ? range.upperBound : range.lowerBound) { return nil }
                next = direction == .up ? key + 1 : key - 1
            }
            return nil
        } catch {
            failure = failure ?? error
            return next
        }
    }

    private mutating func receive(_ selection: PreparedStatement, _ key: UInt64, _ visit: Visit) {
        guard let body = selection.bytes(2), RowChecksum.of(body, table, key: key) == selection.bits(1) else {
            damagedCount += 1
            damages.append(StoreDamage(table, key: key, .checksum))
            return
        }
        tally.add(checksum: selection.bits(1))
        if !visit(key, body) { damages.append(StoreDamage(table, key: key, .meaning)) }
    }
}
