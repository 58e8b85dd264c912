import BrokerCore
import BrokerModel
import Bytes
import Cluster
import Configuration
import NATSClient
import ServerLoops

/// Wills that are due: of clients of this node, and of those whose node is gone. Each stands in its session's record
/// until it is in the log.
///
///     shard ── ToCluster.will ──► job ──► the stream of what is retained ──► the log ──► the record without it
///     LeftSessions.publish ────────►
extension SessionCoordinator {
    /// Takes the will of a client whose connection has ended on a shard.
    func due(_ saved: SavedWill, of session: [UInt8]) {
        guard owner != nil else {
            // Otherwise it stands in the record, for whoever is there.
            guard plan.detached == .local else { return }
            wills.ended.insert(saved.name, of: session)
            return post(.publishAlone(saved), of: session)
        }
        // A claim of another node has come in between, and sees to it.
        guard owner?.keeps(session) == true || sessions[session].going != nil else { return }
        publish(saved, of: session)
    }

    /// Brings a will into the log, soon; what waits for that goes on then. Those of one session go one after the other,
    /// the earlier first.
    func publish(_ will: SavedWill, of session: [UInt8]) {
        let job = WillJob(will, of: session)
        guard !wills.ended.contains(job.key) else {
            leftNews.append(.published(session, job.key.name))
            ticksAt = now
            return
        }
        let jobs = sessions[session].wills.jobs
        let place = jobs.firstIndex { $0.key.name >= will.name } ?? jobs.count
        if place < jobs.count, jobs[place].key == job.key { return }
        sessions[session].wills.jobs.insert(job, at: place)
        wills.append(session)
        ticksAt = now
    }

    /// Whether wills of a session are on their way: then nothing else is said of it.
    func publishesWill(of session: [UInt8]) -> Bool { !sessions[session].wills.jobs.isEmpty }

    func tickWills() {
        wills.retry()
        goOnWithWills()
    }

    /// Sends the wills whose way is free by now: what had to be at the servers before them may be there.
    func goOnWithWills() {
        wills.lookBehind()
        sendWills()
    }

    private func sendWills() {
        guard connection.isReady else { return }
        while let session = wills.next() {
            let jobs = sessions[session].wills.jobs
            guard let first = jobs.first, !jobs.contains(where: \.isUnderWay) else { continue }
            if isBehind(first) { wills.behind.append(session) } else { send(first) }
        }
    }

    /// Whether something that its client has published before is not there yet.
    private func isBehind(_ job: WillJob) -> Bool {
        let ahead = job.ahead ?? context.ahead(of: job.will)
        if job.ahead == nil { change(job) { $0.ahead = ahead } }
        return context.isOnItsWay(ahead)
    }

    private func send(_ job: WillJob) {
        guard let request = request(job) else { return finish(job) }
        wills.underWayCount += 1
        change(job) { $0.isUnderWay = true }
        connection.request(request, within: Limits.willAnswerMillisecondsMax) { [unowned self] in
            wills.underWayCount -= 1
            answered(job, $0, byteCount: request.payload.count)
            sendWills()
        }
    }

    /// The request that brings a will; nil if its message cannot be read.
    private func request(_ job: WillJob) -> JetStreamRequest? {
        let made = job.will.withMessage { message -> JetStreamRequest? in
            var expectation = JetStreamRequest.Expectation(messageIdentifier: job.messageIdentifier)
            switch job.stage {
            case .logging:
                let partition = BrokerShard.logPartition(of: message.topic, among: plan.logPartitions)
                let record = Bundle.record(of: job.will, of: job.key.session, by: node)
                return .publish(ClusterLog.subject(partition, plan), expectation, payload: record)
            case .retaining:
                guard let subject = Subject(space.retained(message.topic)) else { return nil }
                let left = message.millisecondsLeft.map { min($0, Limits.messageExpiryMillisecondsMax) }
                let record = job.will.origin.withUnsafeBytes { origin in
                    let record = RetainedRecord(
                        node: job.changeNode, number: 1, topic: message.topic, origin: origin, properties: message.properties,
                        payload: message.payload, qos: message.qos, expiresAt: left.map { wallClock + $0 })
                    expectation.timeToLiveSeconds = record.secondsToLive(left)
                    return record.encoded()
                }
                return .publish(subject, expectation, payload: record)
            }
        }
        return made ?? nil
    }

    private func change(_ job: WillJob, _ change: (inout WillJob) -> Void) {
        let session = job.key.session
        guard let place = sessions[session].wills.jobs.firstIndex(where: { $0.key == job.key }) else { return }
        change(&sessions[session].wills.jobs[place])
    }

