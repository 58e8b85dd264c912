import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import Platform
import ServerLoops

/// Reads parts of the log once more, for sessions that came from elsewhere, and for what share groups had dispatched to
/// nodes that are gone: one scan of a partition at a time, for all that it can serve.
///
///     spans of a session ──► waiting ──► a scan ──► FromGateway.recordAgain ──► … ──► FromCluster.replayed
///
/// Belongs to the loop that speaks to the servers.
final class LogRereader {
    private enum Reader: Hashable {
        /// A session of a shard.
        case session([UInt8], shard: Int)
        /// All shards, for a purpose of the node's.
        case all(RereadPurpose)

        /// Whether it lacks all that it does not get: the others begin a little before what they need.
        var needsAll: Bool {
            switch self {
            case .session, .all(.sessions), .all(.dispatchAgain), .all(.dispatchEarlier): true
            case .all(.learnDispatched), .all(.learnEarlierDispatches), .all(.followEarlierDispatches): false
            }
        }
    }

    private typealias Want = LogScan<Reader>.Want

    private final class Scan {
        var log: LogScan<Reader>
        var order: LogOrder
        var stream: FollowedStream?

        init(_ log: LogScan<Reader>, _ order: LogOrder) { (self.log, self.order) = (log, order) }
    }

    private let plan: ClusterPlan
    private let incarnations: NodeIncarnations
    private unowned let loop: ShardLoop
    private unowned let connection: NATSConnection
    private let log: any ReadLog
    private let report: (String) -> Void
    /// By partition.
    private var scans: [Scan?]
    private var waiting: [[Want]]
    /// The spans that are dispatched again when all is known that became of them.
    private var inherited: [UInt64: [LogSpan]] = [:]
    /// The records in which messages were dispatched to earlier incarnations of this node, those whose part this one
    /// dispatches again, and who waits for that.
    private var earlierDispatches: (spans: [LogSpan], won: Set<UInt64>, then: () -> Void)?
    /// How many spans are not given yet.
    private var left: [Reader: Int] = [:]
    /// Bytes that the shards have not worked off.
    private var givenBytes = 0
    private(set) var records: UInt64 = 0

