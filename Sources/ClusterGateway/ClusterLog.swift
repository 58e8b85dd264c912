import BrokerCore
import BrokerModel
import Cluster
import MQTTCodec
import NATSClient
import Platform
import ServerLoops

/// The cluster's log as one node writes and reads it: messages of QoS 1 and 2 go into it packed into records, by
/// partition; what stands in it is given to all shards, in its order.
///
///     shards ── messages ──► append ──► LogWriter ──► JetStream ──► ledger ──► logged ──► shards
///     shards ◄── LogRecord ◄── FollowedStream ◄────────── JetStream
///
/// Belongs to the loop that speaks to the servers.
final class ClusterLog {
    /// What was counted since the node has started.
    struct Counters {
        var written: UInt64 = 0
        var failed: UInt64 = 0
        var records: UInt64 = 0
        /// Records that had gone from the log before this node had read them.
        var lost: UInt64 = 0
        var illegible: UInt64 = 0
        /// Times that a shard has told how far a session has come.
        var progress: UInt64 = 0
    }

    let plan: ClusterPlan
    let incarnations: NodeIncarnations
    unowned let loop: ShardLoop
    unowned let connection: NATSConnection
    private unowned let context: any GatewayContext
    var partitions: [LogPartition] = []
    var ledger: BatchLedger
    var counters = Counters()
    var isSettling = false
    /// The readers that wait until all is read that stands in the log by now.
    var readers: [LogReader] = []
    var lastReader: UInt64 = 0
    /// By partition: what is to be written for them, once more.
    var unwritten: [(reader: UInt64, partition: Int)] = []
    /// By node and partition: up to where it is done with what share groups have dispatched to it.
    var dispatched: [NodeID: [Int: UInt64]] = [:]
    /// How far sessions of all nodes have come.
    var progress = ProgressTable()
    /// Bytes of records that the shards have not worked off.
    var givenBytes = 0
    var isAttached = false
    /// Whether earlier incarnations of the node may have written something that counts and was not read.
    private var awaitsEarlier = false
    /// Whether others have said that this incarnation of the node is gone: what it writes does not count any more.
    var isOver = false
    let refusals: StreamRefusals
    /// What the loops were told last; the partitions that have no room, a bit for each.
    var loggedState = (isFull: false, isAway: false)
    var loggedLacking: UInt64 = 0

    /// Makes the log, before any loop runs.
    init(
        _ plan: ClusterPlan, _ incarnations: NodeIncarnations, on loop: ShardLoop, connection: NATSConnection,
        _ refusals: StreamRefusals, context: any GatewayContext
    ) {
        (self.plan, self.incarnations, self.loop, self.connection, self.refusals) = (plan, incarnations, loop, connection, refusals)
        self.context = context
        let shards = loop.loops.map(\.shard)
        ledger = BatchLedger(shardCount: shards.count)
        for index in 0..<plan.logPartitions {
            let places = shards.map { index < $0.logPositions.count ? $0.logPositions[index] : nil }
            partitions.append(
                LogPartition(index, subject: Self.subject(index, plan), node: incarnations.current, places: places))
        }
        for partition in partitions { partition.follow(on: connection, node: incarnations.current, for: self) }
    }

    var now: UInt64 { loop.events.nowMilliseconds }

    /// Why the log cannot be relied on; nil if it can.
    var trouble: String? {
        guard let missing = partitions.first(where: { !$0.isFound }) else { return nil }
        return missing.trouble ?? "looking for the log's stream"
    }

    /// That the stream of a partition is missing which was there; nil while all are there.
    var loss: String? { partitions.first { $0.stream?.isMissing == true }?.trouble }

    var nextDeadline: UInt64? {
        if isOver { return 0 }
        return partitions.flatMap { [$0.writer.wakesAt, $0.stream?.nextDeadline] }.compactMap { $0 }.min()
    }

    // MARK: The connection

    func attached(_ info: ServerInfo) {
        isAttached = true
        for partition in partitions {
            partition.stream?.attached(Self.stream(partition.index, plan, info), now: now)
            partition.writer.attached(now: now, self)
        }
        settle()
    }

    func detached() {
        isAttached = false
        for partition in partitions {
            (partition.isFound, partition.isCaughtUp, partition.trouble) = (false, false, nil)
            partition.stream?.detached()
            partition.writer.detached()
        }
        settle()
    }

    func advance(now: UInt64) {
        for partition in partitions {
            partition.stream?.advance(now: now)
            partition.writer.tick(now: now, self)
        }
        settle()
    }

