/// The scans of retained messages that are under way on a shard.
struct ScanTable {
    struct Entry {
        let number: UInt64
        let query: RetainedQuery
        var scan: RetainedScan
        /// For a scan on behalf of another shard: how many messages that shard still takes.
        var credit: Int
    }

    var entries: [Entry] = []
    private var lastNumber: UInt64 = 0
    /// Which entry has the first turn next.
    var next = 0
    /// Whether a scan stopped only because its steps for the turn were used up.
    var hasReadyScan = false

    mutating func add(_ query: RetainedQuery, _ scan: RetainedScan, credit: Int) {
        lastNumber += 1
        entries.append(Entry(number: lastNumber, query: query, scan: scan, credit: credit))
        hasReadyScan = true
    }

    mutating func grant(_ number: UInt64, credit: Int) {
        guard let position = entries.firstIndex(where: { $0.number == number }) else { return }
        entries[position].credit += credit
        hasReadyScan = true
    }

    /// Removes the scans for a session and returns them.
    mutating func removeAll(of sessionKey: UInt64) -> [Entry] {
        let removed = entries.filter { $0.query.sessionKey == sessionKey }
        if !removed.isEmpty { entries.removeAll { $0.query.sessionKey == sessionKey } }
        return removed
    }
}
