import BrokerModel
import MQTTCodec

/// Sessions that leave for another node.
struct SessionDepartures {
    let shard: BrokerShard

    /// Another node keeps a session from now on: closes its client's connection with Session taken over (0x8E), and
    /// gives what it is in pieces, the first of them empty if there is nothing. Until `sessionGone` or `sessionStays`
    /// it stays in the store as it was. Told once more, it begins with the first chunk again.
    ///
    /// Not between the messages of a record of the log.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - cleanStart: whether its client begins anew: then the session ends, and there is nothing to give.
    func sessionLeaves(_ identifier: [UInt8], cleanStart: Bool = false) {
        guard let moves = shard.cluster?.moves else { return }
        guard let name = EncodedString(identifier), let session = shard.sessions.find(name), !isOwnClients(session) else {
            return giveNothing(identifier)
        }
        if let export = session.export, !cleanStart {
            if export.stage != .settling { export.begin() }
            return moves.makeBusy(export)
        }
        // Half of it is here: who gave it still has all.
        if session.isRestored || session.isMoving && moves[name].sessionImport != nil { shard.connecting.discard(session) }
        session.cluster.isClaimed = false
        close(session, cleanStart: cleanStart)
        guard shard.sessions.find(name) === session else { return giveNothing(identifier) }
        depart(session, moves)
    }

    /// The other node has a chunk, durably.
    func chunkTaken(_ identifier: [UInt8], number: Int) {
        guard let moves = shard.cluster?.moves, let export = shard.sessions.find(identifier)?.export, export.isAwaitingReceiver,
            number == export.sessionChunkNumber - 1
        else { return }
        export.isAwaitingReceiver = false
        moves.makeBusy(export)
    }

    /// The other node has all of a session, or this node's is out of date: forgets it, without its will.
    func sessionGone(_ identifier: [UInt8]) {
        guard shard.cluster?.moves != nil, let session = shard.sessions.find(identifier) else { return }
        shard.connecting.discard(session)
    }

    /// The other node has given up: the session is this node's again.
    func sessionStays(_ identifier: [UInt8]) {
        guard let moves = shard.cluster?.moves, let export = shard.sessions.find(identifier)?.export else { return }
        let session = export.session
        stay(session, moves)
        session.cluster.isClaimed = true
        if let replay = session.replay { shard.sessionReplay.ask(for: replay) }
    }

    private func giveNothing(_ identifier: [UInt8]) {
        shard.effects.append(.cluster(.leaving(identifier: identifier, SessionChunk(number: 0, isLast: true, bytes: []))))
    }

    /// Whether the session is the broker's own, of a bridge or such: those never move.
    private func isOwnClients(_ session: Session) -> Bool {
        if let connection = session.connection { return connection.with { $0.client.isLocal } }
        return session.owner.isBrokersOwn || session.owner.listener.map { shard.settings.policy(of: $0).isOwn } ?? false
    }

    /// Ends its client's connection, and it too if it ends with that. A will is due as the connection ends, or after
    /// its delay, which the client's return takes back wherever it is then. [MQTT-3.1.3-9 v5]
    private func close(_ session: Session, cleanStart: Bool) {
        guard let old = session.connection?.object else {
            // Its client is back before the delay is over, whatever it begins. [MQTT-3.1.2-8 v5]
            if cleanStart { shard.lifecycle.endSession(session, publishesWill: false) }
            return
        }
        shard.logConnection(.error) { "Client \(session.clientIdentifier) connected to another node, closing old connection." }
        if cleanStart { session.expiryIntervalSeconds = 0 }
        shard.disconnecting.dismiss(
            old, .sessionTakenOver, telling: Connecting.takenOverWords, Connecting.takenOverWords, will: .due)
    }

    // MARK: Leaving

    private func depart(_ session: Session, _ moves: SessionMoves) {
        let (places, done) = (places(of: session), session.save?.done)
        let stepFloor = shard.clusterLogReading.lacksSteps(session) ? session.stepFloor : nil
        let passedOn = session.passedOnUntil
        shard.connecting.endMoves(of: session)
        shard.connecting.failClaim(of: session.clientIdentifier, moves, "its client has gone to another node.")
        shard.wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        if session.bounds.isFull { shard.queueRoom.setFull(session, false) }
        let export = SessionExport(session, places: places, done: done)
        (export.stepFloor, export.passedOn) = (stepFloor, passedOn)
        if !session.groups.isEmpty { exportGroups(of: session, export) }
        // Nothing matches its subscriptions any more, which are taken from it over as many turns as it takes.
        if session.firstSubscription != SubscriptionRecord.none { shard.tree.forgetMatches() }
        moves.change(phaseOf: session, to: .exporting(export))
        shard.sessionRows.keep(session)
        export.deadline = shard.now + Limits.departureMilliseconds
        moves.makeBusy(export)
    }