    init(
        _ plan: ClusterPlan, _ incarnations: NodeIncarnations, on loop: ShardLoop, _ connection: NATSConnection, log: any ReadLog,
        report: @escaping (String) -> Void
    ) {
        (self.plan, self.incarnations, self.loop, self.connection) = (plan, incarnations, loop, connection)
        (self.log, self.report) = (log, report)
        scans = Array(repeating: nil, count: plan.logPartitions)
        waiting = Array(repeating: [], count: plan.logPartitions)
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    var nextDeadline: UInt64? { scans.compactMap { $0?.stream?.nextDeadline }.min() }

    func attached() { for partition in scans.indices { begin(partition) } }

    func detached() { for scan in scans { scan?.stream?.detached() } }

    func advance(now: UInt64) { for scan in scans { scan?.stream?.advance(now: now) } }

    /// Takes a message of the connection; false if it belongs to another.
    func received(_ message: MessageView) -> Bool {
        for partition in scans.indices {
            guard let scan = scans[partition], scan.stream?.received(message, now: now) == true else { continue }
            if scan.log.wants.isEmpty { end(partition) }
            return true
        }
        return false
    }

    // MARK: Wants

    /// Reads records again for a shard's session that lacks them.
    func add(_ session: [UInt8], shard: Int, _ spans: [LogSpan]) {
        let missing = spans.filter { $0.after < $0.through && scans.indices.contains($0.partition) }
        forget(session)
        guard !missing.isEmpty else { return loop.loops[shard].post(.replayed(session), from: loop) }
        add(.session(session, shard: shard), missing)
    }

    /// Reads records again for a node that is gone: all shards dispatch again what these have for it, but for what they
    /// say to be its sessions'.
    func add(_ node: NodeID, _ spans: [LogSpan]) {
        inherited[node.rawValue] = spans
        add(.all(.learnDispatched(by: node.rawValue)), behind(spans))
    }

    /// Begins the spans a little earlier: what a node had written and not got an answer to may stand in front of what
    /// it was done with.
    private func behind(_ spans: [LogSpan]) -> [LogSpan] {
        spans.map {
            LogSpan(partition: $0.partition, after: $0.after - min($0.after, Limits.logRereadRecords), through: $0.through)
        }
    }

    /// Reads the records again in which messages were dispatched to earlier incarnations of this node: all shards
    /// settle them.
    ///
    /// - Parameter won: the incarnations whose part this node dispatches again.
    func settleEarlierDispatches(_ spans: [LogSpan], won: Set<NodeID>, then: @escaping () -> Void) {
        earlierDispatches = (spans, Set(won.map(\.rawValue)), then)
        add(.all(.learnEarlierDispatches), behind(spans))
    }

    /// Forgets the reading for earlier incarnations, because there is more of it: the shards begin anew.
    func forgetEarlierDispatches() {
        earlierDispatches = nil
        for purpose in [RereadPurpose.learnEarlierDispatches, .followEarlierDispatches, .dispatchEarlier] { forget(.all(purpose)) }
    }

    private func add(_ reader: Reader, _ spans: [LogSpan]) {
        let spans = spans.filter { $0.after < $0.through }
        left[reader, default: 0] += spans.count
        if left[reader] == 0 { return end(reader) }
        for span in spans {
            let want = Want(reader, span)
            if scans[span.partition]?.log.add(want) == true { continue }
            waiting[span.partition].append(want)
            begin(span.partition)
        }
    }

    /// Forgets a session's spans, which nobody wants any more.
    func forget(_ session: [UInt8]) {
        for shard in loop.loops.indices { forget(.session(session, shard: shard)) }
    }

    private func forget(_ reader: Reader) {
        guard left.removeValue(forKey: reader) != nil else { return }
        for partition in scans.indices {
            waiting[partition].removeAll { $0.reader == reader }
            scans[partition]?.log.forget(reader)
        }
    }

    private func begin(_ partition: Int) {
        guard let info = connection.session.info, connection.isReady else { return }
        if scans[partition] == nil, !waiting[partition].isEmpty {
            let wanted = LogScan(waiting[partition])
            waiting[partition] = []
            let start = LogPartition.start(behind: wanted.position)
            let scan = Scan(wanted, log.order(of: partition, from: start))
            scan.stream = FollowedStream(
                name: "\(incarnations.current)_again_\(partition)", from: start, on: connection,
                give: { [unowned self] in give($0, partition) }, report: { [unowned self] in heard($0, partition) })
            scans[partition] = scan
        }
        guard let stream = scans[partition]?.stream, !stream.isFollowing else { return }
        stream.attached(ClusterLog.stream(partition, plan, info), now: now)
    }

    private func end(_ partition: Int) {
        scans[partition]?.stream?.detached()
        scans[partition] = nil
        begin(partition)
    }

    // MARK: Records

    private func give(_ record: StreamRecord, _ partition: Int) {
        guard let scan = scans[partition] else { return }
        let sequence = record.metadata.sequence
        let bundle = Bundle(record.payload)
        let counts = bundle.map { scan.order.counts($0, at: sequence) } ?? false
        var receivers: [Int: [[UInt8]]] = [:]
        var purposes: [RereadPurpose] = []
        let isNew = scan.log.passes(sequence) { reader in
            switch reader {
            case .session(let session, let shard): receivers[shard, default: []].append(session)
            case .all(let purpose): purposes.append(purpose)
            }
        }
        guard isNew else { return }
        if counts, !receivers.isEmpty || !purposes.isEmpty {
            records += 1
            let given = LogRecord(record, bundle, partition: partition, incarnations)
            for (shard, sessions) in receivers.sorted(by: { $0.key < $1.key }) {
                givenBytes += given.cost
                loop.loops[shard].post(.recordAgain(given, .sessions(sessions)), from: loop)
            }
            // What became of messages is learned before any is dispatched again.
            for purpose in purposes.sorted(by: { $0.rank < $1.rank }) {
                givenBytes += given.cost * loop.loops.count
                loop.postToAll(.recordAgain(given, purpose))
            }
            if givenBytes > Limits.replayGivenBytesMax { for scan in scans { scan?.stream?.hold() } }
        }
        finish(scan.log.takeDone())
    }

    /// A shard has worked off records of so many bytes.
    func taken(_ byteCount: Int) {
        givenBytes -= byteCount
        guard givenBytes <= Limits.replayGivenBytesMax / 2 else { return }
        for scan in scans where scan?.stream?.isHeld == true { scan?.stream?.resume(now: now) }
    }

    private func heard(_ news: FollowedStream.News, _ partition: Int) {
        guard let scan = scans[partition] else { return }
        switch news {
        case .found(let first, let last):
            let hasGone = first > scan.log.position + 1
            let known = hasGone ? log.recordGone(partition, through: first - 1) : 0
            let count = scan.log.found(first: first, last: last, known: known) { $0.needsAll }
            guard count > 0 else { return }
            report(
                "\(count) records of the log's partition \(partition) were deleted before they were read for sessions that came from "
                    + "other nodes: their messages are missing from these sessions")
        case .caughtUp:
            finish(scan.log.caughtUp())
            if !scan.log.wants.isEmpty { scan.stream?.restart(from: scan.log.position + 1, now: now) }
        case .failed: return
        }
    }

    private func finish(_ readers: [Reader]) {
        for reader in readers {
            left[reader, default: 1] -= 1
            if left[reader] == 0 { end(reader) }
        }
    }

    private func end(_ reader: Reader) {
        left[reader] = nil
        switch reader {
        case .session(let session, let shard): loop.loops[shard].post(.replayed(session), from: loop)
        case .all(let purpose): end(purpose)
        }
    }

    /// A purpose has its records: begins the next one of those that go together.
    private func end(_ purpose: RereadPurpose) {
        switch purpose {
        case .sessions: return
        case .learnDispatched(let node):
            if let spans = inherited.removeValue(forKey: node) { add(.all(.dispatchAgain(for: node)), spans) }
        case .dispatchAgain(let node): loop.postToAll(.forgetDispatched(by: node))
        case .learnEarlierDispatches:
            if let earlierDispatches { add(.all(.followEarlierDispatches), behind(earlierDispatches.spans)) }
        case .followEarlierDispatches:
            guard let earlierDispatches else { return }
            loop.postToAll(.earlierDispatchesAreKnown(won: earlierDispatches.won))
            add(.all(.dispatchEarlier), earlierDispatches.spans)
        case .dispatchEarlier:
            loop.postToAll(.settleEarlierDispatches)
            earlierDispatches?.then()
            earlierDispatches = nil
        }
    }
}

extension RereadPurpose {
    /// In which order a record is given for several.
    fileprivate var rank: Int {
        switch self {
        case .sessions, .learnDispatched: 0
        case .dispatchAgain: 1
        case .learnEarlierDispatches, .followEarlierDispatches, .dispatchEarlier: 2
        }
    }
}
