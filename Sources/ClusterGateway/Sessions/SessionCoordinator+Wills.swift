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
    func due(_ saved: SavedWill, of session: [UInt8], from shard: Int) {
        guard owner != nil else {
            // Otherwise it stands in the record, for whoever is there.
            guard plan.detached == .local else { return }
            endedWills.insert(WillName(saved.name), of: session)
            return post(.publishAlone(saved), to: shard)
        }
        // A claim of another node has come in between, and sees to it.
        guard owner?.keeps(session) == true || departures[session] != nil else { return }
        publish(SessionRecord.LastWill(saved), of: session)
    }

    /// Brings a will into the log, soon; what waits for that goes on then. Those of one session go one after the other,
    /// the earlier first.
    func publish(_ will: SessionRecord.LastWill, of session: [UInt8]) {
        let job = WillJob(will, of: session)
        guard !endedWills.contains(job.key) else {
            leftNews.append(.published(session, job.key.name))
            ticksAt = now
            return
        }
        let place = willJobs[session]?.firstIndex { $0.key.name >= will.name } ?? willJobs[session]?.count ?? 0
        if let jobs = willJobs[session], place < jobs.count, jobs[place].key == job.key { return }
        willJobs[session, default: []].insert(job, at: place)
        willQueue.append(session)
        ticksAt = now
    }

    /// Whether wills of a session are on their way: then nothing else is said of it.
    func publishesWill(of session: [UInt8]) -> Bool { willJobs[session] != nil }

    func tickWills() {
        willQueue.append(contentsOf: willRetries)
        willRetries = []
        goOnWithWills()
    }

    /// Sends the wills whose way is free by now: what had to be at the servers before them may be there.
    func goOnWithWills() {
        willQueue.append(contentsOf: willsBehind)
        willsBehind = []
        sendWills()
    }

    /// Takes note that the connection is gone: the fate of the wills that were sent is unknown, and they are sent
    /// again.
    func endWillRequests() {
        for session in willTokens.values {
            for index in willJobs[session]?.indices ?? 0..<0 { willJobs[session]?[index].token = nil }
            willRetries.append(session)
        }
        willTokens = [:]
    }

    /// Forgets all wills, because the lease has ended: they stand in the records.
    func forgetWills() {
        (willJobs, willTokens, willQueue, willRetries, willsBehind) = ([:], [:], [], [], [])
    }

    private func sendWills() {
        guard connection.isReady else { return }
        while willTokens.count < Limits.willsUnderWayMax, let session = willQueue.popFirst() {
            guard let jobs = willJobs[session], jobs.allSatisfy({ $0.token == nil }) else { continue }
            if isBehind(jobs[0]) { willsBehind.append(session) } else { send(jobs[0]) }
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
        lastWillToken += 1
        let token = Self.willTokens | lastWillToken
        do throws(NATSRefusal) {
            try connection.request(
                request.subject, headers: request.headers, payload: request.payload, token: token,
                within: Limits.willAnswerMillisecondsMax)
            willTokens[token] = job.key.session
            change(job) { $0.token = token }
        } catch {
            guard case .tooLarge(let bytesMax) = error else { return willRetries.append(job.key.session) }
            refused(job, "\(request.payload.count) bytes are more than the servers' max_payload (\(bytesMax))")
        }
    }

    /// The request that brings a will; nil if its message cannot be read.
    private func request(_ job: WillJob) -> JetStreamRequest? {
        let made = job.will.withMessage { message -> JetStreamRequest? in
            var expectation = JetStreamRequest.Expectation(messageIdentifier: job.messageIdentifier)
            switch job.stage {
            case .logging:
                let partition = BrokerShard.logPartition(of: message.topic, among: plan.logPartitions)
                guard let subject = Subject(space.log(partition: partition)) else { return nil }
                return .publish(subject, expectation, payload: Bundle.record(of: job.will, of: job.key.session, by: node))
            case .retaining:
                guard let subject = Subject(space.retained(message.topic)) else { return nil }
                let left = message.millisecondsLeft.map { min($0, Limits.messageExpiryMillisecondsMax) }
                let expiresAt = left.map { wallClock + $0 }
                expectation.timeToLiveSeconds =
                    message.payload.isEmpty ? Limits.retainedTombstoneSeconds : left.map { $0 / 1000 + 1 }
                let record = job.will.origin.withUnsafeBytes { origin in
                    RetainedRecord(
                        node: job.changeNode, number: 1, topic: message.topic, origin: origin, properties: message.properties,
                        payload: message.payload, qos: message.qos, expiresAt: expiresAt
                    ).encoded()
                }
                return .publish(subject, expectation, payload: record)
            }
        }
        return made ?? nil
    }

    private func change(_ job: WillJob, _ change: (inout WillJob) -> Void) {
        guard let place = willJobs[job.key.session]?.firstIndex(where: { $0.key == job.key }) else { return }
        if var changed = willJobs[job.key.session]?[place] {
            change(&changed)
            willJobs[job.key.session]?[place] = changed
        }
    }

    func willAnswered(_ token: UInt64, _ answer: NATSAnswer) {
        guard let session = willTokens.removeValue(forKey: token), let job = willJobs[session]?.first(where: { $0.token == token })
        else { return }
        change(job) { $0.token = nil }
        defer { sendWills() }
        guard case .message(let message) = answer else { return willRetries.append(session) }
        do throws(JetStreamError) {
            _ = try JetStreamAnswer.acknowledgement(message)
            advance(job)
        } catch {
            switch error.outcome {
            case .noRoom:
                context.refused(stream(of: job), error)
                willRetries.append(session)
            case .tryAgain: willRetries.append(session)
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
        willQueue.append(job.key.session)
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
        willJobs[session]?.removeAll { $0.key == job.key }
        if left.isHandling(session) { counters.leftWills += 1 }
        left.published(session, job.key.name)
        stepLeft()
        guard willJobs[session]?.isEmpty == true else { return willQueue.append(session) }
        willJobs[session] = nil
        publishedWills(of: session, job.key.name)
    }

    /// Goes on with what has waited for a session's wills: all that were due are in the log.
    private func publishedWills(of session: [UInt8], _ name: WillName) {
        if let piece = heldLeavings.removeValue(forKey: session) { leaving(session, piece) }
        if endsAfterWills.remove(session) != nil { return ended(session) }
        if visits[session]?.wills == .publishing { return clearWills(of: session) }
        if let saved = savesWaiting[session] { return write(saved) }
        guard owner?.keeps(session) == true, !left.isHandling(session) else { return }
        // Nothing else is to be stored of it: its client is back, or it was here once more than its node.
        _ = owner?.save(session, now: now, self) { $0.wills.removeAll { $0.name <= name } }
    }

    // MARK: Clients that come from elsewhere

    /// Whether the wills of a session's earlier connections are seen to, so that its client may come in; if not, that
    /// is begun.
    func hasSeenToWills(_ session: [UInt8], _ visit: SessionVisit) -> Bool {
        guard let record = visit.record, !record.wills.isEmpty || publishesWill(of: session), visit.wills != .cleared else {
            return true
        }
        if visit.wills == .unknown {
            visits[session]?.wills = .owed
            ticksAt = now
        }
        return false
    }

    /// Publishes the wills that are due although the client has come.
    func publishOwedWills(of session: [UInt8], _ visit: SessionVisit) {
        guard let record = visit.record else { return }
        visits[session]?.wills = .publishing
        // Who has kept it up to now has published what was due. [MQTT-3.1.2-8 v5]
        let owed = visit.hasSettledWills ? [] : (visit.found ?? record).dueWills(atReturn: visit.claim.cleanStart, now: wallClock)
        for will in owed { publish(will, of: session) }
        if !publishesWill(of: session) { clearWills(of: session) }
    }

    /// Takes note that the session of the record is over, and that its client begins one that does not last.
    func forgetSession(of session: [UInt8]) {
        let isOnItsWay = owner?.save(session, hasAll: true, now: now, self) {
            ($0.wills, $0.awaySince, $0.expiryInterval, $0.saved) = ([], 0, 0, nil)
        }
        if isOnItsWay == true { visits[session]?.wills = .publishing }
    }

    /// Drops the wills that must not be published any more, because the client has come back in time.
    private func clearWills(of session: [UInt8]) {
        _ = owner?.save(session, now: now, self) { ($0.wills, $0.awaySince) = ([], 0) }
    }

    /// Numbers of requests that bring wills.
    private static let willTokens: UInt64 = 7 << 58

    static func isWill(_ token: UInt64) -> Bool { token >> 58 == 7 }
}

extension WillName {
    init(_ name: SavedWill.Name) { self.init(epoch: name.epoch, number: name.number) }
}

extension SessionRecord.LastWill {
    init(_ will: SavedWill) {
        var entry: [UInt8] = []
        will.withMessage { message in
            var carried = BusMessage(
                topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
                retain: message.retain, millisecondsLeft: will.messageExpiryInterval.map { UInt64($0) * 1000 })
            carried.publisher = message.publisher
            entry = carried.entry
        }
        self.init(name: WillName(will.name), delayInterval: will.delayInterval, message: entry, origin: will.origin)
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
    let will: SessionRecord.LastWill
    var stage: Stage
    /// The request under way; nil for none.
    var token: UInt64?
    /// The messages that have to be at the servers before the will; nil before its first turn.
    var ahead: WillAhead?

    init(_ will: SessionRecord.LastWill, of session: [UInt8]) {
        (key, self.will) = (Key(session: session, name: will.name), will)
        stage = will.isRetained ? .retaining : .logging
    }

    /// The will's Nats-Msg-Id, by which the servers know it.
    var messageIdentifier: String {
        let session = String(decoding: SubjectSpace.digest(key.session), as: UTF8.self)
        return "will-\(session)-\(key.name.epoch)-\(key.name.number)"
    }

    /// Stands for the node in the change of what is retained, so that all who publish the will make the same one.
    var changeNode: NodeID {
        NodeID(messageIdentifier.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 })
    }
}

extension SessionRecord.LastWill {
    /// Whether the will is to be retained.
    var isRetained: Bool { withMessage { $0.retain } ?? false }

    /// Calls `body` with the message; nil if there is none.
    func withMessage<Result>(_ body: (BusMessage) -> Result) -> Result? {
        message.withUnsafeBytes { bytes in BusMessage(entry: bytes).map(body) }
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
    private var names: [[UInt8]: Set<WillName>] = [:]
    private(set) var count = 0
    /// Bytes of the sessions' names.
    private var byteCount = 0

    func contains(_ key: WillJob.Key) -> Bool { names[key.session]?.contains(key.name) ?? false }

    /// Beyond `Limits.endedWillsMax`, and `Limits.sessionNameBytesMax`, nothing is kept.
    mutating func insert(_ name: WillName, of session: [UInt8]) {
        let newBytes = names[session] == nil ? session.count : 0
        guard count < Limits.endedWillsMax, byteCount + newBytes <= Limits.sessionNameBytesMax else { return }
        byteCount += newBytes
        if names[session, default: []].insert(name).inserted { count += 1 }
    }

    /// The session's record has these.
    mutating func keep(_ wills: [SessionRecord.LastWill], of session: [UInt8]) {
        guard let known = names[session] else { return }
        let left = known.intersection(wills.map(\.name))
        count -= known.count - left.count
        names[session] = left.isEmpty ? nil : left
        if left.isEmpty { byteCount -= session.count }
    }
}

extension Limits {
    /// The longest Message Expiry Interval there is, in milliseconds.
    static let messageExpiryMillisecondsMax = UInt64(UInt32.max) * 1000
}
