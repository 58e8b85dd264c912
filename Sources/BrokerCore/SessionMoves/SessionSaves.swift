import BrokerModel
import MQTTCodec

/// What the cluster stores of sessions, so that another node can take them up when their owner is gone together with
/// its disk: what they are, and from where on the log is to be read for them.
///
///     SUBSCRIBE of a share group ─► markChanged ─► ToCluster.saves ─► sessionSaved ─► SUBACK
///                              saveLogPositions ─► ToCluster.saves
///
/// Other subscriptions stand in the log first: see `UnsavedSubscriptions`.
struct SessionSaves {
    let shard: BrokerShard

    func sessionSaved(_ identifier: [UInt8], number: UInt64) {
        guard let moves = shard.cluster?.moves, let session = shard.sessions.find(identifier), let save = session.save,
            save.underWay == number
        else { return }
        shard.storing.beginPacket()
        (save.underWay, save.storedEpoch) = (nil, save.epoch)
        save.subscriptions.saved()
        moves.hasNews = true
        let answers = save.given
        save.given = []
        for (connection, answer) in answers {
            if let connection = shard.connections.find(connection) { releaseSaved(answer, connection) }
        }
        if save.isChanged { moves.changedSaves.append(session.identity) }
    }

    /// Has the log told how far the sessions have got in it that have moved, and the cluster store it of some; to be
    /// called about each second.
    func saveLogPositions() {
        if let cluster = shard.cluster {
            shard.clusterDispatching.forgetGoneMembers(cluster)
            if let log = cluster.log {
                log.dispatched.record(read: log.places)
                shard.clusterDispatching.writeDispatch(cluster, log)
            }
        }
        guard let moves = shard.cluster?.moves, shard.cluster?.isAway == false else { return }
        shard.clusterLogReading.writeMarks(moves)
        beginProgress(moves)
        var given = 0
        for _ in 0..<min(moves.saveOrder.count, Limits.savesLookedAtMax) where given < Limits.savesPerTurnMax {
            if moves.savePosition >= moves.saveOrder.count { moves.savePosition = 0 }
            guard let session = shard.sessions.find(moves.saveOrder[moves.savePosition]), let save = session.save else {
                moves.saveOrder.swapAt(moves.savePosition, moves.saveOrder.count - 1)
                moves.saveOrder.removeLast()
                continue
            }
            moves.savePosition += 1
            guard save.underWay == nil, !save.isChanged, mayGive(session, save), session.expiryIntervalSeconds > 0 else { continue }
            let places = donePlaces(of: session, save)
            let isPaid = shard.retainedMessages.hasPaid(session)
            let isStateDue = isPaid || save.subscriptions.after != nil
            guard isStateDue || places != nil && places != save.places else { continue }
            given += 1
            if isPaid { shard.retainedMessages.settlePaid(session) }
            give(save, of: session, state: isStateDue ? state(of: session) : nil, places, moves)
        }
        if given > 0 { moves.hasNews = true }
    }

    // MARK: What has changed

    /// What the session is has changed, and has to be stored before that is confirmed.
    func markChanged(of session: Session) {
        guard let moves = shard.cluster?.moves, let save = session.save else { return }
        markChanged(save, of: session, moves)
    }

    private func markChanged(_ save: SessionSave, of session: Session, _ moves: SessionMoves) {
        moves.hasNews = true
        guard !save.isChanged else { return }
        save.isChanged = true
        if save.underWay == nil { moves.changedSaves.append(session.identity) }
    }

    /// The client has come or gone: the cluster has to know if that decides when something is due.
    func markPresenceChanged(of session: Session) {
        guard let moves = shard.cluster?.moves, session.cluster.isClaimed, let save = session.save else { return }
        if session.expiryIntervalSeconds < .max || save.hasWill || session.will != nil { markChanged(save, of: session, moves) }
    }

    /// This node keeps a session, by a claim: what it had given by an earlier one was of no use any more.
    func markClaimed(of session: Session, _ moves: SessionMoves) {
        shard.moves.nameWill(of: session, moves)
        guard session.expiryIntervalSeconds > 0 || session.willName != nil else { return }
        let save = save(of: session, moves)
        guard save.epoch != session.cluster.epoch else { return }
        (save.epoch, save.underWay, save.logged) = (session.cluster.epoch, nil, nil)
        markGiven(session)
        save.waiting = save.given + save.waiting
        save.given = []
        save.isChanged = false
        markChanged(save, of: session, moves)
    }

    /// It comes from elsewhere, and has nothing left to do before these places: so its record says that as long as what
    /// it has behind them waits. What the log says of how far it had come by an earlier claim counts no more then.
    func recordDone(_ places: LogPositions, of session: Session, _ moves: SessionMoves) {
        save(of: session, moves).done = places
    }

