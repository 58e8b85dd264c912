public import BrokerModel
import MQTTCodec

/// A shard's part in the log of a cluster: messages of QoS 1 and 2 are acknowledged when they are in it, and sessions
/// that last get them out of it and in no other way.
///
///     client ── PUBLISH ──► routeByPath(.passing) ──► sessions that end with their connection
///                              └── ToCluster.messages ──► the log ──► logged ──► PUBACK, PUBREC
///     client that lasts ◄── routeByPath(.lasting) ◄── received(_:at:), read ◄── the log, on every node
///
/// The place up to which was read stands in the store in the same batch as what came of it.
struct ClusterLogReading {
    let shard: BrokerShard

    /// The receiver of shard messages that the log is.
    var logReceiver: Int { shard.durability?.logReceiver ?? shard.shardCount }

    // MARK: Publishing

    /// Routes a message that is to be logged to sessions that end with their connection.
    func routePassing(_ publication: inout Publication) {
        publication.path = .passing
        // Other shards' sessions that last get it from the log, which has it once.
        publication.receipt = 0
        routeByPath(&publication, .cluster)
    }

    /// Holds acknowledgements until the log has what was appended for it.
    func awaitLog(_ port: ClusterPort, in partitions: UInt64) {
        if let serial = shard.durability?.requireLog(in: partitions) { port.stamp(serial) }
    }

    /// Keeps in mind that a QoS 2 message has been received, for when it is logged.
    ///
    /// - Returns: false if it does not go to the log.
    func awaitsLog(_ packetIdentifier: UInt16, of session: Session, digest: UInt64) -> Bool {
        let dependency = shard.storing.dependency
        guard let log = shard.clusterLog, dependency.shards >> UInt64(logReceiver) & 1 == 1 else { return false }
        if session.keepsMessages {
            log.hold(
                ShardLog.Unlogged(
                    serial: dependency.serial, partitions: dependency.partitions, session: session.identity,
                    packetIdentifier: packetIdentifier, digest: digest, place: log.lastReceived))
        }
        return true
    }

    // MARK: What has become of it

    func logged(through serial: UInt64) {
        guard let log = shard.clusterLog else { return }
        for first in log.takeUnlogged(through: serial) { keepLogged(first) }
        settleLogged(serial, log)
    }

    /// A QoS 2 message is in the log: it has been received, whatever crashes.
    func keepLogged(_ first: ShardLog.Unlogged) {
        guard let session = shard.sessions.find(first.session), session.receivedIdentifiers.contains(first.packetIdentifier)
        else { return }
        shard.sessionRows.keepReceipt(first.packetIdentifier, of: session, digest: first.digest, at: first.place)
    }

    /// Some message of the batches that were not logged yet, up to this serial, is not in the log, or nobody knows:
    /// those who wait for that are closed without an acknowledgement, and may send it again. Who published in the same
    /// batch what went into another partition does not notice.
    ///
    /// - Parameters:
    ///   - serial: of the last of these batches.
    ///   - failed: what of them.
    func logFailed(through serial: UInt64, _ failed: FailedBatches) {
        guard let log = shard.clusterLog,
            let held = shard.durability?.heldForLog(through: serial, partitions: failed.partitions)
        else { return }
        let isRefused = failed.isRefused
        for first in log.takeUnlogged(through: serial) {
            guard failed.partitions & first.partitions != 0 else {
                keepLogged(first)
                continue
            }
            let session = shard.sessions.find(first.session)
            _ = session?.receivedIdentifiers.remove(first.packetIdentifier)
            guard !isRefused, let session, session.cluster.epoch > 0 else { continue }
            // What becomes of it is known when a mark behind it is read.
            shard.cluster?.moves?.change(openingOf: session) {
                $0.mark = SessionOpening.Mark(unread: Set(log.places.places.indices))
            }
        }
        for item in held where item.kind != .connack {
            guard let connection = shard.connections.find(item.connection), connection.state == .connected else { continue }
            let what =
                item.kind == .publish || item.kind == .pubrel ? "which messages the client gets" : "what the client has published"
            shard.disconnecting.refuse(
                connection, isRefused ? .quotaExceeded : .implementationSpecificError,
                because: isRefused
                    ? "the cluster's log could not store \(what)." : "it is not known whether the cluster's log has \(what).")
        }
        settleLogged(serial, log, failed)
    }

