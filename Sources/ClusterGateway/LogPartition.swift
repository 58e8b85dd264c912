import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// One partition of the log: what is written to it, and how far it was read. Belongs to the loop that speaks to the
/// servers.
final class LogPartition {
    let index: Int
    let subject: Subject
    var writer: Cluster.LogWriter
    var order = LogOrder()
    /// The last record that was read, and in which stream; nil if nobody has begun.
    var place: LogPositions.Place?
    /// The last record that any shard had read when the node was started; 0 once the stream was found.
    var furthest: UInt64
    /// Up to which record it was told what has gone from the stream.
    private var goneThrough: UInt64 = 0
    /// Whether the stream was found on this connection.
    var isFound = false
    /// Whether all has been read that it had when it was found.
    var isCaughtUp = false
    var trouble: String?
    /// The shards that have no place of their own yet.
    var newcomers: Set<Int>
    private(set) var stream: FollowedStream?

    /// - Parameter places: of the shards.
    init(_ index: Int, subject: Subject, node: NodeID, places: [LogPositions.Place?]) {
        (self.index, self.subject) = (index, subject)
        place = places.compactMap { $0 }.min { $0.sequence < $1.sequence }
        furthest = places.compactMap { $0?.sequence }.max() ?? 0
        newcomers = Set(places.indices.filter { places[$0] == nil })
        writer = Cluster.LogWriter(node: node, partition: index)
    }

    /// Reads from a little before the place on: what was written twice shows by what came before it.
    func follow(on connection: NATSConnection, node: NodeID, for log: ClusterLog) {
        let next = place.map { Self.start(behind: $0.sequence) }
        stream = FollowedStream(
            name: "\(node)_log_\(index)", from: next, on: connection,
            give: { [unowned self, unowned log] in log.received($0, self) },
            report: { [unowned self, unowned log] in log.heard($0, self) })
    }

    /// The record at which reading begins, so that the records behind one can be judged.
    static func start(behind sequence: UInt64) -> UInt64 {
        sequence > Limits.logRereadRecords ? sequence + 1 - Limits.logRereadRecords : 1
    }

    /// Takes note that records have gone, up to this one.
    ///
    /// - Returns: up to where that was known.
    func recordGone(through sequence: UInt64) -> UInt64 {
        defer { goneThrough = max(goneThrough, sequence) }
        return goneThrough
    }

    /// Takes note that the stream is another one, or ends at this record now: records that come have numbers that
    /// others had.
    func forgetGone(behind last: UInt64) { goneThrough = min(goneThrough, last) }
}

/// A caller that waits until all partitions of the log are read as far as they go now.
struct LogReader {
    let number: UInt64
    /// What is written for it into each partition.
    let entries: [UInt8]
    /// Whether it waits for room where there is none.
    let awaitsRoom: Bool
    /// By partition: where that stands; nil while nobody knows.
    var ends: [UInt64?]
    let then: () -> Void

    init(number: UInt64, _ entries: [UInt8], awaitsRoom: Bool, partitions: Range<Int>, then: @escaping () -> Void) {
        (self.number, self.entries, self.awaitsRoom, self.then) = (number, entries, awaitsRoom, then)
        ends = partitions.map { _ in nil }
    }

    /// - Parameter places: by partition, the last record that was read.
    func hasRead(_ places: [UInt64]) -> Bool {
        zip(ends, places).allSatisfy { end, place in end.map { place >= $0 } ?? false }
    }
}