    /// The session is whole: what has changed of it may be given.
    func markWhole(_ session: Session, _ moves: SessionMoves) {
        guard let save = session.save, save.isChanged, save.underWay == nil else { return }
        moves.changedSaves.append(session.identity)
    }

    private func save(of session: Session, _ moves: SessionMoves) -> SessionSave {
        if let save = session.save { return save }
        let save = SessionSave()
        session.save = save
        moves.saveOrder.append(session.identity)
        return save
    }

    /// The session ends, or leaves. If another one takes its place, nothing may come back of it.
    func forgetSave(of session: Session) {
        guard session.save != nil else { return }
        session.save = nil
        guard session.cluster.isClaimed, !session.freesRoom else { return }
        shard.effects.append(
            .cluster(
                .saves(
                    SavedSession(
                        identifier: session.clientIdentifier.bytes, epoch: session.cluster.epoch, number: 0,
                        expiryInterval: 0,
                        state: []))))
    }

    // MARK: Answers

    /// Keeps CONNACK, and all that follows it, in the connection's output until the cluster knows of a new session, of
    /// another expiry, or of a will; false if it need not wait for that.
    func holdsUntilSaved(_ connection: Connection, _ session: Session, isNew: Bool) -> Bool {
        guard let moves = shard.cluster?.moves, session.cluster.isClaimed else { return false }
        markClaimed(of: session, moves)
        markPresenceChanged(of: session)
        // Its client may acknowledge what has waited.
        markGiven(session)
        // What has lasted and ends with its connection from now on must not be restored from what was stored of it.
        guard session.expiryIntervalSeconds > 0 || session.willName != nil || session.save != nil else { return false }
        let save = save(of: session, moves)
        let isAnother = isNew || save.expiryInterval != session.expiryIntervalSeconds
        guard isAnother || session.willName != nil else { return false }
        markChanged(save, of: session, moves)
        guard connection.holding.holdsAcknowledgements else { return false }
        connection.holding.isAwaitingStore = true
        save.waiting.append((connection.id, .output))
        return true
    }

    /// Keeps SUBACK or UNSUBACK until the cluster has stored what it says, in its log or in the session's record; false
    /// if that need not be.
    func holdsUntilSaved(_ answer: HeldAnswer, _ connection: Connection) -> Bool {
        switch answer {
        case .suback, .unsuback: break
        case .refusal, .endOfRetained, .dispatch, .export: return false
        }
        guard connection.holding.holdsAcknowledgements, let session = connection.session,
            shard.cluster?.moves != nil, let save = session.save
        else { return false }
        guard save.subscriptions.serial == 0 else {
            save.subscriptions.waiting.append((save.subscriptions.serial, connection.id, answer))
            return true
        }
        return holdsUntilRecord(answer, connection, save)
    }

    /// Keeps it until the record has what the log has not; false if there is nothing of the kind. What the log says of
    /// how far the session had come when its client subscribed counts as soon as its record is stored by the same
    /// claim.
    func holdsUntilRecord(_ answer: HeldAnswer, _ connection: Connection, _ save: SessionSave) -> Bool {
        guard save.subscriptions.needsRecord || save.storedEpoch != save.epoch else { return false }
        if save.underWay == nil || save.subscriptions.wantsRecord {
            save.waiting.append((connection.id, .held(answer)))
        } else {
            save.given.append((connection.id, .held(answer)))
        }
        return true
    }

    func releaseSaved(_ answer: SessionSave.Answer, _ connection: Connection) {
        switch answer {
        case .output:
            connection.holding.isAwaitingStore = false
            shard.storing.holdOutput(of: connection)
            shard.markDirty(connection)
        case .held(let answer):
            // Nothing goes out behind DISCONNECT. [MQTT-3.14.4-1 v5]
            if connection.state == .connected { shard.storing.acknowledgeFromDisk(answer, to: connection) }
        }
    }

    // MARK: Giving

    /// At the end of a turn: gives what has changed in it.
    func giveSaves(_ moves: SessionMoves) {
        guard !moves.changedSaves.isEmpty else { return }
        let changed = moves.changedSaves
        moves.changedSaves = []
        for identity in changed {
            guard let session = shard.sessions.find(identity), let save = session.save, save.isChanged, save.underWay == nil,
                mayGive(session)
            else { continue }
            let lasts = session.expiryIntervalSeconds > 0
            // What ends with its connection has nothing to be restored.
            give(
                save, of: session, state: lasts ? state(of: session) : [], lasts ? donePlaces(of: session, save) : nil, moves)
        }
    }

    /// Of a session that is not whole, what the cluster has is newer.
    func mayGive(_ session: Session) -> Bool {
        session.cluster.isClaimed && !session.isMoving && !session.isRestored
    }

    /// How far it has come says nothing before all that it is is given by the same claim: the record may lack what its
    /// client has subscribed to before.
    func mayGive(_ session: Session, _ save: SessionSave) -> Bool { mayGive(session) && save.epoch == session.cluster.epoch }

