public import BrokerModel
import MQTTCodec

/// What share groups had dealt to this node before it was killed, or lost its lease and went on as another incarnation.
///
///     a start; or endClusterIncarnation ─► beginClusterIncarnation
///         └─► DealingPast ─► learnPast, then followPast, all steps since ─► pastIsKnown ─► dealPast, all messages since ─► settlePast ─► endPast
///
/// Until it is settled QoS 2 of it waits, and with it the clients of the sessions that have it. [MQTT-4.8.2-4 v5]
extension BrokerShard {
    /// What earlier incarnations of this node were dealt, and those that they dealt for; nil if there is nothing to
    /// settle.
    public var unsettledPast: StoredDealing? {
        clusterLog?.past.flatMap { $0.isSettled ? nil : StoredDealing(parts: $0.parts) }
    }

    /// This incarnation deals from now on, and the store knows of it.
    func beginDealing(_ port: ClusterPort, _ log: ShardLog) {
        log.past = clusterRows.dealing.map { DealingPast($0, partitions: log.places.places.count, sessions: sessions.all) }
        log.isDealingStored = clusterRows.hasDealing
        clusterRows.dealing = nil
        log.dealt.note(read: log.places)
        writeDealing(port, log)
        beginIncarnation(log)
    }

    /// Another node may have each session that nobody has claimed in this incarnation, and does not have what it is
    /// dealt in it.
    private func beginIncarnation(_ log: ShardLog) {
        (log.incarnationBegins, log.givenOwed) = (journal?.lastNumber ?? 0, [])
        for session in sessions.all where session.epoch > 0 && !session.isClaimed { session.isLeft = true }
    }

    /// This node's lease has ended, and another node may deal by now what it was dealt: it goes on as another
    /// incarnation. `beginClusterIncarnation` follows when all shards have ended the last one.
    ///
    /// - Parameter node: the next incarnation's number.
    /// - Returns: how far the shard is done with what the last one was dealt, and those before; nil where nothing is logged.
    public func endClusterIncarnation(next node: UInt64) -> StoredDealing? {
        guard let port = cluster, let log = port.log, port.moves != nil else { return nil }
        writeDealing(port, log)
        (port.node, log.isBetweenIncarnations) = (node, true)
        // What it dealt for those before is looked at once more with the rest.
        for part in log.storedDealing?.parts ?? [] { dealsNoMoreFor(part.incarnation) }
        return log.storedDealing
    }

    /// Nothing that the last incarnation was dealt is on its way any more: what sessions have of it may be another's.
    /// Who is connected and has some goes.
    ///
    /// - Parameter stored: how far all shards are done.
    public func beginClusterIncarnation(after stored: StoredDealing) {
        guard let port = cluster, let log = port.log, port.moves != nil else { return }
        // What has a mark is of the last incarnation's own part.
        let unheard = (log.past?.unheard ?? []) + log.relogged.takeAll().filter { $0.mark == nil }
        log.kept = []
        for session in sessions.all { session.outbox.forEach { _ = $0.takeMark() } }
        let past = DealingPast(stored, partitions: log.places.places.count, sessions: sessions.all, unheard: unheard)
        (log.past, log.isBetweenIncarnations) = (past, false)
        writeDealing(port, log)
        beginIncarnation(log)
        for connection in Array(connections.all) where connection.state == .connected && !connection.isLocal {
            guard let session = connection.session, past.waiting.contains(session.key) else { continue }
            refuse(connection, .serverShuttingDown, because: "another node may have taken over its shared subscriptions.")
        }
    }

    /// Whether a session has what may be another's by now.
    func isPastOpen(of session: Session) -> Bool { clusterLog?.past?.waiting.contains(session.key) ?? false }

    /// Writes down how far is done what was dealt, if that has changed; to be called about each second.
    func writeDealing(_ port: ClusterPort, _ log: ShardLog) {
        guard let journal, port.moves != nil, !log.isBetweenIncarnations else { return }
        let part = StoredDealing.Part(incarnation: port.node, done: log.places.places.indices.map { dealt($0).through })
        let past = log.past?.parts ?? []
        let inherited = port.inherited.sorted { $0.key < $1.key }.filter { incarnation in
            !past.contains { $0.incarnation == incarnation.key }
        }
        .map { StoredDealing.Part(incarnation: $0.key, done: $0.value, heir: port.node) }
        let row = StoredDealing(parts: (past + inherited + [part]).suffix(Limits.unsettledIncarnationsMax))
        guard row != log.storedDealing else { return }
        log.storedDealing = row
        if log.isDealingStored {
            journal.update(.run, key: StoredDealing.key(shard: index), row.encoded())
        } else {
            journal.insert(.run, key: StoredDealing.key(shard: index), row.encoded())
        }
        log.isDealingStored = true
    }

