/// The last entries of the audit of one kind. Invariant: at most `Limits.auditEntriesMax`, and at most `Limits.auditBytesMax` bytes of their lines,
/// or one entry.
struct AuditRing {
    struct Kept {
        /// In the order of both rings.
        let number: UInt64
        let entry: AuditEntry
        let byteCount: Int
    }

    private var kept: [Kept] = []
    /// Where the oldest is; those before it are gone.
    private var first = 0
    private(set) var byteCount = 0

    var count: Int { kept.count - first }

    mutating func add(_ entry: AuditEntry, number: UInt64, byteCount: Int) {
        kept.append(Kept(number: number, entry: entry, byteCount: byteCount))
        self.byteCount += byteCount
        while count > 1, count > Limits.auditEntriesMax || self.byteCount > Limits.auditBytesMax {
            self.byteCount -= kept[first].byteCount
            first += 1
        }
        guard first > Limits.auditEntriesMax else { return }
        kept.removeFirst(first)
        first = 0
    }

    /// The newest first.
    func last(_ count: Int) -> [Kept] { kept[first...].suffix(count).reversed() }
}