    /// Takes the answer to a will's request of so many bytes; nothing happens if the lease has ended meanwhile.
    private func answered(_ job: WillJob, _ answer: NATSAnswer, byteCount: Int) {
        let session = job.key.session
        guard sessions[session].wills.jobs.contains(where: { $0.key == job.key }) else { return }
        change(job) { $0.isUnderWay = false }
        if case .unsent(.tooLarge(let bytesMax)) = answer {
            return refused(job, "\(byteCount) bytes are more than the servers' max_payload (\(bytesMax))")
        }
        guard case .message(let message) = answer else { return wills.retries.append(session) }
        do throws(JetStreamError) {
            try JetStreamAnswer.sequence(acknowledgedBy: message)
            advance(job)
        } catch {
            switch error.outcome {
            case .noRoom:
                context.refused(stream(of: job), error)
                wills.retries.append(session)
            case .tryAgain: wills.retries.append(session)
            case .refused, .conflict: refused(job, "\(error)")
            }
        }
    }

    private func stream(of job: WillJob) -> String {
        guard job.stage == .logging else { return "martlet_\(plan.name)_retained" }
        let partition = job.will.withMessage { BrokerShard.logPartition(of: $0.topic, among: plan.logPartitions) } ?? 0
        return ClusterLog.streamName(partition, plan)
    }

    private func advance(_ job: WillJob) {
        guard job.stage == .retaining else { return finish(job) }
        change(job) { $0.stage = .logging }
        wills.append(job.key.session)
    }

    private func refused(_ job: WillJob, _ reason: String) {
        log(
            .warning,
            "the will of client \(Self.name(job.key.session)) is not \(job.stage == .retaining ? "retained" : "published"): \(reason)."
        )
        advance(job)
    }

    private func finish(_ job: WillJob) {
        let session = job.key.session
        sessions[session].wills.jobs.removeAll { $0.key == job.key }
        if left.isHandling(session) { counters.leftWills += 1 }
        left.published(session, job.key.name)
        stepLeft()
        guard sessions[session].wills.jobs.isEmpty else { return wills.append(session) }
        publishedWills(of: session, job.key.name)
    }

    /// Goes on with what has waited for a session's wills: all that were due are in the log.
    private func publishedWills(of session: [UInt8], _ name: WillName) {
        if let piece = sessions[session].going?.held {
            sessions[session].going?.held = nil
            leaving(session, piece)
        }
        if sessions[session].wills.endsSession {
            sessions[session].wills.endsSession = false
            return ended(session)
        }
        if sessions[session].coming?.wills == .publishing { return clearWills(of: session) }
        if let saved = sessions[session].saves.waiting { return write(saved) }
        guard owner?.keeps(session) == true, !left.isHandling(session) else { return }
        // Nothing else is to be stored of it: its client is back, or it was here once more than its node.
        _ = owner?.save(session, now: now, self) { $0.wills.removeAll { $0.name <= name } }
    }

    // MARK: Clients that come from elsewhere

    /// Whether the wills of a session's earlier connections are seen to, so that its client may come in; if not, that
    /// is begun.
    func hasSeenToWills(_ session: [UInt8], _ visit: IncomingSession) -> Bool {
        guard let record = visit.record, !record.wills.isEmpty || publishesWill(of: session), visit.wills != .cleared else {
            return true
        }
        if visit.wills == .unknown {
            sessions[session].coming?.wills = .owed
            ticksAt = now
        }
        return false
    }

    /// Publishes the wills that are due although the client has come.
    func publishOwedWills(of session: [UInt8], _ visit: IncomingSession) {
        guard let record = visit.record else { return }
        sessions[session].coming?.wills = .publishing
        // Who has kept it up to now has published what was due. [MQTT-3.1.2-8 v5]
        let owed = visit.hasSettledWills ? [] : (visit.found ?? record).dueWills(atReturn: visit.claim.cleanStart, now: wallClock)
        for will in owed { publish(will, of: session) }
        if !publishesWill(of: session) { clearWills(of: session) }
    }

    /// Takes note that the session of the record is over, and that its client begins one that does not last.
    func forgetSession(of session: [UInt8]) {
        if emptyRecord(of: session) { sessions[session].coming?.wills = .publishing }
    }

    /// Drops the wills that must not be published any more, because the client has come back in time.
    private func clearWills(of session: [UInt8]) {
        _ = owner?.save(session, now: now, self) { ($0.wills, $0.awaySince) = ([], 0) }
    }
}

/// A will on its way: first to the retained messages, if it is one, and then into the log. Both know it by its name, so
/// that it counts once whoever brings it, and how often.
///
///     waiting ──► retaining ──► logging ──► over
struct WillJob {
    struct Key: Hashable {
        let session: [UInt8]
        let name: WillName
    }

    enum Stage {
        case retaining
        case logging
    }

