import BrokerCore
import BrokerModel
import Cluster
import EpollLoop
import NATSClient
import ServerLoops

/// The cluster's log as one node writes and reads it: messages of QoS 1 and 2 go into it packed into records, by partition; what stands in it
/// is given to all shards, in its order.
///
///     shards ── messages ──► append ──► LogWriter ──► JetStream ──► ledger ──► logged ──► shards
///     shards ◄── LogRecord ◄── FollowedStream ◄────────── JetStream
///
/// Belongs to the loop that speaks to the servers.
final class LogLane {
    /// What was counted since the node has started.
    struct Counters {
        var written: UInt64 = 0
        var failed: UInt64 = 0
        var records: UInt64 = 0
        /// Records that had gone from the log before this node had read them.
        var lost: UInt64 = 0
        var illegible: UInt64 = 0
    }

    let plan: ClusterPlan
    let incarnations: NodeIncarnations
    unowned let loop: ShardLoop
    unowned let connection: NATSConnection
    var partitions: [LogPartition] = []
    var ledger: LogLedger
    var counters = Counters()
    /// The records that JetStream was asked to store, by the token of the request.
    var asked: [UInt64: (partition: Int, lane: Int, number: UInt64)] = [:]
    var lastToken: UInt64 = 0
    /// What could not even be asked.
    var unasked: [(partition: Int, lane: Int, number: UInt64, answer: LogAnswer)] = []
    var isSettling = false
    /// The readers that wait until all is read that stands in the log by now.
    var readers: [LogReader] = []
    var lastReader: UInt64 = 0
    /// By partition: what is to be written for them, once more.
    var unwritten: [(reader: UInt64, partition: Int)] = []
    /// By node and partition: up to where it is done with what share groups have dealt it.
    var dealt: [NodeID: [Int: UInt64]] = [:]
    /// Is called with a partition that ends at a record before what was read of it.
    var whenCut: (_ partition: Int, _ last: UInt64) -> Void = { _, _ in }
    /// What a node is called in messages.
    var shownName: (NodeID) -> String = { "\($0)" }
    /// Is called with a node that is gone, and one that has said to deal for it.
    var whenInherited: (NodeID, _ heir: NodeID) -> Void = { _, _ in }
    /// Bytes of records that the shards have not worked off.
    var givenBytes = 0
    var isAttached = false
    /// Whether others have said that this incarnation of the node is gone: what it writes does not count any more.
    var isOver = false
    let refusals: StreamRefusals
    /// What the loops were told last; the partitions that have no room, a bit for each.
    var told = (isFull: false, isAway: false)
    var toldLacking: UInt64 = 0

    /// Before any loop runs.
    init(
        _ plan: ClusterPlan, _ incarnations: NodeIncarnations, on loop: ShardLoop, connection: NATSConnection,
        _ refusals: StreamRefusals
    ) {
        (self.plan, self.incarnations, self.loop, self.connection, self.refusals) = (plan, incarnations, loop, connection, refusals)
        let shards = loop.loops.map(\.shard)
        ledger = LogLedger(shardCount: shards.count)
        let space = SubjectSpace(cluster: plan.name)
        for index in 0..<plan.logPartitions {
            guard let subject = Subject(space.log(partition: index)) else { preconditionFailure("a partition has a subject") }
            let places = shards.map { index < $0.logPlaces.count ? $0.logPlaces[index] : nil }
            partitions.append(LogPartition(index, subject: subject, node: incarnations.current, places: places, lane: self))
        }
        for partition in partitions { partition.follow(on: connection, node: incarnations.current) }
    }

    var now: UInt64 { loop.events.nowMilliseconds }

    /// Why the log cannot be relied on; nil if it can.
    var trouble: String? {
        guard let missing = partitions.first(where: { !$0.isFound }) else { return nil }
        return missing.trouble ?? "looking for the log's stream"
    }

    var nextDeadline: UInt64? {
        if isOver { return 0 }
        return partitions.flatMap { [$0.writer.wakesAt, $0.stream?.nextDeadline] }.compactMap { $0 }.min()
    }

    // MARK: The connection

    func attached(_ info: ServerInfo) {
        isAttached = true
        for partition in partitions {
            partition.stream?.attached(configuration(partition, info), now: now)
            partition.writer.attached(now: now, partition)
        }
        settle()
    }

    func detached() {
        isAttached = false
        for partition in partitions {
            (partition.isFound, partition.trouble) = (false, nil)
            partition.stream?.detached()
            partition.writer.detached()
        }
        asked = [:]
        settle()
    }

    func advance(now: UInt64) {
        for partition in partitions {
            partition.stream?.advance(now: now)
            partition.writer.tick(now: now, partition)
        }
        settle()
    }

    /// Takes a message of the connection; false if it belongs to another.
    func received(_ message: MessageView) -> Bool {
        partitions.contains { $0.stream?.received(message, now: now) ?? false }
    }

    func configuration(_ partition: LogPartition, _ info: ServerInfo) -> StreamConfiguration {
        Self.stream(partition.index, subject: partition.subject, plan, info)
    }

    static func streamName(_ partition: Int, _ plan: ClusterPlan) -> String { "martlet_\(plan.name)_log_\(partition)" }

    /// What the stream of a partition is to be.
    static func stream(_ partition: Int, subject: Subject, _ plan: ClusterPlan, _ info: ServerInfo) -> StreamConfiguration {
        var stream = StreamConfiguration(name: streamName(partition, plan), subjects: ["\(subject)"])
        stream.replicas = plan.replicas(info)
        // With another number a node would write where nobody reads.
        stream.metadata = ["martlet_cluster_partitions": "\(plan.logPartitions)"]
        stream.ageMax = Int64(Limits.logDays) * 86_400_000_000_000
        return stream
    }

    /// Without a connection: what waits was the last incarnation's, and is not written any more.
    func beginIncarnation() {
        isOver = false
        for partition in partitions { partition.writer.begin(as: incarnations.current, partition) }
        settle()
    }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }
}