    /// Up to where it has been given the log.
    func places(of session: Session) -> LogPositions {
        let places = shard.clusterLog?.places ?? LogPositions(partitions: 1)
        guard let floor = session.logFloor else { return places }
        return session.isReplaying ? floor : places.later(floor)
    }

    /// Takes subscriptions from a session that leaves, as far as the turn's steps go.
    ///
    /// - Returns: whether none is left.
    private func exportSubscriptions(_ export: SessionExport) -> Bool {
        let session = export.session
        while session.firstSubscription != SubscriptionRecord.none, shard.sessions.ended.stepsLeft > 0 {
            let record = session.firstSubscription
            if let filter = TopicFilter(shard.tree.filter(of: record)) {
                export.subscriptions.append(
                    SessionExport.HeldSubscription(
                        filter: filter, terms: shard.tree.records[record].terms, storeNumber: shard.tree.records[record].storeNumber
                    ))
                // The row stays.
                shard.tree.setStoreNumber(0, of: record)
            }
            shard.sessions.ended.count(3 * shard.subscribing.removeSubscription(record, of: session))
        }
        return session.firstSubscription == SubscriptionRecord.none
    }

    /// Notes what its share groups are called in its chunks. It stays a member until it is gone: else what they
    /// dispatch meanwhile would find nobody if it is the only one. With other shards it waits until it has what these
    /// have dispatched to it up to now.
    private func exportGroups(of session: Session, _ export: SessionExport) {
        for membership in session.groups {
            guard let filter = membership.name.topicFilter, let group = shard.groups[membership.group],
                let terms = group.member(session.key)?.terms
            else { continue }
            export.groups.append(
                SessionExport.HeldSubscription(filter: filter, terms: terms, storeNumber: membership.storeNumber))
            export.groupPlaces[group.serial] = UInt16(clamping: export.groups.count)
        }
        guard shard.shardCount > 1 else { return }
        export.isBarrierPassed = false
        _ = shard.shardMessages.hold(.export(session.key), ConnectionID(slot: .max, generation: .max), forCluster: false)
    }

    func exportHasPassedBarrier(_ sessionKey: UInt64) {
        shard.cluster?.moves?.underWay[sessionKey]?.export?.isBarrierPassed = true
    }

    /// The session is this node's again: it is subscribed as before, and lacks what its shard has read of the log
    /// meanwhile.
    func stay(_ session: Session, _ moves: SessionMoves) {
        guard let export = session.export else { return }
        moves.change(phaseOf: session, to: .whole)
        takeBack(export)
        // Some may not have been taken yet.
        if session.firstSubscription != SubscriptionRecord.none { shard.tree.forgetMatches() }
        for held in export.subscriptions.reversed() {
            shard.subscribing.resubscribe(session, held.filter, held.terms, number: held.storeNumber)
        }
        shard.sessionReplay.beginReplay(of: session, from: export.places, moves)
        if let done = export.done { shard.saves.recordDone(done, of: session, moves) }
        if export.stepFloor != nil { shard.clusterLogReading.mark(session, moves) }
        shard.sessionRows.keep(session)
        shard.memoryBound.recount(session)
        shard.queueRoom.updateFullness(of: session)
        shard.lifecycle.armTimer(of: session)
    }

    /// Whether its queue has been given to another node: what comes for it since may go to another one, and the log
    /// must not say that it is its own.
    func hasGivenQueue(_ session: Session) -> Bool {
        session.export?.queue != nil
    }

    /// What share groups have dispatched to a session that is another node's, and that does not have: behind the queue
    /// that it gives away, while it was restored, or in this incarnation, which its client may have seen begin. Nothing
    /// of it is in flight.
    func takeLate(of session: Session) -> [SharedEntry] {
        if session.isRestored || hasGivenQueue(session) { return session.queue.takeShared() }
        guard session.cluster.isLeft || session.connection != nil, let log = shard.clusterLog else { return [] }
        return session.queue.takeShared { log.isOfThisIncarnation($0) }
    }