    let key: Key
    let will: SavedWill
    var stage: Stage
    /// Whether the servers have been asked to store it, and have not answered.
    var isUnderWay = false
    /// The messages that have to be at the servers before the will; nil before its first turn.
    var ahead: WillAhead?

    init(_ will: SavedWill, of session: [UInt8]) {
        (key, self.will) = (Key(session: session, name: will.name), will)
        stage = will.isRetained ? .retaining : .logging
    }

    /// The will's Nats-Msg-Id, by which the servers know it.
    var messageIdentifier: String {
        let session = String(decoding: SubjectSpace.digest(key.session), as: UTF8.self)
        return "will-\(session)-\(key.name.epoch)-\(key.name.number)"
    }

    /// Stands for the node in the change of what is retained, so that all who publish the will make the same one.
    var changeNode: NodeID { NodeID(ClusterLog.hash(messageIdentifier)) }
}

/// The wills of a session on their way into the log, in their order.
struct SessionWills {
    var jobs: [WillJob] = []
    /// Whether the session is over when they are there.
    var endsSession = false

    var isEmpty: Bool { jobs.isEmpty && !endsSession }
}

/// The sessions of which a will is to be sent, one after the other, and what is known of wills beyond their sessions.
///
/// Belongs to a `SessionCoordinator`.
struct WillQueue {
    /// The sessions whose turn it is, in their order.
    private var waiting = Deque<[UInt8]>()
    /// How many wills are under way.
    var underWayCount = 0
    /// Those that are tried again in the next tick.
    var retries: [[UInt8]] = []
    /// Those that wait for what their clients have published before.
    var behind: [[UInt8]] = []
    /// The wills that stand in records although they are over.
    var ended = EndedWills()
    /// By which claims of others sessions have left of which this node has seen to the wills.
    private(set) var settled = BoundedSessionMap<UInt64>(
        countMax: Limits.sessionDropsMax, nameBytesMax: Limits.sessionNameBytesMax)

    mutating func append(_ session: [UInt8]) { waiting.append(session) }

    mutating func retry() {
        waiting.append(contentsOf: retries)
        retries = []
    }

    /// Looks once more at those that wait: what was on its way to the servers may be there.
    mutating func lookBehind() {
        waiting.append(contentsOf: behind)
        behind = []
    }

    /// The session whose turn it is; nil if there is none, or enough is under way.
    mutating func next() -> [UInt8]? { underWayCount < Limits.willsUnderWayMax ? waiting.popFirst() : nil }

    /// Forgets all wills, because the lease has ended: they stand in the records.
    mutating func forget() { (waiting, retries, behind) = ([], [], []) }

    /// A session leaves by another node's claim, and its wills are seen to. Where too many have, all others are
    /// forgotten.
    mutating func settle(_ session: [UInt8], by epoch: UInt64) {
        if !settled.hasRoom(for: session) { settled.removeAll() }
        settled[session] = epoch
    }
}

/// The messages that were on their way to the servers when a will was to be sent: what its client has published before,
/// and changes of the retained message of its topic. The will waits for that, so that it does not come first.
struct WillAhead {
    /// Where the client's messages stand that were given to the log.
    var log: (partition: Int, place: Cluster.LogWriter.Place)?
    /// The topic, and the numbers of its changes.
    var retained: (topic: [UInt8], changes: [UInt64])?
}

/// Wills that stand in records although they are over: this node has published them without the cluster, or they are
/// not to be published any more and the record could not be told yet. Nobody publishes them by the record; the next one
/// that is written has them no more.
///
/// Belongs to a `SessionCoordinator`.
struct EndedWills {
    private var names = BoundedSessionMap<Set<WillName>>(
        countMax: Limits.endedWillsMax, nameBytesMax: Limits.sessionNameBytesMax)
    private(set) var count = 0

    func contains(_ key: WillJob.Key) -> Bool { names[key.session]?.contains(key.name) ?? false }

    /// Beyond `Limits.endedWillsMax`, and `Limits.sessionNameBytesMax`, nothing is kept.
    mutating func insert(_ name: WillName, of session: [UInt8]) {
        guard count < Limits.endedWillsMax, names.hasRoom(for: session), !contains(WillJob.Key(session: session, name: name))
        else { return }
        names[session] = (names[session] ?? []).union([name])
        count += 1
    }

    /// The session's record has these.
    mutating func keep(_ wills: [SavedWill], of session: [UInt8]) {
        guard let known = names[session] else { return }
        let left = known.intersection(wills.map(\.name))
        count -= known.count - left.count
        names[session] = left.isEmpty ? nil : left
    }
}

extension Limits {
    /// The longest Message Expiry Interval there is, in milliseconds.
    static let messageExpiryMillisecondsMax = UInt64(UInt32.max) * 1000
}
