internal import BrokerModel
internal import SQLite

/// Reads every row of a store, and compares what it finds with what the last commit left.
struct StoreLoader {
    /// A row's table, key and body; false if it has no meaning.
    typealias Visit = (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool

    private(set) var damages: [StoreDamage] = []
    /// How many rows are right, by the table's place in `StoreTable.allCases`.
    private(set) var counts = [UInt64](repeating: 0, count: StoreTable.allCases.count)

    /// - Parameter state: nil if it cannot be read, and nothing to compare with.
    init(_ connection: SQLiteConnection, _ state: StoreState?, _ visit: Visit) {
        for table in StoreTable.inOrderOfRecovery {
            let place = Int(table.rawValue)
            do throws(SQLiteError) {
                var scan = try TableScan(connection, table)
                scan.run { key, body in visit(table, key, body) }
                damages += scan.damages
                counts[place] = scan.tally.count
                if let state { compare(scan, with: state.tallies[place], table) }
            } catch {
                damages.append(StoreDamage(table, .unreadable(error)))
            }
        }
    }

    private mutating func compare(_ scan: TableScan, with expected: TableTally, _ table: StoreTable) {
        let found = scan.tally.count + scan.damagedCount
        if found < expected.count {
            damages.append(StoreDamage(table, .missing(expected.count - found)))
        } else if scan.damagedCount == 0 ? scan.tally != expected : found > expected.count {
            damages.append(StoreDamage(table, .content))
        }
    }
}