    /// The log says who deals for one of these incarnations: the store knows of it before it has what is read behind
    /// that.
    func learnPast(heirOf incarnation: UInt64, _ heir: UInt64) {
        guard let port = cluster, let log = port.log, let past = log.past, past.learn(heirOf: incarnation, heir) else { return }
        writeDealing(port, log)
    }

    /// A step that stands in a record.
    ///
    /// - Parameters:
    ///   - step: what it says.
    ///   - session: of the session with this Client Identifier.
    ///   - node: the incarnation that has written it; nothing happens if it is none of these.
    public func learnPast(_ step: FlowStep, of session: UnsafeRawBufferPointer, by node: UInt64) {
        guard let port = cluster, let log = port.log, let past = log.past, step.isOfDelivery else { return }
        recordStep(step.place.number, log)
        guard past.isEarlier(node, of: port.node) else { return }
        past.learn(step, of: session, EncodedString(validating: session).flatMap { sessions.find($0) })
    }

    /// A step that any other incarnation has written, when all steps of the past ones are known.
    public func followPast(_ step: FlowStep, of session: UnsafeRawBufferPointer, by node: UInt64) {
        guard let port = cluster, let past = port.log?.past, step.isOfDelivery, !past.isEarlier(node, of: port.node) else { return }
        past.follow(step, of: session, EncodedString(validating: session).flatMap { sessions.find($0) })
    }

    /// A node has passed a message on that was this before.
    public func learnPast(passedOn before: MessageName) { clusterLog?.past?.learnPassedOn(before) }

    /// All steps are known.
    ///
    /// - Parameter won: the incarnations whose part this node deals again; another one deals those of the others.
    func pastIsKnown(won: Set<UInt64>) { clusterLog?.past?.isKnown(won: won, sessions: sessions.all) }

    /// A message of a record, behind `pastIsKnown`.
    ///
    /// - Returns: false if it is no message.
    public func dealPast(_ message: ClusterMessage, partition: Int, sequence: UInt64) -> Bool {
        guard let log = clusterLog, let past = log.past, let dealing = message.dealing else { return true }
        let name = MessageName(partition: partition, sequence: sequence, index: message.index)
        let shares = dealing.logged.enumerated().filter { past.isPart($1, partition, sequence) }
        guard !shares.isEmpty else { return true }
        guard var publication = publication(message) else { return false }
        beginPacket()
        (publication.lane, publication.mustArrive) = (.passing, true)
        for (number, share) in shares {
            publication.name = name.dealt(by: number)
            past.forgetUnheard(publication.name)
            if let session = past.takeDoubtful(publication.name) {
                session.outbox.removeDealt(publication.name, journal)
                recountQueue(of: session)
            }
            if past.isNoted(publication.name) {
                giveOwed(&publication, by: share, past, log)
            } else if past.won.contains(share.node), isDealer(of: publication.publisher) {
                dealAgain(&publication, by: share, hops: dealing.hops)
            }
        }
        finish(&publication)
        return true
    }

    private func giveOwed(_ publication: inout Publication, by share: LoggedShare, _ past: DealingPast, _ log: ShardLog) {
        guard let session = past.takeOwed(publication.name), session.epoch > 0,
            let group = groups.find(clusterHash: share.group), let member = groups[group]?.member(session.key)
        else { return }
        if session.isLeft { log.givenOwed.insert(publication.name) }
        sendToMember(&publication, member)
    }

    /// All is dealt that earlier incarnations were not done with: clients that have waited go on.
    func settlePast() {
        guard let port = cluster, let log = port.log, let past = log.past else { return }
        past.isSettled = true
        for dealt in past.takeUnheard() { relog(dealt, port, log) }
        if let moves = port.moves { endWaits(moves) }
    }

    /// The leases of earlier incarnations have ended: nobody deals them anything any more. Behind `settlePast`.
    func endPast() {
        guard let port = cluster, let log = port.log, log.past?.isSettled == true else { return }
        log.past = nil
        writeDealing(port, log)
    }
}