    /// Gives the session its queue again, and behind it what its share groups have dispatched to it meanwhile.
    func takeBack(_ export: SessionExport) {
        guard let queue = export.queue else { return }
        export.queue = nil
        let session = export.session
        let late = session.queue.takeShared()
        session.queue.removeAll(shard.journal)
        session.queue = queue
        for entry in late { shard.shareGroups.redeliver(entry, to: session) }
        shard.memoryBound.recountQueue(of: session)
        guard session.queue.paged?.hasArriving ?? false, !session.storage.isListed else { return }
        session.storage.isListed = true
        shard.durability?.list(session)
    }

    // MARK: Giving

    /// At the end of a turn: gives on what can be given.
    func stepExports(_ moves: SessionMoves) {
        let busy = moves.busyExports
        moves.busyExports = []
        for session in busy {
            guard let export = shard.sessions.find(session)?.export else { continue }
            if export.stage == .settling {
                let isTaken = exportSubscriptions(export)
                if !isTaken { moves.hasNews = true }
                guard isTaken, settles(export) else {
                    moves.busyExports.append(session)
                    continue
                }
            }
            give(export)
        }
    }

    /// When an export stops waiting, in milliseconds; nil if none waits.
    func nextDeadline(_ moves: SessionMoves) -> UInt64? {
        moves.busyExports.compactMap { shard.sessions.find($0)?.export?.deadline }.min()
    }

    /// Whether everything that was on its way to it is here; then its queue is taken.
    private func settles(_ export: SessionExport) -> Bool {
        let session = export.session
        let isLate = export.deadline.map { shard.now >= $0 } ?? true
        if isLate { export.deadline = nil }
        guard !session.storage.isReading, export.isBarrierPassed, !shard.clusterDispatching.hasOpenEarlierDispatches(of: session)
        else {
            return false
        }
        let unlogged = shard.clusterLog?.unlogged(of: session) ?? []
        // Else a crash leaves here what it has passed on, where nobody takes it from; or what it has got, where that
        // came from, and it is there twice.
        let hasPassedOn = export.passedOn.flatMap { moment in shard.durability.map { !$0.isDurable(moment) } } ?? false
        guard isLate || unlogged.isEmpty && !hasPassedOn else { return false }
        // They may be in the log.
        if !unlogged.isEmpty, export.stepFloor == nil { export.stepFloor = session.stepFloor }
        for packetIdentifier in unlogged {
            _ = shard.clusterLog?.takeUnlogged(packetIdentifier, of: session)
            _ = session.receivedIdentifiers.remove(packetIdentifier)
        }
        // The next node looks again for what is owed.
        shard.scanning.cancelScans(of: session)
        export.deadline = nil
        export.queue = session.queue
        session.queue = SessionQueue()
        shard.memoryBound.recountQueue(of: session)
        export.begin()
        return true
    }
}

/// A node that must not act for its sessions any more.
extension SessionDepartures {
    /// Disconnects all clients whose sessions are the cluster's, with Server shutting down (0x8B): other nodes may
    /// serve them from now on.
    func fenceClients(_ explanation: String) {
        guard shard.clusterLog != nil else { return }
        // What becomes of their wills is for whoever keeps them next.
        for session in shard.sessions.all { session.cluster.isClaimed = false }
        if let moves = shard.cluster?.moves {
            for name in moves.claimed {
                // Of one that is coming still the node's coordinator says so.
                let isComing = moves[name].sessionImport != nil || shard.sessions.find(name)?.replay != nil
                if !isComing { shard.connecting.failClaim(of: name, moves, "\(explanation).") }
            }
        }
        for connection in Array(shard.connections.all) where connection.state == .connected && !connection.client.isLocal {
            shard.disconnecting.refuse(connection, .serverShuttingDown, because: "\(explanation).")
        }
    }
}

extension Limits {
    /// Milliseconds for which a session that is to move waits for what is on its way to it. QoS 2 messages of its
    /// client that the log has not confirmed by then count as not received; retained messages that were not found are
    /// not sent.
    static let departureMilliseconds: UInt64 = 10_000
}