    private func settleLogged(_ serial: UInt64, _ log: ShardLog, _ failed: FailedBatches? = nil) {
        shard.clusterDispatching.settleRelogged(serial, failed)
        shard.clusterDispatching.settleKept(serial, failed)
        shard.saves.subscriptionsLogged(through: serial, failed: failed?.partitions ?? 0)
        let receiver = logReceiver
        shard.durability?.confirmed(serial, by: receiver)
        log.hasNews = true
    }

    func logIsFull(_ isFull: Bool) {
        guard let log = shard.clusterLog, log.isFull != isFull else { return }
        log.isFull = isFull
        (shard.room.hasNew, log.hasNews) = (true, true)
        shard.updateMayRefusePublishers()
    }

    /// The partitions that have no room, a bit for each: publishers are told so, or wait, instead of hearing nothing.
    func logLacksRoom(_ partitions: UInt64) {
        guard let log = shard.clusterLog, let port = shard.cluster, log.lackingRoom != partitions else { return }
        log.lackingRoom = partitions
        (shard.room.hasNew, log.hasNews) = (true, true)
        shard.updateMayRefusePublishers()
        guard partitions == 0 else { return }
        for dispatched in log.relogged.takeHeld() {
            shard.storing.beginPacket()
            shard.clusterDispatching.relog(dispatched, port, log)
        }
    }

    // MARK: Reading

    /// From where on a partition is read: for a shard that has read nothing of it, or whose stream is no more.
    func logBegins(_ partition: Int, after place: LogPositions.Place) {
        guard let log = shard.clusterLog, log.places.places.indices.contains(partition) else { return }
        log.places.places[partition] = place
        log.dispatched.record(read: log.places)
        writeLogPositions(log)
        shard.sessionReplay.recordLogBegins(partition, after: place)
        if let moves = shard.cluster?.moves { shard.saves.subscriptionsLost(partition, behind: place.sequence, moves) }
    }

    /// A partition ends at this record, before some that was read: the servers have lost those, and will give their
    /// numbers to others.
    func logIsCut(_ partition: Int, at last: UInt64) {
        guard let log = shard.clusterLog, log.places.places.indices.contains(partition) else { return }
        log.places.cut(partition, at: last)
        log.dispatched.cut(partition, at: last)
        writeLogPositions(log)
        for session in shard.sessions.all where session.logFloor?.holdsBack(last &+ 1, in: partition) == true {
            session.logFloor?.cut(partition, at: last)
            shard.sessionRows.keep(session)
        }
        guard let moves = shard.cluster?.moves else { return }
        for session in moves.underWay.values { session.replay?.through.cut(partition, at: last) }
        for session in moves.saveOrder { shard.sessions.find(session)?.save?.cut(partition, at: last) }
        shard.saves.subscriptionsLost(partition, behind: last, moves)
    }

    /// Writes down how far was read, when the broker ends.
    func writeLogPositions() {
        if let log = shard.clusterLog, log.unwritten > 0 { writeLogPositions(log) }
    }

    fileprivate func writeLogPositions(_ log: ShardLog) {
        guard let journal = shard.journal else { return }
        (log.unwritten, log.writtenAt) = (0, shard.now)
        let row = StoredLogPositions(log.places).encoded()
        journal.put(.broker, key: StoredLogPositions.key(shard: shard.index), row, isThere: log.isStored)
        log.isStored = true
    }

    // MARK: Paths

    /// Where a message stands in the log that is being read.
    typealias LogPlace = (partition: Int, sequence: UInt64)

    /// Routes a message to those of its receivers that get it on its path.
    ///
    /// - Parameter place: of a message that comes out of the log: the record that it stands in.
    /// - Returns: whether anybody subscribes to its topic.
    @discardableResult
    func routeByPath(_ publication: inout Publication, _ reach: Dispatcher.Reach, at place: LogPlace? = nil) -> Bool {
        if publication.retain, shard.shardCount > 1 {
            shard.scans.arrivals.record(topic: shard.placement.hash(publication.topic), now: shard.now)
        }
        let matches = shard.dispatcher.matches(of: publication.topic)
        if shard.inspection.latencies.isNextFollowed() { shard.dispatcher.follow(publication) }
        _ = shard.dispatchState.isRepeated(matches)
        return matches.with { matches in
            publication.receiverCount = matches.routeCount
            if matches.isObserved {
                shard.topicMetrics.countRouted(&publication, to: matches, reach) { publication, _ in
                    deliverByPath(&publication, to: matches, at: place)
                }
            } else {
                deliverByPath(&publication, to: matches, at: place)
            }
            if reach != .shard {
                if matches.shards != 0 { shard.messaging.forward(publication, to: matches.shards, as: .passing) }
                if !matches.groups.isEmpty { shard.shareGroups.routeToGroups(&publication, matches.groups, reach) }
            }
            return !matches.isEmpty
        }
    }

