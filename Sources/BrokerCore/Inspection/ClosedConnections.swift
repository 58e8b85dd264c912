import BrokerModel
import MQTTCodec

/// The last connections of a shard that have ended.
///
/// Strangers choose the names in it: long ones are cut. Invariant: at most its part of `Limits.closedConnectionsMax`,
/// and of `Limits.closedConnectionsBytesMax`; the oldest go for the next one.
struct ClosedConnections {
    private var rows: RecentEntries<ClosedConnectionRow>
    private var number: UInt64 = 0
    private let shard: UInt64
    private let shardCount: Int

    init(shard: Int, shardCount: Int, memoryMax: Int = 0) {
        (self.shard, self.shardCount) = (UInt64(shard), shardCount)
        rows = Self.rows(shardCount, memoryMax)
    }

    var count: Int { rows.count }

    /// The bytes of memory that they take.
    var heldBytes: Int { rows.byteCount }

    /// Another `memory_limit` holds, 0 for none: what clients need is not taken up by those who are gone.
    mutating func bound(memoryMax: Int) {
        var bounded = Self.rows(shardCount, memoryMax)
        guard bounded.bytesMax != rows.bytesMax else { return }
        for row in rows.all { bounded.add(row, textBytes: row.textBytes) }
        rows = bounded
    }

    private static func rows(_ shardCount: Int, _ memoryMax: Int) -> RecentEntries<ClosedConnectionRow> {
        let bytes = Limits.closedConnectionsBytesMax
        return RecentEntries(
            countMax: Limits.closedConnectionsMax / shardCount,
            bytesMax: (memoryMax > 0 ? min(bytes, memoryMax / Limits.closedConnectionsMemoryShare) : bytes) / shardCount)
    }

    /// Where the next one will stand.
    mutating func nextPosition(at now: UInt64) -> ClosedPosition {
        number += 1
        return ClosedPosition(at: now, number: number << 8 | shard)
    }

    mutating func add(_ row: ClosedConnectionRow) { rows.add(row, textBytes: row.textBytes) }

    /// The closed connections that are selected, the last first, and whether there are more; names are cut as they are
    /// in the rows. O(all).
    func rows(_ selection: ClosedSelection, max rowsMax: Int) -> (rows: [ClosedConnectionRow], hasMore: Bool) {
        var found: [ClosedConnectionRow] = []
        for age in 0..<rows.count {
            guard let row = rows.entry(ofAge: age), selection.selects(row) else { continue }
            guard found.count < rowsMax else { return (found, true) }
            found.append(row)
        }
        return (found, false)
    }
}

extension ClosedConnectionRow {
    /// The bytes of memory that it takes beside its own slot.
    fileprivate var textBytes: Int {
        [clientIdentifier?.bytes.count, userName?.bytes.count, address.utf8.count, words.utf8.count].reduce(0) { sum, count in
            // Of no bytes, and of a few bytes in a string, nothing is allocated; else what an allocation and its head
            // take.
            sum + (count.map { $0 > 0 ? $0 + 48 : 0 } ?? 0)
        }
    }
}

extension Limits {
    /// Closed connections, of all shards together; the oldest goes for the next one. Bytes:
    /// `closedConnectionsBytesMax`.
    static let closedConnectionsMax = 10_000

    /// Bytes of memory that they take, of all shards together; the oldest go for the next one.
    static let closedConnectionsBytesMax = 8 << 20

    /// Where there is a `memory_limit`, they take at most one byte in so many of it.
    static let closedConnectionsMemoryShare = 16
}
