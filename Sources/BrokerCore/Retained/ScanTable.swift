/// The scans of retained messages that are under way on a shard.
struct ScanTable {
    struct Entry {
        let number: UInt64
        let query: RetainedQuery
        var scan: RetainedScan
        /// For a scan on behalf of another shard: how many messages it may still send.
        private(set) var credit: Int
        /// How many it has sent since it last asked for more.
        private var unasked = 0

        init(number: UInt64, query: RetainedQuery, scan: RetainedScan) {
            self.number = number
            self.query = query
            self.scan = scan
            credit = query.credit
        }

        /// A message of it goes to another shard. Returns how many more are to be granted once that has taken it; mostly 0.
        ///
        /// Each KiB beyond the first counts as a message more: what waits for a receiver that does not read is bounded in bytes, too.
        mutating func send(byteCount: Int) -> UInt32 {
            let count = 1 + byteCount / 1024
            credit -= count
            unasked += count
            guard unasked >= (query.credit + 1) / 2 else { return 0 }
            defer { unasked = 0 }
            return UInt32(unasked)
        }

        mutating func grant(_ count: Int) { credit += count }
    }

    var entries: [Entry] = []
    private var lastNumber: UInt64 = 0
    /// Which entry has the first turn next.
    var next = 0
    /// Whether a scan stopped only because its steps for the turn were used up.
    var hasReadyScan = false

    mutating func add(_ query: RetainedQuery, _ scan: RetainedScan) {
        lastNumber += 1
        entries.append(Entry(number: lastNumber, query: query, scan: scan))
        hasReadyScan = true
    }

    mutating func grant(_ number: UInt64, _ count: Int) {
        guard let position = entries.firstIndex(where: { $0.number == number }) else { return }
        entries[position].grant(count)
        hasReadyScan = true
    }

    /// Removes the scans for a session and returns them.
    mutating func removeAll(of sessionKey: UInt64) -> [Entry] {
        let removed = entries.filter { $0.query.sessionKey == sessionKey }
        if !removed.isEmpty { entries.removeAll { $0.query.sessionKey == sessionKey } }
        return removed
    }
}
