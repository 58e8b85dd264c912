/// Rows of subscriptions that say yet that retained messages are owed for them, which were found or acknowledged: some are written in each turn.
///
/// A crash before finds the older row, and what it says is owed is looked for once more.
struct UnsettledRows {
    /// The unsettled rows of a session.
    struct Rows {
        let sessionIndex: UInt32
        let sessionKey: UInt64
        fileprivate let filters: [[UInt8]]
    }

    private var rows: [Rows] = []
    /// How many at the front of the first one's filters are done with.
    private var position = 0

    var isEmpty: Bool { rows.isEmpty }

    mutating func add(_ filters: [[UInt8]], sessionIndex: UInt32, sessionKey: UInt64) {
        guard !filters.isEmpty else { return }
        rows.append(Rows(sessionIndex: sessionIndex, sessionKey: sessionKey, filters: filters))
    }

    /// The filter whose row is next; nil if there is none.
    mutating func next() -> (rows: Rows, filter: [UInt8])? {
        guard let first = rows.first else { return nil }
        let filter = first.filters[position]
        position += 1
        if position == first.filters.count {
            rows.removeFirst()
            position = 0
        }
        return (first, filter)
    }
}
