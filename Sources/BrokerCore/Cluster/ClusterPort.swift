import BrokerModel

/// What a shard has for its cluster. There is none on a broker that is alone.
final class ClusterPort {
    /// What was published in this turn.
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
    /// The nodes that are gone, for which this one deals what the log has for them.
    var dealtFor: Set<UInt64> = []
    /// The nodes among them of which not all is known to be dealt, and by partition up to where each was done.
    var inherited: [UInt64: [UInt64]] = [:]
    /// By node that is gone: what the log says to be some session's, or to be passed on, though the node had not said that it is done.
    var learned: [UInt64: Set<MessageName>] = [:]
    /// Nodes that are gone and have had members of share groups, and since when, in milliseconds.
    var goneSince: [UInt64: UInt64] = [:]
    /// What it has for them and nobody takes.
    var unclaimed = UnclaimedParts()
    /// What the message that is being published says of its packet identifier.
    var step: SessionStep?
    private var expected = 0
    /// How far share groups deal the message that is being routed.
    var reach = GroupReach.here
    /// Which nodes were chosen for it; nil if no share group matches, or while the cluster is strange.
    var dealing: GroupDealing?
    /// The changes of retained messages of this turn, and under which serial they go.
    private var changes: (batch: ShardMessageBatch, serial: UInt64)?
    private var lastChange: UInt64 = 0
    /// The changes that have not come out of the stream yet.
    var unsettled = UnsettledChanges<Message>()
    /// Whether as many changes wait for the stream as may.
    var isRetainedFull = false
    /// Bytes of a retained message that the cluster takes, with its origin.
    var retainedBytesMax = Int.max
    /// While all of the stream is read: by node of the tree, whether the stream, or somebody since, has set what is there.
    private var marks: [Bool]?
    /// The sources of retained messages, by their rows: all messages of one login share one.
    private var sources: [[UInt8]: RetainedSource] = [:]
    private var sourceBytes = 0

    init(node: UInt64 = 0) { self.node = node }

    /// Whether there is something for another turn: a message that was read, or the end of a session, may have left
    /// some.
    var hasNews: Bool {
        !batch.isEmpty || changes != nil || log.map { $0.hasNews || !$0.dealt.returned.isEmpty } ?? false || moves?.hasNews ?? false
            || unclaimed.isDue || !arrivals.isEmpty
    }

    enum GroupReach: Equatable {
        /// To this node's members: to them alone concerns what is not the cluster's, and what other nodes deal likewise.
        case here
        /// To members on all nodes.
        case everywhere
        /// To members on all nodes, though the log has it: who is chosen is told by the bus alone.
        case everywhereByBus
        /// Another node has said which groups: they are looked at by themselves.
        case named
        /// Another node did not know: to the members of this one, if it is the first other one by number that has some.
        case first(UInt64, besides: UInt64)
    }

    /// Adds a message that share groups leave to another node.
    func pass(_ publication: borrowing Publication, _ dealing: GroupDealing, as kind: ShardMessageHeader.Kind = .publish) {
        batch.append(.dealing(dealing))
        batch.append(publication, as: kind)
    }

    /// Adds a message, which may have to be logged as well, or be retained.
    func append(_ publication: borrowing Publication, isLogged: Bool, _ change: RetainedChange) {
        if let dealing { batch.append(.dealing(dealing)) }
        dealing = nil
        if isLogged, let step { batch.append(.step(step)) }
        step = nil
        guard change != .none else { return batch.append(publication, as: isLogged ? .passing : .publish) }
        Self.append(publication, as: isLogged ? .passing : .publish, change, to: batch)
    }

    /// What of a message of the log the bus carries, to other nodes' sessions that end with their connection and to share groups: a batch of its
    /// own, that is not logged again.
    func carried(_ publication: borrowing Publication) -> ShardMessageBatch {
        let batch = ShardMessageBatch()
        if let dealing { batch.append(.dealing(dealing)) }
        dealing = nil
        batch.append(publication, as: .passing)
        return batch
    }

    /// Adds a step that comes without a message.
    func append(_ step: SessionStep) { batch.append(.step(step)) }

    /// The log is to confirm the batch under this serial.
    func stamp(_ serial: UInt64) { batch.serial = serial }

    func takeBatch() -> ShardMessageBatch {
        let taken = batch
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
        if changes == nil { changes = (ShardMessageBatch(), 0) }
        guard let batch = changes?.batch else { return }
        Self.append(publication, change, to: batch)
        changes = (batch, max(changes?.serial ?? 0, serial))
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
