public import MQTTCodec

/// A connection that has ended, or a client that was not let in. Times are milliseconds on the shard's clock.
public struct ClosedConnectionRow: Sendable {
    /// Where it stands among all of all shards, the later the higher.
    public let position: ClosedPosition
    /// Nil where the client never said.
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
/// Invariant: at most its part of `Limits.closedConnectionsMax`; the oldest goes for the next one.
struct ClosedConnections {
    private var ring: [ClosedConnectionRow] = []
    private var next = 0
    private var number: UInt64 = 0
    private let max: Int
    private let shard: UInt64

    init(shard: Int, shardCount: Int) {
        max = Limits.closedConnectionsMax / shardCount
        self.shard = UInt64(shard)
    }

    var count: Int { ring.count }

    /// Where the next one will stand.
    mutating func nextPosition(at now: UInt64) -> ClosedPosition {
        number += 1
        return ClosedPosition(at: now, number: number << 8 | shard)
    }

    mutating func add(_ row: ClosedConnectionRow) {
        if ring.count < max {
            ring.append(row)
        } else {
            ring[next] = row
            next = (next + 1) % max
        }
    }

    /// Those that are meant, the last first, and whether there are more. O(all).
    func rows(_ selection: ClosedSelection, max rowsMax: Int) -> (rows: [ClosedConnectionRow], hasMore: Bool) {
        var rows: [ClosedConnectionRow] = []
        for age in 1...Swift.max(1, ring.count) where age <= ring.count {
            let row = ring[(next + ring.count - age) % ring.count]
            guard selection.takes(row) else { continue }
            guard rows.count < rowsMax else { return (rows, true) }
            rows.append(row)
        }
        return (rows, false)
    }
}