    func give(_ save: SessionSave, of session: Session, state: [UInt8]?, _ places: LogPositions?, _ moves: SessionMoves) {
        moves.lastSaveNumber += 1
        save.underWay = moves.lastSaveNumber
        save.expiryInterval = session.expiryIntervalSeconds
        if let places { save.places = places }
        var saved = SavedSession(
            identifier: session.clientIdentifier.bytes, epoch: session.cluster.epoch, number: moves.lastSaveNumber,
            expiryInterval: session.expiryIntervalSeconds, state: state,
            places: places.map { SavedSession.encoded($0, savedReceipts(of: session)) })
        if state != nil {
            save.subscriptions.given()
            save.isChanged = false
            save.given += save.waiting
            save.waiting = []
            saved.will = shard.moves.savedWill(of: session)
            save.hasWill = saved.will != nil
            saved.awaySince = awaySince(session)
        }
        shard.effects.append(.cluster(.saves(saved)))
    }

    private func savedReceipts(of session: Session) -> [[UInt8]] {
        [ChunkItem.steps(after: shard.clusterLogReading.stepsKnown(of: session))]
            + shard.clusterLogReading.loggedReceipts(of: session).map { ChunkItem.receipt($0) }
    }

    /// In milliseconds since 1970; 0 while its client is connected.
    private func awaySince(_ session: Session) -> UInt64 {
        guard session.connection == nil else { return 0 }
        // A session that was here before the broker's start has its time from then on.
        let isKnown = session.times.endsAt != .max && session.expiryIntervalSeconds < .max
        let since =
            isKnown
            ? session.times.endsAt - min(session.times.endsAt, UInt64(session.expiryIntervalSeconds) * 1000)
            : session.times.disconnectedAt
        return max(1, shard.wallClock(since > 0 ? since : shard.now))
    }

    /// Its row and its subscriptions, as `SavedSession` has them. O(subscriptions).
    private func state(of session: Session) -> [UInt8] {
        var row = shard.sessionRows.given(session)
        // These stand in the record by themselves.
        (row.will, row.willDueAt, row.endsAt, row.isConnected) = (nil, nil, nil, true)
        var writer = RecordWriter()
        writer.write(ChunkItem.version)
        writer.write(row.encoded())
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            if let filter = TopicFilter(shard.tree.filter(of: record)) {
                writer.append(ChunkItem.subscription(filter, shard.tree.records[record].terms))
                if let stage = session.owed?.stage(of: Array(filter.bytes)) { writer.append(ChunkItem.owed(filter, stage)) }
            }
            record = shard.tree.records[record].nextOfSession
        }
        for membership in session.groups {
            guard let filter = membership.name.topicFilter, let terms = shard.groups[membership.group]?.member(session.key)?.terms
            else {
                continue
            }
            writer.append(ChunkItem.subscription(filter, terms))
        }
        let last = FlowStep.Place(epoch: session.cluster.epoch, number: shard.clusterLog?.lastStep ?? 0)
        writer.append(ChunkItem.subscriptions(at: last))
        return writer.bytes
    }

    /// Places in the log before which the session has nothing left to do, as far as that is known; nil if it is not.
    /// O(1).
    ///
    /// Between the messages of a record nobody asks. Released messages are moved to the front of a queue, so that it
    /// says nothing then.
    func donePlaces(of session: Session, _ save: SessionSave) -> LogPositions? {
        guard let journal = shard.journal, !session.isReplaying, !session.storage.isReading else { return nil }
        // What was received goes with them.
        guard !shard.clusterLogReading.lacksSteps(session), session.receivedIdentifiers.count <= Limits.savedReceiptsMax else {
            return nil
        }
        let read = shard.departures.places(of: session)
        guard !session.queue.isEmpty else {
            (save.mark, save.done) = (nil, read)
            return read
        }
        if let mark = save.mark {
            guard isDone(through: mark.number, session) else { return save.done }
            save.done = mark.places
        }
        save.mark = (journal.lastNumber, read)
        return save.done
    }

    /// Whether all messages that its queue had when the journal was at a number are done; false if that is not known.
    /// O(1).
    func isDone(through number: UInt64, _ session: Session) -> Bool {
        if session.queue.isEmpty { return true }
        guard session.queue.count > 0 else { return false }
        let first = session.queue[0]
        return first.state != .released && first.state != .vacant && first.storeNumber > number
    }
}

extension Limits {
    /// How many sessions' places in the log are looked at in one turn, each second. With more sessions it takes longer
    /// until each has had its turn, and more comes twice from the log when its node is gone.
    static let savesLookedAtMax = 2000

    /// How many of them are stored in the cluster then; with more the same. Bytes: `sessionChunkBytesMax` each at most.
    static let savesPerTurnMax = 50

    /// With more messages of QoS 2 that a client has not released, the cluster is not told how far its session has got.
    /// Bytes: 2 each.
    static let savedReceiptsMax = 1000
}
