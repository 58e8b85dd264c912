import BrokerModel
import MQTTCodec

/// What a shard has for its cluster. There is none on a broker that is alone.
final class ClusterPort {
    /// The messages that were published in this turn.
    private(set) var batch = ShardMessageBatch()
    var isAway = true
    /// Whether the cluster has not been reached yet, so that nobody knows what members other nodes have.
    var isStrange = true
    /// The connections that wait for the cluster; nil when it has been reached.
    var start: ClusterStart?
    /// The connections that have waited for the cluster, and are to go on now that it has been reached.
    var arrivals = ClusterArrivals()
    /// The log's part; nil where nothing is logged.
    var log: ShardLog?
    /// Sessions that come and go; nil where each node keeps its own.
    var moves: SessionMoves?
    /// This node's number: that of its store, and that of its incarnation. 0 where nothing is logged.
    var node: UInt64
    /// The nodes that are gone, for which this one dispatches what the log has for them.
    var dispatchedFor: Set<UInt64> = []
    /// The nodes among them of which not all is known to be dispatched, and by partition up to where each was done.
    var inherited: [UInt64: [UInt64]] = [:]
    /// By node that is gone: what the log says to be some session's, or to be passed on, though the node had not said
    /// that it is done.
    var learned: [UInt64: Set<MessageName>] = [:]
    /// Nodes that are gone and have had members of share groups, and since when, in milliseconds.
    var goneSince: [UInt64: UInt64] = [:]
    /// What it has for them and nobody takes.
    var unclaimed = UnclaimedParts()
    /// What goes into the log with the batch, as it will stand there.
    private var logged = LogBatch()
    private var expected = 0
    /// The changes of retained messages of this turn, and under which serial they go.
    private var changes: (batch: ShardMessageBatch, serial: UInt64)?
    private var lastChange: UInt64 = 0
    /// The changes that have not come out of the stream yet.
    var unsettled = UnsettledChanges<Message>()
    /// Whether as many changes wait for the stream as may.
    var isRetainedFull = false
    /// Bytes of a retained message that the cluster takes, with its origin.
    var retainedBytesMax = Int.max
    /// While all of the stream is read: by node of the tree, whether the stream, or somebody since, has set what is
    /// there.
    private var marks: [Bool]?
    /// The sources of retained messages, by their rows: all messages of one login share one.
    private var sources: [[UInt8]: RetainedSource] = [:]
    private var sourceBytes = 0

    init(node: UInt64 = 0) { self.node = node }

    /// Adds a message that share groups leave to another node by way of the bus.
    func pass(_ publication: borrowing Publication, _ dispatch: GroupDispatch) {
        batch.append(.dispatch(dispatch))
        batch.append(publication, as: .publish)
    }

    /// Adds a message, which may have to be logged as well, or be retained.
    ///
    /// - Parameters:
    ///   - isLogged: whether the log is to have it.
    ///   - change: what it changes of what is retained.
    ///   - step: what it says of its packet identifier.
    ///   - now: on the shard's clock.
    ///   - publication: the message.
    /// - Returns: the partition of the log that it goes into, as a bit; none if it does not, or has expired.
    func append(
        _ publication: borrowing Publication, isLogged: Bool, _ change: RetainedChange, _ step: SessionStep?, now: UInt64
    ) -> UInt64 {
        let partitions = isLogged ? pass(byLog: publication, publication.dispatch, step, now: now) : 0
        if let dispatch = publication.dispatch { batch.append(.dispatch(dispatch)) }
        if change == .none {
            batch.append(publication, as: isLogged ? .passing : .publish)
        } else {
            Self.append(publication, as: isLogged ? .passing : .publish, change, to: batch)
        }
        return partitions
    }

    /// What of a message of the log the bus carries, to other nodes' sessions that end with their connection and to
    /// share groups: a batch of its own, that is not logged again.
    func carried(_ publication: borrowing Publication) -> ShardMessageBatch {
        let batch = ShardMessageBatch()
        if let dispatch = publication.dispatch { batch.append(.dispatch(dispatch)) }
        batch.append(publication, as: .passing)
        return batch
    }

    /// Adds a message for the log alone, as one that share groups leave to another node by way of it.
    ///
    /// - Returns: the partition that it goes into, as a bit; none if it has expired.
    func pass(
        byLog publication: borrowing Publication, _ dispatch: GroupDispatch?, _ step: SessionStep? = nil, now: UInt64
    ) -> UInt64 {
        guard let log, publication.expiresAt > now else { return 0 }
        var message = LogMessage(
            topic: publication.topic, properties: publication.properties, payload: publication.payload, qos: publication.qos,
            retain: publication.retain,
            millisecondsLeft: publication.expiresAt == Message.neverExpires ? nil : publication.expiresAt - now)
        message.publisher = publication.publisher
        if let dispatch {
            (message.shares, message.hops, message.nameBefore) = (dispatch.logged, dispatch.hops, dispatch.before)
        }
        let partition = BrokerShard.logPartition(of: message.topic, among: log.places.places.count)
        logged.append(message, step.map { ($0.step, $0.clientIdentifier) }, partition: partition)
        return 1 << UInt64(partition)
    }

