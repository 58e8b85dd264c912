import BrokerCore
import BrokerModel
import Cluster
import MQTTCodec
import NATSClient
import Platform
import ServerLoops

/// One node's part in the cluster's retained messages: brings together the shards, the replica's decisions and the
/// stream.
///
///     shards ── ToCluster.retained ──► RetainedReplica ──► requests ──► the stream `martlet_NAME_retained`
///     shards ◄── settleRetained ◄────── RetainedReplica ◄── FollowedStream ◄──┘
///
/// Belongs to the loop that speaks to the servers. Where the replica wants the stream read from elsewhere, that is
/// begun when the replica's call is over, for it may come out of the reading itself.
final class RetainedRunner: RetainedSink {
    private let plan: ClusterPlan
    /// The first incarnation of this process, after which its requests are named.
    private let node: NodeID
    private unowned let loop: ShardLoop
    private let connection: NATSConnection
    private let space: SubjectSpace
    private var replica: RetainedReplica
    private var stream: FollowedStream?
    /// The number from which the stream is to be read; nil while it is followed.
    private var wantedSequence: UInt64? = 1
    private var configuration: StreamConfiguration?
    /// Whether the shards were told last that too much waits.
    private(set) var isFull = false
    private var bytesMax = 0
    /// Why the stream cannot be read or written; nil if it can.
    private(set) var trouble: String?
    private let refusals: StreamRefusals
    private unowned let context: any GatewayContext
    /// Whether the servers had no room for the last change.
    private var lacksRoom = false
    private var illegibleOrigins: UInt64 = 0

