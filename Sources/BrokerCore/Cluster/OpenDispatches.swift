public import BrokerModel
import Bytes
public import MQTTCodec

/// Which messages of the cluster's log a shard has dispatched to members of share groups that are not done with them,
/// by their places.
///
///     read from the log ─► begin ─► DispatchToken in a member's queue ─► acknowledged, dropped, dispatched to another ─► end
///
/// A mark ends where what it is attached to is let go of; that of a member on another shard comes back as shard
/// messages.
final class OpenDispatches {
    /// A record of the log.
    struct Place: Equatable, Sendable {
        var partition: Int
        var sequence: UInt64
    }

    /// A record of which something was dispatched.
    private struct Open {
        let sequence: UInt64
        /// How many marks there are.
        var count: Int
        /// The number of the newest snapshot when it was dispatched; 0 for none.
        let snapshot: UInt64
    }

    /// Up to where all partitions had been read at some time.
    private struct Snapshot {
        let number: UInt64
        let read: [UInt64]
    }

    private struct Partition {
        /// By rising sequences, from `head` on.
        var open: [Open] = []
        var head = 0
        /// How many of those behind the head are done.
        var doneCount = 0
        /// The last record of which anything was dispatched.
        var last: UInt64 = 0

        mutating func begin(_ sequence: UInt64, snapshot: UInt64) {
            last = max(last, sequence)
            let index = open.count - 1
            guard index >= 0, open[index].sequence == sequence else {
                open.append(Open(sequence: sequence, count: 1, snapshot: snapshot))
                return
            }
            // What was dispatched of it before may be done already.
            if head > index { head = index } else if open[index].count == 0 { doneCount -= 1 }
            open[index].count += 1
        }

        mutating func end(_ sequence: UInt64) {
            let index = open[head...].partitioningIndex { $0.sequence >= sequence }
            guard index < open.count, open[index].sequence == sequence else { return }
            open[index].count -= 1
            guard open[index].count == 0 else { return }
            doneCount += 1
            advance()
        }

        mutating func cut(at last: UInt64) {
            open.removeAll { $0.sequence > last }
            self.last = min(self.last, last)
            (head, doneCount) = (0, open.count { $0.count == 0 })
            advance()
        }

        /// Goes on to what is open, and forgets what is done when that is more than half: one message may be open for
        /// days.
        mutating func advance() {
            while head < open.count, open[head].count == 0 {
                head += 1
                doneCount -= 1
            }
            guard head + doneCount > 1024, head + doneCount > open.count / 2 else { return }
            open.removeAll { $0.count == 0 }
            (head, doneCount) = (0, 0)
        }
    }

    private var partitions: [Partition]
    /// In the order of their numbers, which have no end.
    private var snapshots: [Snapshot] = []
    private var lastSnapshot: UInt64 = 0
    /// What other shards are to be told: by shard, the places of marks that have ended here.
    private(set) var returned: [Int: [Place]] = [:]

    init(partitions: Int) { self.partitions = Array(repeating: Partition(), count: partitions) }

    /// The first record that is not done; nil if all are.
    func firstOpen(_ partition: Int) -> UInt64? {
        let one = partitions[partition]
        return one.head < one.open.count ? one.open[one.head].sequence : nil
    }

    /// Up to where a partition is done with, as far as that hangs on what is open in others: steps that say what became
    /// of messages dispatched since stand behind that. nil if nothing is open.
    func bound(_ partition: Int) -> UInt64? {
        guard let oldest = oldestSnapshot, let snapshot = snapshots.last(where: { $0.number <= oldest }) else { return nil }
        return snapshot.read[partition]
    }

    /// How many records are kept, and how many snapshots.
    var heldCount: Int { partitions.reduce(0) { $0 + $1.open.count } }
    var snapshotCount: Int { snapshots.count }

    /// Remembers how far partitions are read; to be called about each second.
    func record(read: LogPositions) {
        guard partitions.count > 1 else { return }
        let places = partitions.indices.map { read.places[$0]?.sequence ?? 0 }
        guard snapshots.last?.read != places else { return }
        // What is older than all that is open has no use; of what a long wait has gathered half is enough.
        let oldest = oldestSnapshot ?? lastSnapshot
        if let first = snapshots.lastIndex(where: { $0.number <= oldest }) { snapshots.removeFirst(first) }
        if snapshots.count >= Limits.dispatchedSnapshotsMax {
            snapshots = snapshots.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        }
        lastSnapshot += 1
        snapshots.append(Snapshot(number: lastSnapshot, read: places))
    }

    private var oldestSnapshot: UInt64? {
        partitions.compactMap { $0.head < $0.open.count ? $0.open[$0.head].snapshot : nil }.min()
    }

    func last(_ partition: Int) -> UInt64 { partitions[partition].last }

    /// Something of a record is dispatched; records come in the log's order.
    func begin(_ place: Place) {
        partitions[place.partition].begin(place.sequence, snapshot: lastSnapshot)
    }

    /// A mark of this shard has ended. O(log open).
    func end(_ place: Place) { partitions[place.partition].end(place.sequence) }

