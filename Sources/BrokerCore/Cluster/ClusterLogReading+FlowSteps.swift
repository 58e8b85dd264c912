import BrokerModel
import MQTTCodec

/// What has become of packet identifiers of QoS 2, in the cluster's log: told by the node that keeps a session, and
/// learned by the one that takes it up from the log when that node is lost; what clients have sent, also by the same
/// one when it was killed.
///
///     PUBLISH ─► receivedStep ─┐ with the message                        ┌─► learn, for sessions that lack some of the log
///     PUBREL ──► recordReleased ─┴─► ToCluster.messages ─► the log ─► received
///                                                                        └─► confirm, of this node's own incarnation
///
///     recordSent, before PUBLISH ──────────┐
///     recordAcknowledged, before PUBREL ───┴─► the log ─► replay ─► SentFlows, of a session that is restored
///
/// Of an identifier the step with the highest place counts. How far a session has come with all of it stands there
/// too: see `ProgressQueue`.
extension ClusterLogReading {
    // MARK: Telling

    /// The step of a QoS 2 message that is about to be published; nil if it needs none.
    func receivedStep(_ packetIdentifier: UInt16, digest: UInt32, _ session: Session, _ port: ClusterPort) -> SessionStep? {
        guard let log = port.log, session.keepsMessages else { return nil }
        let place = nextStep(of: session, log)
        log.lastReceived = place
        guard sendsSteps(of: session, port) else { return nil }
        return SessionStep(FlowStep(.received(digest: digest), packetIdentifier, at: place), of: session)
    }

    /// PUBREL has come: what is promised of that waits until the log has it. Also when the identifier is unknown here:
    /// the log may know it.
    func recordReleased(_ packetIdentifier: UInt16, of session: Session) {
        guard let port = shard.cluster, let log = port.log, session.keepsMessages, sendsSteps(of: session, port) else { return }
        awaitLog(port, in: write(.released, packetIdentifier, of: session, port, log))
    }

    /// A message is about to be sent: returns what that waits for.
    @inline(__always)
    func recordSent(_ entry: QueueEntry, _ packetIdentifier: UInt16, _ session: Session, _ connection: Connection)
        -> DurabilityDependency
    {
        guard entry.qos == .exactlyOnce, let port = shard.cluster else { return .nothing }
        let dependency = send(.sent(entry.name), packetIdentifier, session, connection, port)
        if dependency != .nothing, entry.name.isDispatched {
            shard.clusterDispatching.keepUntilLogged(entry, session, dependency)
        }
        return dependency
    }

    /// PUBREC has come: returns what PUBREL waits for.
    func recordAcknowledged(_ packetIdentifier: UInt16, _ session: Session, _ connection: Connection) -> DurabilityDependency {
        shard.cluster.map { send(.acknowledged, packetIdentifier, session, connection, $0) } ?? .nothing
    }

    /// PUBCOMP has come.
    func recordFinished(_ packetIdentifier: UInt16, _ session: Session) {
        guard let port = shard.cluster, let log = port.log, session.keepsMessages, sendsSteps(of: session, port) else { return }
        log.recordFinished(packetIdentifier, of: session)
    }

    private func send(
        _ kind: FlowStep.Kind, _ packetIdentifier: UInt16, _ session: Session, _ connection: Connection, _ port: ClusterPort
    ) -> DurabilityDependency {
        guard let log = port.log, session.keepsMessages, connection.holding.holdsAcknowledgements, sendsSteps(of: session, port)
        else { return .nothing }
        return awaitLog(port, besidesPacketIn: write(kind, packetIdentifier, of: session, port, log))
    }

    /// Puts a step of a session into the log, behind all others.
    ///
    /// - Returns: the partitions that it goes into, a bit each.
    func write(
        _ kind: FlowStep.Kind, _ packetIdentifier: UInt16 = 0, of session: Session, _ port: ClusterPort, _ log: ShardLog
    ) -> UInt64 {
        var step = FlowStep(kind, packetIdentifier, at: nextStep(of: session, log))
        if step.isOfDelivery, packetIdentifier > 0 { step.finished = log.takeFinished(of: session) }
        return port.append(SessionStep(step, of: session))
    }

    private func nextStep(of session: Session, _ log: ShardLog) -> FlowStep.Place {
        log.nextStep(epoch: session.cluster.epoch, shard: shard.index, milliseconds: shard.wallClock(shard.now))
    }

    /// The log is to confirm what has nothing to do with the packet that is being handled.
    @discardableResult
    func awaitLog(_ port: ClusterPort, besidesPacketIn partitions: UInt64) -> DurabilityDependency {
        // What is logged has a store.
        guard let dependency = shard.durability?.requireLog(besidesPacketIn: partitions) else { return .nothing }
        port.stamp(dependency.serial)
        return dependency
    }