    init(
        _ plan: ClusterPlan, node: NodeID, space: SubjectSpace, on loop: ShardLoop, _ connection: NATSConnection,
        _ refusals: StreamRefusals, context: any GatewayContext
    ) {
        (self.plan, self.node, self.loop, self.connection, self.refusals) = (plan, node, loop, connection, refusals)
        (self.space, self.context) = (space, context)
        replica = RetainedReplica(
            node: node, space: space, shardCount: loop.shard.placement.shardCount, isMember: loop.shard.isMember(of: plan.name))
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    var streamName: String { "martlet_\(plan.name)_retained" }

    /// Whether the node has what the stream has.
    var isCurrent: Bool { replica.isCurrent }
    /// Changes that wait for the stream.
    var waitingCount: Int { replica.waitingCount }
    /// Changes that the servers have refused for good.
    var refused: UInt64 { replica.refused }
    var illegible: UInt64 { replica.illegible + illegibleOrigins }
    var nextDeadline: UInt64? { [stream?.nextDeadline, replica.wakesAt].compactMap { $0 }.min() }

    // MARK: The connection

    func attached(_ info: ServerInfo) {
        var configuration = StreamConfiguration(name: streamName, subjects: [])
        configuration.subjects = [String(decoding: space.retainedPattern, as: UTF8.self)]
        configuration.messagesPerSubjectMax = 1
        configuration.allowsTimeToLive = true
        configuration.replicas = plan.replicas(info)
        self.configuration = configuration
        let room = max(0, info.payloadBytesMax - Limits.retainedFrameBytesMax)
        if room != bytesMax {
            bytesMax = room
            loop.postToAll(.retainedBytes(max: room))
        }
        stream?.attached(configuration, now: now)
        settle()
    }

    func detached() {
        configuration = nil
        stream?.detached()
        replica.detached(now: now)
        settle()
    }

    /// This node goes on as another one.
    func begin(as node: NodeID) { replica.begin(as: node) }

    func received(_ message: MessageView) -> Bool {
        guard let stream, stream.received(message, now: now) else { return false }
        settle()
        return true
    }

    func advance() {
        stream?.advance(now: now)
        if let wakesAt = replica.wakesAt, wakesAt <= now, replica.tick(now: now, self) {
            loop.postToAll(.lookForStaleChanges)
        }
        settle()
    }

    /// Begins to read where the replica wants it, and tells the shards how it is.
    private func settle() {
        while let sequence = wantedSequence {
            wantedSequence = nil
            guard stream?.next != sequence else { continue }
            stream?.detached()
            let made = FollowedStream(
                name: "martlet\(node)r", from: sequence, on: connection, batch: Limits.retainedBatchMax,
                give: { [unowned self] in replica.received($0.payload, sequence: $0.metadata.sequence, self) },
                report: { [unowned self] in heard($0) })
            stream = made
            if let configuration { made.attached(configuration, now: now) }
        }
        // What waits already is tried on, so that it shows when there is room. If nothing does, since others have
        // stored it or it was refused for good, the next change shows it.
        if replica.waitingCount == 0 { hasRoom() }
        guard (replica.isFull || lacksRoom) != isFull else { return }
        isFull.toggle()
        loop.postToAll(.retainedIsFull(isFull))
    }

    func heard(_ news: FollowedStream.News) {
        switch news {
        case .found(_, let last):
            trouble = nil
            replica.found(lastSequence: last, now: now, self)
        case .caughtUp: replica.caughtUp(self)
        case .failed(let reason):
            trouble = reason
            context.report(reason)
        }
    }

    // MARK: The shards

    /// Takes a batch of a shard's changes.
    func received(_ batch: ShardMessageBatch, serial: UInt64, from shard: Int) {
        let now = now
        var count = 0
        batch.forEachMessage { _ in count += 1 }
        let ticket = replica.begin(count, of: shard, serial: serial)
        batch.forEachMessage { change($0, ticket, isOffer: false, now: now) }
        settle()
    }

    func swept(_ batch: ShardMessageBatch, next: Int?, round: UInt64) {
        let now = now
        batch.forEachMessage { change($0, nil, isOffer: true, now: now) }
        replica.swept(next: next, round: round, self)
        settle()
    }

    /// The changes of a topic that are not in the stream yet.
    func changes(of topic: UnsafeRawBufferPointer) -> [UInt64] { replica.changes(of: topic) }

    /// Whether one of these changes is still on its way to the stream.
    func isOpen(_ changes: [UInt64], of topic: [UInt8]) -> Bool { topic.withUnsafeBytes { replica.isOpen(changes, of: $0) } }

    func foundStale() {
        replica.foundStale(self)
        settle()
    }

    private func change(_ message: ClusterMessage, _ ticket: UInt64?, isOffer: Bool, now: UInt64) {
        let record = RetainedRecord(
            node: node, number: message.change.number, topic: message.topic, origin: message.origin, properties: message.properties,
            payload: message.payload, qos: message.qos, expiresAt: message.expiresAt.map { loop.shard.wallClock($0) })
        let shardNow = loop.shard.now
        replica.change(
            record, millisecondsLeft: message.expiresAt.map { $0 - min(shardNow, $0) }, ticket, isOffer: isOffer, now: now, self)
    }

    // MARK: RetainedSink

    func store(_ change: RetainedChangeToStore) {
        guard let subject = Subject(change.subject) else { preconditionFailure("a topic's subject is one") }
        var expectation = JetStreamRequest.Expectation(messageIdentifier: "\(node)-r-\(change.number)")
        expectation.timeToLiveSeconds = change.secondsToLive
        if change.isOffer { expectation.lastSubjectSequence = 0 }
        let request = JetStreamRequest.publish(subject, expectation, payload: change.record)
        connection.request(request, within: Limits.retainedAnswerMillisecondsMax) { [unowned self] in
            replica.answered(change.number, read($0), now: now, self)
            settle()
            context.writeIsOver()
        }
    }

    private func read(_ answer: NATSAnswer) -> StoreAnswer {
        // It was made before it was known how much they take.
        if case .unsent(.tooLarge) = answer { return .refused }
        guard case .message(let message) = answer else { return .unavailable }
        do throws(JetStreamError) {
            let sequence = try JetStreamAnswer.sequence(acknowledgedBy: message)
            hasRoom()
            return .stored(at: sequence)
        } catch {
            switch error.outcome {
            case .conflict: return .conflict
            case .noRoom:
                lacksRoom = true
                refusals.refused(streamName, error)
                return .noRoom
            case .tryAgain: trouble = "JetStream, retained messages: \(error)"
            case .refused: break
            }
            context.report("a retained message could not be stored in JetStream: \(error)")
            return error.outcome == .refused ? .refused : .unavailable
        }
    }

    private func hasRoom() {
        guard lacksRoom else { return }
        lacksRoom = false
        refusals.taken(streamName)
    }

    func isSafe(_ serial: UInt64, of shard: Int) { loop.loops[shard].post(.retainedIsSafe(serial), from: loop) }

    func follow(from sequence: UInt64) { wantedSequence = sequence }

    func settle(_ record: RetainedRecord) {
        var message = ClusterMessage(
            topic: record.topic, properties: record.properties, payload: record.payload, qos: record.qos, retain: true,
            expiresAt: record.expiresAt.map { loop.shard.shardClock($0) })
        message.change = RetainedChange(node: record.node.rawValue, number: record.number)
        message.origin = record.origin
        if !loop.shard.settleRetained(message) { illegibleOrigins += 1 }
    }

    func beginReading() { loop.shard.beginReadingRetained() }

    func sweep(_ shard: Int, from place: Int, offers: Bool, round: UInt64) {
        loop.shard.sweepRetained(of: shard, from: place, offers: offers, round: round)
    }

    func becameMember() { loop.shard.becameMember(of: plan.name) }
}

extension Limits {
    /// Milliseconds that JetStream has to answer a change of a retained message; then it is sent again.
    static let retainedAnswerMillisecondsMax: UInt64 = 2000

    /// Records of retained messages that may be on their way; a loop takes in no more between two turns.
    static let retainedBatchMax = 64

    /// Bytes of a record besides the retained message and its origin, with the headers that it travels under; more do
    /// not occur.
    static let retainedFrameBytesMax = 512
}