    /// Takes a message of the connection; false if it belongs to another.
    func received(_ message: MessageView) -> Bool {
        partitions.contains { $0.stream?.received(message, now: now) ?? false }
    }

    static func streamName(_ partition: Int, _ plan: ClusterPlan) -> String { "martlet_\(plan.name)_log_\(partition)" }

    static func subject(_ partition: Int, _ plan: ClusterPlan) -> Subject {
        let subject = Subject(SubjectSpace(cluster: plan.name).log(partition: partition))
        guard let subject else { preconditionFailure("a partition has a subject") }
        return subject
    }

    /// The configuration of a partition's stream.
    static func stream(_ partition: Int, _ plan: ClusterPlan, _ info: ServerInfo) -> StreamConfiguration {
        var stream = StreamConfiguration(name: streamName(partition, plan), subjects: ["\(subject(partition, plan))"])
        stream.replicas = plan.replicas(info)
        // With another number a node would write where nobody reads.
        stream.metadata = ["martlet_cluster_partitions": "\(plan.logPartitions)"]
        stream.ageMax = Int64(Limits.logDays) * 86_400_000_000_000
        return stream
    }

    /// Begins another incarnation of the node; to be called without a connection. Records of the last one that wait are
    /// not written any more.
    func beginIncarnation() {
        isOver = false
        for partition in partitions { partition.writer.begin(as: incarnations.current, self) }
        settle()
    }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }
}

/// What stands in the log.
extension ClusterLog: ReadLog {
    func received(_ record: StreamRecord, _ partition: LogPartition) {
        let sequence = record.metadata.sequence
        let bundle = Bundle(record.payload)
        var counts = false
        var said: (successorOf: [NodeID], by: NodeID)?
        if let bundle {
            counts = partition.order.counts(bundle, at: sequence)
            let writer = bundle.origin.node
            if let through = bundle.dispatchedThrough { dispatched[writer, default: [:]][partition.index] = through }
            if counts, bundle.gone.contains(incarnations.current), !isOver {
                isOver = true
                let isTwin = writer.store == incarnations.current.store
                log(
                    .warning,
                    "node \(context.shownName(of: writer)) has written into the log that this node (\(incarnations.current)) is gone"
                        + (isTwin ? ": it has a copy of this node's store, and each node needs one of its own." : "."))
            }
            if counts, partition.index == 0 { said = (bundle.successorOf, writer) }
        } else {
            counters.illegible += 1
        }
        // Also what was read before: an earlier incarnation of this node may have been killed before it did anything
        // about it.
        defer { if let said { for gone in said.successorOf { context.logSays(successorOf: gone, said.by) } } }
        guard let place = partition.place, sequence > place.sequence else { return }
        partition.place?.sequence = sequence
        counters.records += 1
        if let bundle, counts { progress.record(bundle, record.payload) }
        let given = LogRecord(record, counts ? bundle : nil, partition: partition.index, incarnations)
        for other in loop.loops {
            givenBytes += given.cost
            other.post(.record(given), from: loop)
        }
        settleReaders()
        if givenBytes > Limits.logGivenBytesMax { for partition in partitions { partition.stream?.hold() } }
    }

    func order(of partition: Int, from sequence: UInt64) -> LogOrder {
        LogOrder(from: sequence, knowing: partitions[partition].order)
    }

    func recordGone(_ partition: Int, through sequence: UInt64) -> UInt64 { partitions[partition].recordGone(through: sequence) }

    /// By partition: the last record that was read; 0 for none.
    var readThrough: [UInt64] { partitions.map { $0.place?.sequence ?? 0 } }

    /// Up to where a node has said that it is done with what share groups have dispatched to it; nil if it has not.
    func dispatchedThrough(by node: NodeID, _ partition: Int) -> UInt64? { dispatched[node]?[partition] }

    /// How far a session has come by the claim that has saved it: what was saved, or what the log says since.
    func positions(of session: [UInt8], _ saved: SessionRecord.Saved) -> [UInt8] {
        guard let step = progress.progress(of: session), step.place.epoch == saved.epoch else { return saved.places }
        var read = LogPositions(partitions: partitions.count)
        read.places = partitions.map(\.place)
        return SavedSession.places(saved.places, or: step, in: read)
    }

    /// Forgets how far all other nodes were done: they are gone, and another node dispatches for them.
    func forgetDispatched(except nodes: Set<NodeID>) { dispatched = dispatched.filter { nodes.contains($0.key) } }