    func sendsSteps(of session: Session, _ port: ClusterPort) -> Bool {
        port.moves != nil && session.cluster.isClaimed && session.cluster.epoch > 0
    }

    // MARK: Hearing

    /// A step of another node, whose clock may be ahead, is known: what this node does next stands behind it on all
    /// shards. So whose a message is can be told by the numbers of steps alone; see `DispatchHolders`.
    func recordStep(_ number: UInt64, _ log: ShardLog) {
        guard number > max(log.lastStep, ShardLog.step(shard.wallClock(shard.now))) else { return }
        log.recordStep(number)
        for other in 0..<shard.shardCount where other != shard.index { shard.messaging.send(.stepIsKnown(number: number), other) }
    }

    /// What another shard does next stands behind all of this one's steps: it is given a message that these name.
    func sendSteps(to other: Int) {
        if let log = shard.clusterLog, log.lastStep > 0 { shard.messaging.send(.stepIsKnown(number: log.lastStep), other) }
    }

    /// A message of this incarnation is in the log, and was read from there before that was told: the place that is
    /// written down next says so. False if nobody waits for that.
    fileprivate func confirm(_ step: FlowStep, _ log: ShardLog) -> Bool {
        guard Int(step.place.number & 0xff) == shard.index, let first = log.takeUnlogged(numbered: step.place.number) else {
            return false
        }
        keepLogged(first)
        return true
    }

    fileprivate func learn(_ step: FlowStep, _ session: Session) {
        guard session.cluster.epoch > 0, session.connection == nil, step.kind != .mark, step.place > session.stepFloor,
            step.place > session.opening.newestSteps[step.packetIdentifier] ?? .start
        else { return }
        session.opening.newestSteps[step.packetIdentifier] = step.place
        switch step.kind {
        case .received(let digest):
            let isNew = session.receivedIdentifiers.insert(step.packetIdentifier, digest: digest)
            shard.sessionRows.keepReceipt(step.packetIdentifier, of: session, digest: UInt64(digest), at: step.place, isNew: isNew)
            shard.receipts.markRestored(StoredReceipt(session: session.key, packetIdentifier: step.packetIdentifier).key)
        case .released:
            guard session.receivedIdentifiers.remove(step.packetIdentifier) else { return }
            shard.sessionRows.forgetReceipt(step.packetIdentifier, of: session)
        case .sent, .acknowledged, .dispatched, .mark, .progress, .subscribed, .unsubscribed: return
        }
    }

    // MARK: As far as the log went

    /// All that stood in a partition when this node found it has been given: what an earlier incarnation of this node
    /// has put there is known.
    func logIsCurrent(_ partition: Int) {
        guard let log = shard.clusterLog, log.unread.remove(partition) != nil, log.unread.isEmpty, let moves = shard.cluster?.moves
        else {
            return
        }
        for session in shard.sessions.all where session.cluster.epoch > 0 { forgetKnownSteps(of: session) }
        shard.connecting.openAll(moves)
    }

    /// Forgets the steps of a session if the log has none that are unknown here.
    func forgetKnownSteps(of session: Session) {
        guard shard.clusterLog?.unread.isEmpty == true, !session.isReplaying, session.opening.mark == nil,
            !session.opening.newestSteps.isEmpty
        else { return }
        session.opening.newestSteps = [:]
    }

    /// Whether a session has to wait, because its client would send a message again that the log has, or be sent one
    /// that is another's: one that was here before the broker's start, or was restored from the log.
    func awaitsLog(_ session: Session) -> Bool {
        !session.opening.isKnown || session.times.createdAt == 0 && shard.clusterLog?.unread.isEmpty == false
            || shard.clusterDispatching.hasOpenEarlierDispatches(of: session)
    }

    /// A session is restored from the log, of which this node may have read less than the lost one had written: its
    /// mark comes behind that.
    func mark(_ session: Session, _ moves: SessionMoves) {
        guard let port = shard.cluster, let log = port.log else { return }
        awaitLog(port, in: write(.mark, of: session, port, log))
        moves.change(openingOf: session) {
            var mark = $0.mark ?? SessionOpening.Mark(unread: Set(log.places.places.indices))
            if mark.number == 0 { mark.number = log.lastStep }
            mark.writtenAt = shard.now
            $0.mark = mark
        }
    }

    /// Puts the marks into the log that are wanted, or may have been lost; to be called about each second.
    func writeMarks(_ moves: SessionMoves) {
        let due = moves.underWay.values.filter { session in
            session.opening.mark.map { $0.number == 0 || shard.now >= $0.writtenAt + Limits.markRepeatMilliseconds } ?? false
        }
        for session in due.sorted(by: { $0.key < $1.key }) { mark(session, moves) }
    }