    private func deliverByPath(_ publication: inout Publication, to matches: Matches, at place: LogPlace?) {
        let path = publication.path
        for position in 0..<matches.routeCount {
            let route = matches.routes[position]
            let isMeant = route.session.with { session in
                switch path {
                case .all: true
                case .passing: !session.cluster.readsLog
                case .lasting:
                    session.cluster.readsLog
                        && !(place.map { session.logFloor?.holdsBack($0.sequence, in: $0.partition) ?? false } ?? false)
                }
            }
            guard isMeant else { continue }
            if path == .lasting {
                if shard.sessionReplay.keepsAside(&publication, route) { continue }
                route.session.with { shard.saves.markGiven($0) }
            }
            shard.dispatcher.deliver(&publication, to: route)
        }
    }
}

extension Limits {
    /// Records of the log that are read, without a change of the store, until the place is written down.
    static let logRecordsUnwrittenMax = 64

    /// Milliseconds after which it is written down with the next record.
    static let logPositionMilliseconds: UInt64 = 10_000

    /// Bytes of the journal that are not on the disk; beyond them no more of the log is read.
    static let logPendingBytesMax = 16 << 20
}

extension BrokerShard {
    /// How far the shard's sessions have been given what stands in the log, by partition; nil where nobody has read
    /// yet.
    public var logPositions: [LogPositions.Place?] { clusterLog?.places.places ?? [] }

    /// Whether the shard may be given more of the log: what it has had is not far from the disk.
    public var takesLog: Bool {
        guard let journal else { return false }
        return journal.health == .good && journal.pendingBytes < Limits.logPendingBytesMax
    }

    /// Whether it may be given more of what is read once more: what it has put into the log because of that is mostly
    /// there.
    public var takesReplays: Bool {
        takesLog && clusterLog.map { $0.relogged.byteCount < Limits.reloggedBytesMax } ?? true
    }

    /// Takes a record of the log: its messages go to this shard's sessions that last, its steps to those that they
    /// concern. Nothing happens if it was read before.
    ///
    /// - Returns: how many messages could not be read.
    public func received(_ record: LogRecord) -> Int {
        let (partition, sequence, isOwn) = (record.partition, record.sequence, record.isOwn)
        let illegible = forEachMessage(of: record) { received($0, partition: partition, sequence: sequence, isOwn: isOwn) }
        if hearsSteps(isOwn: isOwn) {
            forEachStep(of: record) { received($0, of: $1, partition: partition, sequence: sequence, isOwn: isOwn) }
        }
        read(partition: partition, sequence: sequence)
        return illegible
    }

    /// Takes a record that was read before once more, for a purpose. Records of a partition come in their order.
    ///
    /// - Returns: how many messages that were wanted could not be read.
    @discardableResult
    public func reread(_ record: LogRecord, for purpose: RereadPurpose) -> Int {
        let (partition, sequence) = (record.partition, record.sequence)
        switch purpose {
        case .sessions(let sessions):
            let illegible = forEachMessage(of: record) { replay($0, partition: partition, sequence: sequence, for: sessions) }
            forEachStep(of: record) { step, session in
                // What clients have sent to this incarnation of the node, it knows. What a session was that has been
                // elsewhere since, it knows no more.
                guard !record.isOwn || step.isOfDelivery || step.isOfSession else { return }
                replay(step, of: session, partition: partition, sequence: sequence, for: sessions)
            }
            return illegible
        case .learnDispatched(let node):
            for step in record.entries.steps { learnDispatched(step.step, by: node) }
            for message in record.entries.messages where message.nameBefore != .none { learnPassedOn(message.nameBefore, by: node) }
        case .dispatchAgain(let node):
            return forEachMessage(of: record) { dispatchAgain($0, partition: partition, sequence: sequence, for: node) }
        case .learnEarlierDispatches:
            forEachStep(of: record) { learnEarlierDispatches($0, of: $1, by: record.writer) }
            for message in record.entries.messages where message.nameBefore != .none {
                learnEarlierDispatches(passedOn: message.nameBefore)
            }
        case .followEarlierDispatches:
            forEachStep(of: record) { followEarlierDispatches($0, of: $1, by: record.writer) }
        case .dispatchEarlier:
            return forEachMessage(of: record) { dispatchEarlier($0, partition: partition, sequence: sequence) }
        }
        return 0
    }