    /// A shard has worked off records of so many bytes.
    func taken(_ byteCount: Int) {
        givenBytes -= byteCount
        guard givenBytes <= Limits.logGivenBytesMax / 2 else { return }
        for partition in partitions where partition.stream?.isHeld == true { partition.stream?.resume(now: now) }
    }

    func countIllegible(_ count: Int) { counters.illegible += UInt64(count) }

    func heard(_ news: FollowedStream.News, _ partition: LogPartition) {
        switch news {
        case .found(let first, let last): found(first, last, partition)
        case .caughtUp:
            partition.isCaughtUp = true
            if !awaitsEarlier { loop.postToAll(.logIsCurrent(partition.index)) }
        case .failed(let reason):
            if partition.stream?.isMissing == true, partition.trouble != reason { log(.warning, "\(reason).") }
            partition.trouble = reason
        }
    }

    func found(_ first: UInt64, _ last: UInt64, _ partition: LogPartition) {
        (partition.isFound, partition.trouble) = (true, nil)
        let name = "the log's partition \(partition.index)"
        // Never 0, which stands for none.
        let stream = max(1, Self.hash(partition.stream?.identity ?? ""))
        let start = first > 0 ? first - 1 : 0
        if let place = partition.place, place.stream == stream {
            if last < max(place.sequence, partition.furthest) { cut(partition, name, at: last) }
            if start > place.sequence {
                let count = start - place.sequence
                counters.lost += count
                _ = partition.recordGone(through: start)
                log(
                    .error,
                    "\(count) records of \(name) were deleted before this node had read them (\(place.sequence + 1) to \(start)): "
                        + "their messages are missing from its sessions.")
                partition.place?.sequence = start
            }
            for shard in partition.newcomers.sorted() { begin(partition, on: shard, after: place) }
        } else {
            let isOther = partition.place != nil
            let place = LogPositions.Place(sequence: isOther ? start : last, stream: stream)
            if isOther {
                log(
                    .error, "the stream of \(name) is not the one that this node has read before: it is read from its first record."
                )
                partition.order = LogOrder()
                partition.forgetGone(behind: 0)
                partition.stream?.restart(from: start + 1, now: now)
            }
            partition.place = place
            for shard in loop.loops.indices { begin(partition, on: shard, after: place) }
        }
        (partition.newcomers, partition.furthest) = ([], 0)
    }

    /// Cuts a partition off, because the servers have lost the records that they stored last. Records that they store
    /// now have the same numbers, and must not be taken for those.
    private func cut(_ partition: LogPartition, _ name: String, at last: UInt64) {
        guard let place = partition.place else { return }
        log(
            .error,
            "the servers have lost the newest records of \(name) (\(last + 1) to \(max(place.sequence, partition.furthest))), which this "
                + "node has read: what was acknowledged last may be gone, as after a power cut of servers that do not sync always.")
        for node in dispatched.keys {
            if let through = dispatched[node]?[partition.index] { dispatched[node]?[partition.index] = min(through, last) }
        }
        for index in readers.indices {
            readers[index].ends[partition.index] = readers[index].ends[partition.index].map { min($0, last) }
        }
        partition.forgetGone(behind: last)
        context.logIsCut(partition.index, at: last)
        loop.postToAll(.logIsCut(partition.index, at: last))
        guard last < place.sequence else { return }
        partition.place?.sequence = last
        partition.stream?.restart(from: LogPartition.start(behind: last), now: now)
        settleReaders()
    }

    func begin(_ partition: LogPartition, on shard: Int, after place: LogPositions.Place) {
        loop.loops[shard].post(.logBegins(partition.index, after: place), from: loop)
    }

    /// FNV-1a: the same on all nodes.
    static func hash(_ text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}

/// The entries that are to be in the log.
extension ClusterLog {
    /// Refuses a shard's batch: it is not logged.
    func refuse(_ serial: UInt64, of shard: Int) {
        ledger.failed(ledger.begin(serial, of: shard), .unknown, in: .max)
        settle()
    }

    /// Puts what a shard has written into the log: a batch of it.
    func append(_ batch: LogBatch, serial: UInt64, of shard: Int) {
        // The batch itself is the last part: it may have no other.
        let token = ledger.begin(serial, of: shard, count: batch.parts.count + 1)
        counters.progress += UInt64(batch.progressCount)
        for part in batch.parts {
            // The lowest bit of a publisher says nothing.
            partitions[part.partition].writer.append(
                batch.entries(of: part), publisher: part.publisher >> 1,
                for: part.isOfMessage ? .message(batch: token) : .step(batch: token), now: now, self)
        }
        ledger.done(token)
        settle()
    }