    /// A partition ends at this record: what stood behind it is nobody's any more, and its numbers are other records'.
    func cut(_ partition: Int, at last: UInt64) {
        partitions[partition].cut(at: last)
        snapshots = snapshots.map { snapshot in
            var read = snapshot.read
            read[partition] = min(read[partition], last)
            return Snapshot(number: snapshot.number, read: read)
        }
    }

    /// A mark of another shard has ended here.
    func give(back place: Place, to shard: Int) { returned[shard, default: []].append(place) }

    func takeReturned() -> [Int: [Place]] {
        defer { returned = [:] }
        return returned
    }
}

/// Says as long as it lives that a message of the log is dispatched to somebody who is not done with it.
final class DispatchToken {
    let place: OpenDispatches.Place
    /// The shard that has dispatched to it; nil for the one that the mark is on.
    let dispatcher: Int?
    private let places: OpenDispatches
    private var isHandedOver = false

    /// - Parameters:
    ///   - place: of the message.
    ///   - dispatcher: another shard, which has dispatched to it; nil for this one.
    ///   - isBegun: whether it counts already, and comes from another shard.
    ///   - places: of this shard.
    init(_ place: OpenDispatches.Place, dispatcher: Int? = nil, isBegun: Bool = false, _ places: OpenDispatches) {
        (self.place, self.dispatcher, self.places) = (place, dispatcher, places)
        if !isBegun { places.begin(place) }
    }

    /// It goes on on another shard.
    func handOver() { isHandedOver = true }

    deinit {
        guard !isHandedOver else { return }
        if let dispatcher { places.give(back: place, to: dispatcher) } else { places.end(place) }
    }
}

/// What share groups have dispatched to sessions, in the cluster's log, mostly to those whose clients are away: whoever
/// takes a session up without its node's disk gets it from there.
///
///     a member's queue ──► recordDispatched ──► the log ──► settleKept: its DispatchToken ends
///     (sent with QoS 2 ──► recordSent ──► the log ──► the same)
///
/// Until then the message counts as dispatched and not done with: of a node that is lost before, another one dispatches
/// it again.
extension ClusterDispatching {
    /// A share group's message waits for a client that is away, or nothing else says that it is not done with: the log
    /// is to know whose it is.
    func recordDispatched(_ name: MessageName, _ mark: DispatchToken?, to session: Session) {
        // Also of a session that nobody has claimed since the node was started.
        guard name.isDispatched, let port = shard.cluster, let log = port.log, session.keepsMessages, port.moves != nil,
            session.cluster.epoch > 0
        else {
            return
        }
        let partitions = shard.clusterLogReading.write(.dispatched(name), of: session, port, log)
        let dependency = shard.clusterLogReading.awaitLog(port, besidesPacketIn: partitions)
        log.kept.append(ShardLog.Kept(dependency: dependency, session: session.identity, name: name, mark: mark))
    }

    /// A client has gone: what it has not taken of its share groups waits for it.
    func recordDispatched(to session: Session) {
        guard shard.clusterLog != nil else { return }
        for (name, mark) in session.queue.takeMarks() { recordDispatched(name, mark, to: session) }
    }

    /// A message of a share group is about to be sent with QoS 2: it is this client's when the log says so.
    /// [MQTT-4.8.2-4 v5]
    func keepUntilLogged(_ entry: QueueEntry, _ session: Session, _ dependency: DurabilityDependency) {
        guard let log = shard.clusterLog, let mark = entry.takeMark() else { return }
        log.kept.append(ShardLog.Kept(dependency: dependency, session: session.identity, name: entry.name, mark: mark))
    }

    /// Settles the entries that waited for the log, up to a serial: it has them, or they are sent once more.
    func settleKept(_ serial: UInt64, _ failed: FailedBatches?) {
        guard let log = shard.clusterLog, !log.kept.isEmpty else { return }
        let settled = log.kept.prefix { $0.dependency.serial <= serial }
        log.kept.removeFirst(settled.count)
        guard let failed, !failed.isRefused else { return }
        for kept in settled where failed.partitions & kept.dependency.partitions != 0 {
            if let session = shard.sessions.find(kept.session) { recordDispatched(kept.name, kept.mark, to: session) }
        }
    }
}

/// A step on its way into the log.
public struct SessionStep: Sendable {
    public let step: FlowStep
    public let clientIdentifier: EncodedString
    /// What the client's messages carry: what has the same publisher keeps its order.
    public let publisher: UInt64

    init(_ step: FlowStep, of session: Session) {
        self.step = step
        (clientIdentifier, publisher) = (session.clientIdentifier, session.publisherKey)
    }
}

extension BrokerShard {
    /// A step that stands in a record since a node that is gone was done: what is a session's is not dispatched again,
    /// for whoever takes that up gets it.
    func learnDispatched(_ step: FlowStep, by node: UInt64) {
        guard let port = cluster, let log = port.log else { return }
        clusterLogReading.recordStep(step.place.number, log)
        if let name = step.name, name.isDispatched { port.learned[node, default: []].insert(name) }
    }

    /// A message of a share group was passed on: under its name before it is not dispatched again.
    func learnPassedOn(_ before: MessageName, by node: UInt64) { cluster?.learned[node, default: []].insert(before) }
}