    /// Adds a step that comes without a message: a mark goes into every partition.
    ///
    /// - Returns: the partitions that it goes into, a bit each.
    func append(_ step: SessionStep) -> UInt64 {
        guard let count = log?.places.places.count else { return 0 }
        let partition = step.clientIdentifier.bytes.withUnsafeBytes { BrokerShard.logPartition(of: $0, among: count) }
        var partitions: UInt64 = 0
        for partition in step.step.kind == .mark ? 0..<count : partition..<partition + 1 {
            logged.append(step.step, of: step.clientIdentifier, publisher: step.publisher, partition: partition)
            partitions |= 1 << UInt64(partition)
        }
        return partitions
    }

    /// Whether nothing is for the other nodes.
    var isEmpty: Bool { batch.isEmpty && logged.isEmpty }

    /// The log is to confirm the batch under this serial.
    func stamp(_ serial: UInt64) { batch.serial = serial }

    func takeBatch() -> ShardMessageBatch {
        let taken = batch
        taken.logged = logged
        logged = LogBatch()
        expected = min(Limits.expectedShardMessageBytesMax, max(taken.byteCount, expected / 8 * 7))
        batch = ShardMessageBatch(expected: expected)
        return taken
    }

    // MARK: Changes of retained messages

    /// Whether the cluster may be given a message to be retained.
    func takes(_ publication: borrowing Publication) -> Bool {
        takes(byteCount: publication.byteCount + (publication.source?.row.count ?? 0)) == nil
    }

    /// Why it may not be given one of so many bytes; nil if it may.
    func takes(byteCount: Int) -> DropReason? {
        if byteCount > retainedBytesMax { return .payloadTooLarge }
        return isRetainedFull ? .noRoom : nil
    }

    func nextNumber(of shard: Int) -> UInt64 {
        lastChange += 1
        return lastChange << 8 | UInt64(shard)
    }

    /// Adds a change for the stream.
    func change(_ publication: borrowing Publication, _ change: RetainedChange, serial: UInt64) {
        let (batch, last) = changes ?? (ShardMessageBatch(), 0)
        Self.append(publication, change, to: batch)
        changes = (batch, max(last, serial))
    }

    func takeChanges() -> (batch: ShardMessageBatch, serial: UInt64)? {
        defer { changes = nil }
        return changes
    }

    static func append(
        _ publication: borrowing Publication, as kind: ShardMessageHeader.Kind = .retain, _ change: RetainedChange,
        to batch: ShardMessageBatch
    ) {
        if let source = publication.source { batch.append(.retainedSource(source)) }
        batch.append(publication, as: kind, ShardMessageDetail(sessionKey: change.node, stamp: change.number))
    }

    // MARK: Reading all of the stream

    func beginReading() { marks = [] }

    func endReading() { marks = nil }

    func mark(_ place: UInt32?) {
        guard marks != nil, let place = place.map({ Int($0) }) else { return }
        let count = marks?.count ?? 0
        if place >= count { marks?.append(contentsOf: repeatElement(false, count: max(1024, place + 1 - count))) }
        marks?[place] = true
    }

    /// A node is free, and may become another topic's.
    func isMarked(_ place: Int) -> Bool { marks.map { place < $0.count && $0[place] } ?? true }

    // MARK: Origins

    func source(_ row: [UInt8], _ make: () -> RetainedSource?) -> RetainedSource? {
        if let known = sources[row] { return known }
        guard let made = make() else { return nil }
        if sources.count >= Limits.clusterSourcesMax || sourceBytes + 2 * row.count > Limits.clusterSourceBytesMax {
            (sources, sourceBytes) = ([:], 0)
        }
        sources[row] = made
        // The row, and the names in what was made of it.
        sourceBytes += 2 * row.count
        return made
    }
}

/// The changes of retained messages that this node has made, or heard of from the node that made them, and that have
/// not come out of the cluster's stream yet. Decides what becomes of what does: so that, whatever comes in which order,
/// all nodes end with what the stream has last.
///
/// A change counts at once where it is made and where it is heard of, for whoever subscribes next. What comes out of
/// the stream before it is most likely older, and passed over for a while. When it comes out itself, its value is there
/// already. It need not come out: the stream keeps one change of a topic, and its node skips those that a newer one has
/// overtaken. So what was passed over last is kept, and taken when the wait is over; and what comes then is taken at
/// once. Should the change come out later all the same, it is taken like any other.
///
///     newest[topic]: the change that was made or heard of last, until something newer comes out of the stream
struct UnsettledChanges<Value> {
    private struct Origin: Hashable {
        let node: UInt64
        let shard: UInt8

