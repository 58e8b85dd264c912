import BrokerModel
import MQTTCodec

/// Subscriptions of a session, and ends of such, that stand in the cluster's log and not yet in the session's record.
///
///     SUBSCRIBE ─► record ─► ToCluster.messages ─► the log ─► subscriptionsLogged ─► SUBACK
///                    └─► the session's record is written later, with how far the session has come
///
/// Whoever takes the session up reads the log from `after` on for what its record lacks.
struct UnsavedSubscriptions {
    /// In the partition of the session's steps: the last record that was read before the first of them came; nil for
    /// none.
    private(set) var after: UInt64?
    private(set) var partition = 0
    /// The same of those that have come since the record was given last.
    private var afterGiven: UInt64?
    /// Whether what is under way has those before.
    private var isGiven = false
    /// Whether some stand in the record alone: such that it has not been given yet, and such that are under way.
    private(set) var wantsRecord = false
    private var isRecordUnderWay = false
    /// The serial of the batch that has the newest one; 0 when the log has all.
    private(set) var serial: UInt64 = 0
    /// Whether how far the session has come stands in front of them, while one packet is worked off.
    var followProgress = false
    /// The connections that wait for the log.
    var waiting: [(serial: UInt64, connection: ConnectionID, answer: HeldAnswer)] = []

    /// One is on its way into the log.
    ///
    /// - Parameters:
    ///   - read: up to where the partition was read.
    ///   - partition: that of the session's steps.
    ///   - serial: of its batch.
    mutating func record(at read: UInt64, in partition: Int, serial: UInt64) {
        self.partition = partition
        after = after ?? read
        afterGiven = afterGiven ?? read
        self.serial = serial
    }

    /// One stands in the session's record, and not in the log.
    mutating func leaveToRecord() { wantsRecord = true }

    /// Whether some are nowhere until the session's record is stored.
    var needsRecord: Bool { wantsRecord || isRecordUnderWay }

    /// The records of a partition behind this one are lost, and their numbers will be others'.
    ///
    /// - Returns: whether some of them may have stood there.
    mutating func cut(_ partition: Int, at last: UInt64) -> Bool {
        guard let after, partition == self.partition else { return false }
        self.after = min(after, last)
        afterGiven = afterGiven.map { min($0, last) }
        return true
    }

    /// The session's record is given with all that there are.
    mutating func given() {
        (afterGiven, isGiven) = (nil, true)
        if wantsRecord { (wantsRecord, isRecordUnderWay) = (false, true) }
    }

    /// What was given last is stored.
    mutating func saved() {
        guard isGiven else { return }
        (after, isRecordUnderWay, isGiven) = (afterGiven, false, false)
    }

    /// The log has those of the batches up to a serial, or has failed to.
    mutating func takeAnswers(through serial: UInt64) -> [(connection: ConnectionID, answer: HeldAnswer)] {
        if self.serial <= serial { self.serial = 0 }
        let count = waiting.prefix { $0.serial <= serial }.count
        defer { waiting.removeFirst(count) }
        return waiting.prefix(count).map { ($0.connection, $0.answer) }
    }
}

/// What clients subscribe to, as entries of the cluster's log.
extension SessionSaves {
    /// A session has a subscription, with these terms.
    func recordSubscribed(_ session: Session, _ filter: TopicFilter, _ terms: SubscriptionTerms, wantsRetained: Bool) {
        guard let port = shard.cluster, let moves = port.moves else { return }
        let subscription = SessionSubscription(filter: Array(filter.bytes), terms: terms.bits, wantsRetained: wantsRetained)
        record(.subscribed(subscription), filter, of: session, port, moves)
    }

    func recordUnsubscribed(_ session: Session, _ filter: TopicFilter) {
        guard let port = shard.cluster, let moves = port.moves else { return }
        record(.unsubscribed(filter: Array(filter.bytes)), filter, of: session, port, moves)
    }

    /// What share groups have dispatched to a member is found by its record: that has to know of them first. So it has
    /// while the log has no room, which is kept for what cannot stand elsewhere.
    private func record(
        _ kind: FlowStep.Kind, _ filter: TopicFilter, of session: Session, _ port: ClusterPort, _ moves: SessionMoves
    ) {
        guard filter.shareName == nil, session.expiryIntervalSeconds > 0, !port.isAway, let log = port.log,
            !log.refusesPublishers, let save = session.save, mayGive(session),
            shard.clusterLogReading.sendsSteps(of: session, port)
        else { return leaveToRecord(session) }
        // Who takes the session up gives it nothing by this subscription that was published before, as far as it has
        // come. Of the subscriptions of one packet in one turn that is said once.
        if !save.subscriptions.followProgress {
            writeProgress(save, of: session, port)
            save.subscriptions.followProgress = true
        }
        let partitions = shard.clusterLogReading.write(kind, of: session, port, log)
        let serial = shard.clusterLogReading.awaitLog(port, besidesPacketIn: partitions).serial
        let partition = partitions.trailingZeroBitCount
        if save.subscriptions.serial == 0 { moves.awaitingLog.append(session.identity) }
        save.subscriptions.record(
            at: log.places.places[partition]?.sequence ?? 0, in: partition, serial: serial)
    }

    private func leaveToRecord(_ session: Session) {
        session.save?.subscriptions.leaveToRecord()
        markChanged(of: session)
    }

    /// The records of a partition behind this one are lost: what they say of subscriptions goes into sessions' records.
    func subscriptionsLost(_ partition: Int, behind last: UInt64, _ moves: SessionMoves) {
        for identity in moves.saveOrder {
            guard let session = shard.sessions.find(identity), let save = session.save,
                save.subscriptions.cut(partition, at: last)
            else { continue }
            markChanged(of: session)
        }
    }

    /// All steps of the batches up to a serial are in the log, but for those in partitions that have failed, a bit for
    /// each: who waits for these waits for the record.
    func subscriptionsLogged(through serial: UInt64, failed: UInt64) {
        guard let moves = shard.cluster?.moves, !moves.awaitingLog.isEmpty else { return }
        let awaiting = moves.awaitingLog
        moves.awaitingLog = []
        for identity in awaiting {
            guard let session = shard.sessions.find(identity), let save = session.save else { continue }
            let answers = save.subscriptions.takeAnswers(through: serial)
            if save.subscriptions.serial != 0 || !save.subscriptions.waiting.isEmpty { moves.awaitingLog.append(identity) }
            if failed >> save.subscriptions.partition & 1 != 0 { leaveToRecord(session) }
            for (connection, answer) in answers {
                guard let connection = shard.connections.find(connection),
                    !holdsUntilRecord(answer, connection, save)
                else { continue }
                releaseSaved(.held(answer), connection)
            }
        }
    }
}
