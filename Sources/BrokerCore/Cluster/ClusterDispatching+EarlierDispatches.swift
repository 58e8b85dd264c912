public import BrokerModel
import MQTTCodec

/// What share groups had dispatched to this node before it was killed, or lost its lease and went on as another
/// incarnation.
///
///     a start; or endClusterIncarnation ─► beginClusterIncarnation
///         └─► EarlierDispatches ─► learnEarlierDispatches, then followEarlierDispatches, all steps since ─► earlierDispatchesAreKnown ─► dispatchEarlier, all messages since ─► settleEarlierDispatches ─► endEarlierDispatches
///
/// Until it is settled QoS 2 of it waits, and with it the clients of the sessions that have it. [MQTT-4.8.2-4 v5]
extension ClusterDispatching {
    /// This incarnation dispatches from now on, and the store knows of it.
    func beginDispatch(_ port: ClusterPort, _ log: ShardLog) {
        log.earlierDispatches = shard.clusterRows.dispatch.map {
            EarlierDispatches($0, partitions: log.places.places.count, sessions: shard.sessions.all)
        }
        log.isDispatchStored = shard.clusterRows.hasDispatch
        shard.clusterRows.dispatch = nil
        log.dispatched.record(read: log.places)
        writeDispatch(port, log)
        beginIncarnation(log)
    }

    /// Another node may have each session that nobody has claimed in this incarnation, and does not have what it is
    /// dispatched in it.
    fileprivate func beginIncarnation(_ log: ShardLog) {
        (log.incarnationBegins, log.givenOwed) = (shard.journal?.lastNumber ?? 0, [])
        for session in shard.sessions.all where session.cluster.epoch > 0 && !session.cluster.isClaimed {
            session.cluster.isLeft = true
        }
    }

    /// Whether a session has what may be another's by now.
    func hasOpenEarlierDispatches(of session: Session) -> Bool {
        shard.clusterLog?.earlierDispatches?.waiting.contains(session.key) ?? false
    }

    /// Writes down how far is done what was dispatched, if that has changed; to be called about each second.
    func writeDispatch(_ port: ClusterPort, _ log: ShardLog) {
        guard let journal = shard.journal, port.moves != nil, !log.isBetweenIncarnations else { return }
        let part = StoredDispatches.Part(
            incarnation: port.node, done: log.places.places.indices.map { shard.dispatched($0).through })
        let earlierDispatches = log.earlierDispatches?.parts ?? []
        let inherited = port.inherited.sorted { $0.key < $1.key }.filter { incarnation in
            !earlierDispatches.contains { $0.incarnation == incarnation.key }
        }
        .map { StoredDispatches.Part(incarnation: $0.key, done: $0.value, successor: port.node) }
        let row = StoredDispatches(parts: (earlierDispatches + inherited + [part]).suffix(Limits.unsettledIncarnationsMax))
        guard row != log.storedDispatch else { return }
        log.storedDispatch = row
        journal.put(.broker, key: StoredDispatches.key(shard: shard.index), row.encoded(), isThere: log.isDispatchStored)
        log.isDispatchStored = true
    }

    /// The log says who dispatches for one of these incarnations: the store knows of it before it has what is read
    /// behind that.
    func learnEarlierDispatches(successorOf incarnation: UInt64, _ successor: UInt64) {
        guard let port = shard.cluster, let log = port.log, let earlierDispatches = log.earlierDispatches,
            earlierDispatches.learn(successorOf: incarnation, successor)
        else { return }
        writeDispatch(port, log)
    }

    /// All steps are known.
    ///
    /// - Parameter won: the incarnations whose part this node dispatches again; another one dispatches those of the
    ///   others.
    func earlierDispatchesAreKnown(won: Set<UInt64>) {
        shard.clusterLog?.earlierDispatches?.isKnown(won: won, sessions: shard.sessions.all)
    }

    fileprivate func giveOwed(
        _ publication: inout Publication, by share: LoggedShare, _ earlierDispatches: EarlierDispatches, _ log: ShardLog
    ) {
        guard let session = earlierDispatches.takeOwed(publication.name), session.cluster.epoch > 0,
            let group = shard.groups.find(clusterHash: share.group), let member = shard.groups[group]?.member(session.key)
        else { return }
        if session.cluster.isLeft { log.givenOwed.insert(publication.name) }
        shard.shareGroups.sendToMember(&publication, member)
    }

    /// All is dispatched that earlier incarnations were not done with: clients that have waited go on.
    func settleEarlierDispatches() {
        guard let port = shard.cluster, let log = port.log, let earlierDispatches = log.earlierDispatches else { return }
        earlierDispatches.isSettled = true
        for dispatched in earlierDispatches.takeUnheard() { relog(dispatched, port, log) }
        if let moves = port.moves { shard.connecting.openAll(moves) }
    }

    /// The leases of earlier incarnations have ended: nobody dispatches anything to them any more. Behind
    /// `settleEarlierDispatches`.
    func endEarlierDispatches() {
        guard let port = shard.cluster, let log = port.log, log.earlierDispatches?.isSettled == true else { return }
        log.earlierDispatches = nil
        writeDispatch(port, log)
    }
}