    fileprivate func passed(_ mark: FlowStep, of session: Session, _ partition: Int) {
        guard let moves = shard.cluster?.moves, let first = session.opening.mark?.number, first > 0, mark.place.number >= first,
            session.opening.mark?.unread.remove(partition) != nil, session.opening.mark?.unread.isEmpty == true
        else { return }
        moves.change(openingOf: session) { $0.mark = nil }
        if let replay = session.replay { shard.sessionReplay.markIsRead(replay, moves) }
        forgetKnownSteps(of: session)
        shard.connecting.open(session, moves)
    }

    /// A node has joined with sessions of its store: what its last incarnation has put into the log about them is to be
    /// read first.
    func beginSteps(_ log: ShardLog) {
        guard shard.sessions.all.contains(where: { $0.cluster.epoch > 0 }) else { return }
        log.unread = Set(log.places.places.indices)
        for session in shard.sessions.all {
            guard let steps = shard.clusterRows.steps[session.key] else { continue }
            session.opening.newestSteps = steps
            for place in steps.values { log.recordStep(place.number) }
        }
        shard.clusterRows.steps = [:]
    }

    // MARK: For the next owner

    /// Whether the log may have steps of a session that are unknown here.
    func lacksSteps(_ session: Session) -> Bool {
        session.isReplaying || shard.clusterLog?.unread.isEmpty == false || !session.opening.isKnown
    }

    /// Up to which step what is known here of a session's identifiers holds.
    func stepsKnown(of session: Session) -> FlowStep.Place {
        guard let log = shard.clusterLog, !lacksSteps(session) else { return session.stepFloor }
        return log.oldestUnlogged(of: session)?.before ?? FlowStep.Place(epoch: session.cluster.epoch, number: log.lastStep)
    }

    /// The identifiers of messages that are in the log and not released, each with its digest, in their order.
    func loggedReceipts(of session: Session) -> [SessionProgress.Receipt] {
        let unlogged = Set(shard.clusterLog?.unlogged(of: session) ?? [])
        return shard.departures.receipts(of: session).filter { !unlogged.contains($0.packetIdentifier) }
    }
}

extension Limits {
    /// After how long a session's mark is put into the log again that nobody has read, in milliseconds.
    static let markRepeatMilliseconds: UInt64 = 10_000
}

extension BrokerShard {
    /// Whether steps of the log mean anything here just now.
    ///
    /// - Parameter isOwn: whether they are of this incarnation of this node.
    func hearsSteps(isOwn: Bool) -> Bool {
        guard let log = clusterLog, let moves = cluster?.moves else { return false }
        return !moves.underWay.isEmpty || (isOwn ? log.hasUnlogged : !log.unread.isEmpty)
    }

    /// A step that stands in a record, behind the record's messages; nothing happens if the record was read before.
    /// `session` is its Client Identifier.
    func received(_ step: FlowStep, of session: UnsafeRawBufferPointer, partition: Int, sequence: UInt64, isOwn: Bool) {
        guard !step.isOfDelivery, !step.isOfSession, let log = clusterLog, hearsSteps(isOwn: isOwn),
            log.places.isNew(sequence, in: partition)
        else {
            return
        }
        if log.sequenceBefore == 0 { log.sequenceBefore = (journal?.sequence ?? 0) &+ 1 }
        if isOwn, step.kind != .mark, clusterLogReading.confirm(step, log) { return }
        guard let session = sessions.find(session) else { return }
        if isOwn, step.kind != .mark {
            if !session.opening.isKnown { clusterLogReading.learn(step, session) }
        } else if isOwn {
            clusterLogReading.passed(step, of: session, partition)
        } else if clusterLogReading.lacksSteps(session) {
            clusterLogReading.learn(step, session)
        }
    }

    /// Gives a record that is read once more to those of the sessions that lack it.
    func replay(
        _ step: FlowStep, of session: UnsafeRawBufferPointer, partition: Int, sequence: UInt64, for identifiers: [[UInt8]]
    ) {
        guard let log = clusterLog, let moves = cluster?.moves else { return }
        clusterLogReading.recordStep(step.place.number, log)
        if step.name?.isDispatched == true, identifiers.contains(where: { sessionReplay.replay($0)?.restoration?.phase == .steps })
        {
            moves.holders.record(step, of: session)
        }
        guard let identifier = identifiers.first(where: { $0.elementsEqual(session) }) else { return }
        guard !step.isOfSession else {
            sessionReplay.replay(identifier)?.restoration?.record(step)
            return
        }
        guard let replay = sessionReplay.replay(identifier), sessionReplay.lacks(replay, sequence, in: partition, moves) else {
            return
        }
        guard !step.isOfDelivery else {
            replay.restoration?.flows.record(step)
            return
        }
        clusterLogReading.learn(step, replay.session)
    }
}