    /// The position behind all of a publisher's messages so far, in the partition of a topic.
    func place(of publisher: UInt64, _ topic: UnsafeRawBufferPointer) -> (partition: Int, place: Cluster.LogWriter.Place) {
        let partition = BrokerShard.logPartition(of: topic, among: partitions.count)
        return (partition, partitions[partition].writer.place(of: publisher >> 1))
    }

    /// Whether all messages in front of a position are in the log, or given up.
    func hasPassed(_ ahead: (partition: Int, place: Cluster.LogWriter.Place)) -> Bool {
        partitions[ahead.partition].writer.hasPassed(ahead.place)
    }

    /// Lets all nodes know up to where this one is done with what share groups have dispatched to it.
    func report(dispatchedThrough sequence: UInt64, _ partition: Int) {
        let entry = Bundle.encode(.dispatched(through: sequence))
        partitions[partition].writer.append(entry[...], publisher: 0, for: .nobody, now: now, self)
        settle()
    }

    /// Says of a node in each partition that it is gone, and whether this one would dispatch for it.
    func report(_ word: Bundle.Word) {
        let entry = Bundle.encode(word)
        for one in partitions { one.writer.append(entry[...], publisher: 0, for: .nobody, now: now, self) }
        settle()
    }

    /// Says that these earlier incarnations of the node are gone: what they have written counts only in front of that,
    /// and the shards hear that the log is current when it is read. Else a record that was still on its way when the
    /// node was killed would come behind a client that has sent its message anew.
    func end(_ earlier: [NodeID]) {
        awaitsEarlier = !earlier.isEmpty
        guard awaitsEarlier else { return }
        // Where there is no room, what is late is not taken either.
        whenRead(behind: earlier.flatMap { Bundle.encode(.gone($0)) }, awaitsRoom: false) {
            [unowned self, incarnation = incarnations.current] in
            guard incarnation == incarnations.current else { return }
            awaitsEarlier = false
            for partition in partitions where partition.isCaughtUp { loop.postToAll(.logIsCurrent(partition.index)) }
        }
    }

    /// Calls `then` when all has been read that others have written before they went.
    ///
    /// - Parameters:
    ///   - entries: what is written behind that; nothing, if it is not given.
    ///   - awaitsRoom: whether that is waited for, where there is none.
    ///   - then: what follows.
    func whenRead(
        behind entries: [UInt8] = Bundle.encodeNothing(), awaitsRoom: Bool = true, _ then: @escaping () -> Void
    ) {
        lastReader += 1
        readers.append(
            LogReader(number: lastReader, entries, awaitsRoom: awaitsRoom, partitions: partitions.indices, then: then))
        unwritten += partitions.indices.map { (lastReader, $0) }
        settle()
    }

    private func write(for reader: UInt64, _ partition: LogPartition) {
        guard let entries = readers.first(where: { $0.number == reader })?.entries else { return }
        partition.writer.append(entries[...], publisher: 0, for: .reader(reader), now: now, self)
    }

    func recordEnd(_ sequence: UInt64, of partition: Int, for reader: UInt64) {
        for index in readers.indices where readers[index].number == reader { readers[index].ends[partition] = sequence }
    }

    func settleReaders() {
        guard !readers.isEmpty else { return }
        let ready = readers.filter { $0.hasRead(readThrough) }
        readers.removeAll { $0.hasRead(readThrough) }
        for reader in ready { reader.then() }
    }

    /// Reads the answer to a record of so many bytes; nil if it says nothing about the record.
    private func read(_ answer: NATSAnswer, _ partition: Int, byteCount: Int) -> StoreAnswer? {
        switch answer {
        case .message(let message):
            do throws(JetStreamError) {
                return .stored(at: try JetStreamAnswer.sequence(acknowledgedBy: message))
            } catch {
                switch error.outcome {
                case .noRoom:
                    refusals.refused(Self.streamName(partition, plan), error)
                    return .noRoom
                case .tryAgain: return .unavailable
                case .refused, .conflict:
                    log(.warning, "a record could not be written to the log: \(error).")
                    return .refused
                }
            }
        case .unsent(.tooLarge(let bytesMax)):
            log(
                .warning,
                "a message with \(byteCount) bytes is larger than the servers' max_payload (\(bytesMax)): it is not logged.")
            return .refused
        case .nobody, .unsent: return .unavailable
        case .late, .lost: return nil
        }
    }

