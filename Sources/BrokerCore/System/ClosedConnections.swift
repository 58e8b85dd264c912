public import MQTTCodec

/// A connection that has ended, or a client that was not let in. Times are milliseconds on the shard's clock.
public struct ClosedConnectionRow: Sendable {
    /// Where it stands among all of all shards, the later the higher.
    public let position: ClosedPosition
    /// Nil where the client never said; cut if it is long, and so are other names.
    public let clientIdentifier: EncodedString?
    public let userName: EncodedString?
    public let address: String
    public let port: UInt16
    /// An index into `BrokerSettings.listeners`.
    public let listener: Int
    /// Whether the client was let in.
    public let wasAdmitted: Bool
    /// When it was let in, or came.
    public let from: UInt64
    /// What DISCONNECT or CONNACK says or would say, from either side; nil where the network connection ended without it.
    public let reason: ReasonCode?
    public let words: String
    /// Whether the client said goodbye itself.
    public let isByClient: Bool
    public let traffic: ClientTraffic
}

/// Where a closed connection stands among all of all shards.
public struct ClosedPosition: Hashable, Comparable, Sendable {
    /// When it ended, in milliseconds on the shard's clock.
    public var at: UInt64
    /// Of those of one time: the shard's own number, then the shard.
    public var number: UInt64

    public init(at: UInt64, number: UInt64) { (self.at, self.number) = (at, number) }

    public static func < (left: ClosedPosition, right: ClosedPosition) -> Bool {
        (left.at, left.number) < (right.at, right.number)
    }
}

/// Which closed connections are told.
public struct ClosedSelection: Sendable {
    /// Only those of this Client Identifier.
    public var clientIdentifier: EncodedString?
    /// Only those from an address of this network.
    public var network: AddressRange?
    /// Only those that were let in, or only those that were not.
    public var wasAdmitted: Bool?
    /// Only those that ended before this one: the last row of the page before, from any shard.
    public var before: ClosedPosition?

    public init() {}

    func takes(_ row: ClosedConnectionRow) -> Bool {
        if let before, row.position >= before { return false }
        if let clientIdentifier, row.clientIdentifier != clientIdentifier { return false }
        if let wasAdmitted, row.wasAdmitted != wasAdmitted { return false }
        return network.map { $0.contains(row.address) } ?? true
    }
}

/// The last connections of a shard that have ended.
///
/// Strangers choose the names in it: long ones are cut. Invariant: at most its part of `Limits.closedConnectionsMax`, and of
/// `Limits.closedConnectionsBytesMax`; the oldest go for the next one.
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

    /// Those that are meant, the last first, and whether there are more; names are cut as they are in the rows. O(all).
    func rows(_ selection: ClosedSelection, max rowsMax: Int) -> (rows: [ClosedConnectionRow], hasMore: Bool) {
        var found: [ClosedConnectionRow] = []
        for age in 0..<rows.count {
            guard let row = rows.entry(ofAge: age), selection.takes(row) else { continue }
            guard found.count < rowsMax else { return (found, true) }
            found.append(row)
        }
        return (found, false)
    }
}

extension ClosedConnectionRow {
    /// The bytes of memory that it takes beside its own place.
    fileprivate var textBytes: Int {
        [clientIdentifier?.bytes.count, userName?.bytes.count, address.utf8.count, words.utf8.count].reduce(0) { sum, count in
            // Of no bytes, and of a few bytes in a string, nothing is allocated; else what an allocation and its head take.
            sum + (count.map { $0 > 0 ? $0 + 48 : 0 } ?? 0)
        }
    }
}
