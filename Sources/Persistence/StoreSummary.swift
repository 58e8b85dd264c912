public import BrokerModel

/// What a check of a store has found.
public struct StoreSummary: Sendable {
    /// Empty if it is well.
    public let damages: [StoreDamage]
    /// How many records can be read, by the table's place in `StoreTable.allCases`.
    private let counts: [UInt64]
    /// The number of the last commit; nil if it cannot be read.
    public let commitNumber: UInt64?
    /// Milliseconds since 1970; nil if it cannot be read.
    public let createdAt: UInt64?

    init(_ inspection: StoreInspection, _ visit: StoreLoader.Visit) {
        let loader = StoreLoader(inspection.connection, inspection.state, visit)
        damages = inspection.damages + loader.damages
        counts = loader.counts
        commitNumber = inspection.state?.commitNumber
        createdAt = inspection.identity?.createdAt
    }

    /// How many records of a table can be read.
    public func count(of table: StoreTable) -> UInt64 { counts[Int(table.rawValue)] }
}