    /// Tells the shards what has become of their batches, and whether too much waits.
    func settle() {
        guard !isSettling else { return }
        isSettling = true
        defer { isSettling = false }
        let unwritten = unwritten
        self.unwritten = unwritten.filter { partitions[$0.partition].writer.lacksRoom }
        for (reader, index) in unwritten where !partitions[index].writer.lacksRoom { write(for: reader, partitions[index]) }
        settleReaders()
        settleRoom()
        for outcome in ledger.take() {
            let news: FromCluster =
                outcome.failure.map {
                    .logFailed(
                        through: outcome.serial,
                        FailedBatches(partitions: outcome.partitions, isRefused: $0 != .unknown, isForRoom: $0 == .noRoom))
                } ?? .logged(through: outcome.serial)
            loop.loops[outcome.shard].post(news, from: loop)
        }
        let state = (isFull: partitions.contains { $0.writer.isFull }, isAway: !isAttached)
        guard state != loggedState else { return }
        loggedState = state
        loop.postToAll(.logRoom(isFull: state.isFull, isAway: state.isAway))
    }

    /// Tells the shards which partitions have no room, before they hear which batches failed for it.
    private func settleRoom() {
        var lacking: UInt64 = 0
        for partition in partitions where partition.writer.lacksRoom { lacking |= 1 << UInt64(partition.index) }
        guard lacking != loggedLacking else { return }
        for partition in partitions where (loggedLacking & ~lacking) >> UInt64(partition.index) & 1 == 1 {
            refusals.taken(Self.streamName(partition.index, plan))
        }
        loggedLacking = lacking
        loop.postToAll(.logLacksRoom(lacking))
    }
}

/// What the writers of the partitions want.
extension ClusterLog: Cluster.LogSink {
    func store(_ record: [UInt8], messageID: String, partition: Int, queue: Int, number: UInt64) {
        let expectation = JetStreamRequest.Expectation(messageIdentifier: messageID)
        let request = JetStreamRequest.publish(partitions[partition].subject, expectation, payload: record)
        connection.request(request, within: Limits.logAnswerMillisecondsMax) { [unowned self, byteCount = record.count] answer in
            if let answer = read(answer, partition, byteCount: byteCount) {
                partitions[partition].writer.answered(queue: queue, number: number, answer, now: now, self)
            }
            settle()
            context.writeIsOver()
        }
    }

    func stored(_ waiter: LogWaiter, at sequence: UInt64, partition: Int) {
        switch waiter {
        case .message(let batch):
            counters.written += 1
            ledger.done(batch)
        case .step(let batch): ledger.done(batch)
        case .reader(let number): recordEnd(sequence, of: partition, for: number)
        case .nobody: break
        }
    }

    func failed(_ waiter: LogWaiter, _ failure: LogFailure, partition: Int) {
        switch waiter {
        case .message(let batch):
            counters.failed += 1
            ledger.failed(batch, failure, in: 1 << UInt64(partition))
        case .step(let batch): ledger.failed(batch, failure, in: 1 << UInt64(partition))
        case .reader(let number):
            let awaitsRoom = readers.first { $0.number == number }?.awaitsRoom ?? false
            // A log that takes nothing is not waited for; one that cannot be reached is.
            if failure == .refused && isAttached || failure == .noRoom && !awaitsRoom {
                recordEnd(0, of: partition, for: number)
            } else {
                unwritten.append((number, partition))
            }
        case .nobody: break
        }
    }
}

extension Limits {
    /// Bytes of records that the shards have not worked off; beyond them no more is read.
    static let logGivenBytesMax = 16 << 20

    /// How long the log keeps a record, in days.
    static let logDays = 7
}

extension LogRecord {
    /// What the shards are given of a record.
    ///
    /// - Parameters:
    ///   - record: as it came.
    ///   - bundle: what was read in it; nil if it does not count.
    ///   - partition: from 0.
    ///   - incarnations: of this node, by which it knows what it has written.
    init(_ record: StreamRecord, _ bundle: Bundle?, partition: Int, _ incarnations: NodeIncarnations) {
        self.init(bundle, record.payload, partition: partition, sequence: record.metadata.sequence)
        storedAt = record.metadata.storedAt / 1_000_000
        isOwn = bundle.map { incarnations.contains($0.origin.node) } ?? false
    }
}
