import BrokerModel
import MQTTCodec

/// Subscriptions of a session that stand in the cluster's log, and not yet in the session's record.
///
///     SUBSCRIBE ─► record ─► ToCluster.messages ─► the log ─► logged ─► SUBACK
///                    └─► the record is written later, with how far the session has come
///
/// Whoever takes the session up reads the log from `after` on for what the record lacks.
struct UnsavedSubscriptions {
    /// In the partition of the session's steps: the last record that was read before the first of them came; nil for
    /// none.
    private(set) var after: UInt64?
    /// The same of those that have come since the record was given last.
    private var afterGiven: UInt64?
    /// Whether what is under way has those before.
    private var isGiven = false
    /// The serial of the batch that has the newest one; 0 when the log has all.
    private(set) var serial: UInt64 = 0
    /// The connections that wait for the log.
    var waiting: [(serial: UInt64, connection: ConnectionID, answer: HeldAnswer)] = []

    /// One is on its way into the log.
    ///
    /// - Parameters:
    ///   - read: up to where the partition was read.
    ///   - serial: of its batch.
    mutating func record(at read: UInt64, serial: UInt64) {
        after = after ?? read
        afterGiven = afterGiven ?? read
        self.serial = serial
    }

    /// The session's record is given with all that there are.
    mutating func given() { (afterGiven, isGiven) = (nil, true) }

    /// What was given last is stored.
    mutating func saved() {
        if isGiven { after = afterGiven }
        isGiven = false
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
        let subscription = SessionSubscription(filter: Array(filter.bytes), terms: terms.bits, wantsRetained: wantsRetained)
        record(.subscribed(subscription), filter, of: session)
    }

    func recordUnsubscribed(_ session: Session, _ filter: TopicFilter) {
        record(.unsubscribed(filter: Array(filter.bytes)), filter, of: session)
    }

    /// What share groups have dispatched to a member is found by its record: that has to know of them first.
    private func record(_ kind: FlowStep.Kind, _ filter: TopicFilter, of session: Session) {
        let reading = shard.clusterLogReading
        guard filter.shareName == nil, session.expiryIntervalSeconds > 0, let port = shard.cluster, !port.isAway,
            let log = port.log, let moves = port.moves, let save = session.save, mayGive(session),
            reading.sendsSteps(of: session, port), shard.durability != nil
        else { return markChanged(of: session) }
        // Who takes the session up gives it nothing by this subscription that was published before, as far as it has
        // come.
        writeProgress(save, of: session, port)
        let place = log.nextStep(epoch: session.cluster.epoch, shard: shard.index, milliseconds: shard.wallClock(shard.now))
        let partitions = port.append(SessionStep(FlowStep(kind, 0, at: place), of: session))
        guard let dependency = shard.durability?.requireLog(besidesPacketIn: partitions) else { return }
        port.stamp(dependency.serial)
        let partition = session.clientIdentifier.bytes.withUnsafeBytes {
            BrokerShard.logPartition(of: $0, among: log.places.places.count)
        }
        if save.subscriptions.serial == 0 { moves.subscribing.append(session.identity) }
        save.subscriptions.record(at: log.places.places[partition]?.sequence ?? 0, serial: dependency.serial)
    }

    /// All steps of the batches up to a serial are in the log, or may not be: then those who wait for that wait for the
    /// record.
    func subscriptionsLogged(through serial: UInt64, isLogged: Bool) {
        guard let moves = shard.cluster?.moves, !moves.subscribing.isEmpty else { return }
        let subscribing = moves.subscribing
        moves.subscribing = []
        for identity in subscribing {
            guard let session = shard.sessions.find(identity), let save = session.save else { continue }
            let answers = save.subscriptions.takeAnswers(through: serial)
            if save.subscriptions.serial != 0 || !save.subscriptions.waiting.isEmpty { moves.subscribing.append(identity) }
            guard isLogged else {
                save.waiting += answers.map { ($0.connection, .held($0.answer)) }
                markChanged(of: session)
                continue
            }
            for (connection, answer) in answers {
                if let connection = shard.connections.find(connection) { releaseSaved(.held(answer), connection) }
            }
        }
    }
}