    /// Calls `take` with each message of a record that has not expired; it returns whether that was one.
    ///
    /// - Returns: how many messages could not be read.
    private func forEachMessage(of record: LogRecord, _ take: (ClusterMessage) -> Bool) -> Int {
        var illegible = record.entries.isWhole ? 0 : 1
        guard !record.entries.messages.isEmpty else { return illegible }
        let wallClock = wallClock(now)
        let age = wallClock > record.storedAt ? wallClock - record.storedAt : 0
        record.bytes.withUnsafeBytes { bytes in
            for index in record.entries.messages.indices {
                let message = record.entries.messages[index]
                if let left = message.millisecondsLeft, left <= age { continue }
                var given = ClusterMessage(
                    topic: UnsafeRawBufferPointer(rebasing: bytes[message.topic]),
                    properties: UnsafeRawBufferPointer(rebasing: bytes[message.properties]),
                    payload: UnsafeRawBufferPointer(rebasing: bytes[message.payload]), qos: message.qos, retain: message.retain,
                    expiresAt: message.millisecondsLeft.map { now &+ ($0 - age) }, publisher: message.publisher, isLogged: true)
                (given.isWill, given.index) = (message.isWill, index)
                if !message.shares.isEmpty {
                    given.dispatch = GroupDispatch(hops: message.hops, logged: message.shares, before: message.nameBefore)
                }
                if !take(given) { illegible += 1 }
            }
        }
        return illegible
    }

    /// Calls `take` with each step of a record, and its session's Client Identifier.
    private func forEachStep(of record: LogRecord, _ take: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        guard !record.entries.steps.isEmpty else { return }
        record.bytes.withUnsafeBytes { bytes in
            for step in record.entries.steps { take(step.step, UnsafeRawBufferPointer(rebasing: bytes[step.session])) }
        }
    }

    /// Routes a message of a record to this shard's sessions that last; nothing happens if the record was read before.
    ///
    /// - Returns: false if it is no message: a topic or properties that no client could have sent.
    func received(_ message: ClusterMessage, partition: Int, sequence: UInt64, isOwn: Bool) -> Bool {
        guard let log = clusterLog, log.places.isNew(sequence, in: partition) else { return true }
        guard var publication = clusterMessaging.publication(message) else { return false }
        if log.sequenceBefore == 0 { log.sequenceBefore = (journal?.sequence ?? 0) &+ 1 }
        storing.beginPacket()
        if message.isWill, isOwn, index == 0, let port = cluster {
            publication.path = .passing
            clusterLogReading.routeByPath(&publication, .clusterByBus)
            effects.append(.cluster(.messages(port.carried(publication))))
            dispatcher.finish(&publication)
            guard let again = self.clusterMessaging.publication(message) else { return false }
            publication = again
        }
        publication.path = .lasting
        // Its publisher was told that it is taken, where publishers are refused for a queue that is full: on its own
        // node.
        publication.mustArrive = isOwn
        publication.name = MessageName(partition: partition, sequence: sequence, index: message.index)
        if message.dispatch.map({ !$0.isPassedOn }) ?? true {
            clusterLogReading.routeByPath(&publication, .shard, at: (partition, sequence))
        }
        if let dispatch = message.dispatch {
            publication.path = .passing
            clusterDispatching.dispatchLogged(
                &publication, dispatch, at: OpenDispatches.Place(partition: partition, sequence: sequence))
        }
        dispatcher.finish(&publication)
        return true
    }

    /// A record has been read to its end.
    func read(partition: Int, sequence: UInt64) {
        guard let log = clusterLog, log.places.isNew(sequence, in: partition) else { return }
        log.places.places[partition]?.sequence = sequence
        log.unwritten += 1
        let hasChanged = log.sequenceBefore != 0 && journal?.sequence != log.sequenceBefore &- 1
        log.sequenceBefore = 0
        let isDue = log.unwritten >= Limits.logRecordsUnwrittenMax || now >= log.writtenAt + Limits.logPositionMilliseconds
        if hasChanged || isDue { clusterLogReading.writeLogPositions(log) }
    }
}