extension BrokerShard {
    /// The messages that were dispatched to earlier incarnations of this node, and to nodes that those dispatched for;
    /// nil if there is nothing to settle.
    public var unsettledEarlierDispatches: StoredDispatches? {
        clusterLog?.earlierDispatches.flatMap { $0.isSettled ? nil : StoredDispatches(parts: $0.parts) }
    }

    /// This node's lease has ended, and another node may dispatch by now what was dispatched to it: it goes on as
    /// another incarnation. `beginClusterIncarnation` follows when all shards have ended the last one.
    ///
    /// - Parameter node: the next incarnation's number.
    /// - Returns: how far the shard is done with what was dispatched to the last one, and those before; nil where
    ///   nothing is logged.
    public func endClusterIncarnation(next node: UInt64) -> StoredDispatches? {
        guard let port = cluster, let log = port.log, port.moves != nil else { return nil }
        clusterDispatching.writeDispatch(port, log)
        (port.node, log.isBetweenIncarnations) = (node, true)
        // What it dispatched for those before is looked at once more with the rest.
        for part in log.storedDispatch?.parts ?? [] { clusterDispatching.dispatchesNoMoreFor(part.incarnation) }
        return log.storedDispatch
    }

    /// Nothing that the last incarnation was dispatched is on its way any more: what sessions have of it may be
    /// another's. Who is connected and has some goes.
    ///
    /// - Parameter stored: how far all shards are done.
    public func beginClusterIncarnation(after stored: StoredDispatches) {
        guard let port = cluster, let log = port.log, port.moves != nil else { return }
        // What has a mark is of the last incarnation's own part.
        let unheard = (log.earlierDispatches?.unheard ?? []) + log.relogged.takeAll().filter { $0.mark == nil }
        log.kept = []
        for session in sessions.all { session.queue.forEach { _ = $0.takeMark() } }
        let earlierDispatches = EarlierDispatches(
            stored, partitions: log.places.places.count, sessions: sessions.all, unheard: unheard)
        (log.earlierDispatches, log.isBetweenIncarnations) = (earlierDispatches, false)
        clusterDispatching.writeDispatch(port, log)
        clusterDispatching.beginIncarnation(log)
        for connection in Array(connections.all) where connection.state == .connected && !connection.client.isLocal {
            guard let session = connection.session, earlierDispatches.waiting.contains(session.key) else { continue }
            disconnecting.refuse(
                connection, .serverShuttingDown, because: "another node may have taken over its shared subscriptions.")
        }
    }

    /// A step that stands in a record.
    ///
    /// - Parameters:
    ///   - step: what it says.
    ///   - session: of the session with this Client Identifier.
    ///   - node: the incarnation that has written it; nothing happens if it is none of these.
    func learnEarlierDispatches(_ step: FlowStep, of session: UnsafeRawBufferPointer, by node: UInt64) {
        guard let port = cluster, let log = port.log, let earlierDispatches = log.earlierDispatches, step.isOfDelivery else {
            return
        }
        clusterLogReading.recordStep(step.place.number, log)
        guard earlierDispatches.isEarlier(node, of: port.node) else { return }
        earlierDispatches.learn(step, of: session, sessions.find(session))
    }

    /// A step that any other incarnation has written, when all steps of the earlier ones are known.
    func followEarlierDispatches(_ step: FlowStep, of session: UnsafeRawBufferPointer, by node: UInt64) {
        guard let port = cluster, let earlierDispatches = port.log?.earlierDispatches, step.isOfDelivery,
            !earlierDispatches.isEarlier(node, of: port.node)
        else { return }
        earlierDispatches.follow(step, of: session, sessions.find(session))
    }

    /// A node has passed a message on that was this before.
    func learnEarlierDispatches(passedOn before: MessageName) {
        clusterLog?.earlierDispatches?.learnPassedOn(before)
    }

    /// A message of a record, behind `earlierDispatchesAreKnown`.
    ///
    /// - Returns: false if it is no message.
    func dispatchEarlier(_ message: ClusterMessage, partition: Int, sequence: UInt64) -> Bool {
        guard let log = clusterLog, let earlierDispatches = log.earlierDispatches else { return true }
        return forEachShare(of: message, partition: partition, sequence: sequence) {
            earlierDispatches.isPart($1, partition, sequence)
        } take: { publication, share, hops in
            earlierDispatches.forgetUnheard(publication.name)
            if let session = earlierDispatches.takeDoubtful(publication.name) {
                session.queue.removeDispatched(publication.name, journal)
                memoryBound.recountQueue(of: session)
            }
            if earlierDispatches.isNoted(publication.name) {
                clusterDispatching.giveOwed(&publication, by: share, earlierDispatches, log)
            } else if earlierDispatches.won.contains(share.node), clusterDispatching.isDispatcher(of: publication.publisher) {
                clusterDispatching.dispatchShare(&publication, share, hops: hops)
            }
        }
    }
}