        init(_ change: RetainedChange) { (node, shard) = (change.node, UInt8(truncatingIfNeeded: change.number)) }
    }

    private struct Awaited {
        let change: RetainedChange
        let since: UInt64
        /// How many were recorded before.
        let order: Int
        /// What came out of the stream since.
        var passedOver: Value?
        var isOverdue = false
    }

    private var newest: [[UInt8]: Awaited] = [:]
    private var recordCount = 0
    /// The highest number that has come out of the stream of each shard of other nodes.
    private var settledNumbers: [Origin: UInt64] = [:]

    init() {}

    /// Whether a change may still count before it comes out of the stream: one that is heard of late may be there
    /// already.
    func isNews(_ change: RetainedChange) -> Bool { change.node == 0 || change.number > settledNumbers[Origin(change)] ?? 0 }

    /// A change is made, or heard of, and counts from now on.
    mutating func record(_ topic: [UInt8], _ change: RetainedChange, now: UInt64) {
        recordCount += 1
        newest[topic] = Awaited(change: change, since: now, order: recordCount, passedOver: newest[topic]?.passedOver)
    }

    /// A change has come out of the stream.
    ///
    /// - Parameter value: what it sets; kept if it is passed over.
    /// - Returns: whether it is to be taken.
    mutating func settle(_ topic: [UInt8], _ change: RetainedChange, _ value: @autoclosure () -> Value) -> Bool {
        if change.node != 0 {
            if settledNumbers.count >= Limits.clusterOriginsMax { settledNumbers = [:] }
            settledNumbers[Origin(change)] = max(change.number, settledNumbers[Origin(change)] ?? 0)
        }
        guard let last = newest[topic] else { return true }
        if last.change == change {
            newest[topic] = nil
            return false
        }
        let isNewer = Origin(change) == Origin(last.change) && change.number > last.change.number
        guard isNewer || last.isOverdue else {
            newest[topic]?.passedOver = value()
            return false
        }
        newest[topic] = nil
        return true
    }

    /// Takes out the values that waited for changes which have not come for long. O(changes that are awaited).
    mutating func takeOverdue(now: UInt64) -> [Value] {
        let overdue = newest.filter { !$0.value.isOverdue && $0.value.since + Limits.clusterChangeMilliseconds <= now }
        var taken: [Value] = []
        for (topic, awaited) in overdue.sorted(by: { $0.value.order < $1.value.order }) {
            newest[topic]?.isOverdue = true
            guard let value = awaited.passedOver else { continue }
            newest[topic] = nil
            taken.append(value)
        }
        return taken
    }

    /// Whether a change of this topic is awaited.
    func isAwaited(_ topic: [UInt8]) -> Bool { newest[topic] != nil }

    /// How many changes are awaited.
    var count: Int { newest.count }

    /// All of the stream is read again: other nodes' changes count when they come out of it.
    mutating func forgetOthers() { newest = newest.filter { $0.value.change.node == 0 } }

    /// Whether a change of another node has been awaited for so long that the node must have died before it was stored.
    func hasStale(now: UInt64) -> Bool {
        newest.values.contains { $0.change.node != 0 && $0.since + Limits.clusterChangeMillisecondsMax < now }
    }
}

extension ClusterPort: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.cluster != nil }
    static func step(_ shard: BrokerShard) { if let port = shard.cluster { shard.clusterMessaging.sendClusterMessages(port) } }

    static func deadline(_ shard: BrokerShard) -> UInt64? {
        shard.cluster.map { !$0.isEmpty || $0.changes != nil } ?? false ? shard.now : nil
    }
}

extension Limits {
    /// Logins whose retained messages other nodes have; all are forgotten for the next, and made again when they are
    /// needed. Bytes: `clusterSourceBytesMax`.
    static let clusterSourcesMax = 10_000

    /// Bytes of their names: all are forgotten for the next.
    static let clusterSourceBytesMax = 4 << 20

    /// Shards of other nodes of whose changes the highest number is known; all are forgotten for the next. Bytes: 24
    /// each.
    static let clusterOriginsMax = 10_000

    /// How long what comes out of the stream is passed over for a change that was made or heard of and has not come, in
    /// milliseconds.
    static let clusterChangeMilliseconds: UInt64 = 2_000

    /// How long a change that another node has told of may stay out of the stream, in milliseconds, until all of that
    /// is read again: the node has died before the change was stored.
    static let clusterChangeMillisecondsMax: UInt64 = 30_000
}
