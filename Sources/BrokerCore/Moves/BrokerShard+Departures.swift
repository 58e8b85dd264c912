import BrokerModel
import MQTTCodec

/// Sessions that leave for another node.
extension BrokerShard {
    /// Another node keeps a session from now on: closes its client's connection with Session taken over (0x8E), and gives what it is in
    /// pieces, the first of them empty if there is nothing. Until `sessionGone` or `sessionStays` it stays in the store as it was. Told once
    /// more, it begins with the first piece again.
    ///
    /// Not between the messages of a record of the log.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - cleanStart: whether its client begins anew: then the session ends, and there is nothing to give.
    func sessionLeaves(_ identifier: [UInt8], cleanStart: Bool = false) {
        guard let moves = cluster?.moves else { return }
        guard let name = EncodedString(identifier), let session = sessions.find(name), !isOwnClients(session) else {
            return giveNothing(identifier)
        }
        if let departure = moves.departures[session.key], !cleanStart {
            if departure.stage != .settling { departure.begin() }
            return moves.makeBusy(departure)
        }
        // Half of it is here: who gave it still has all.
        if session.isTakenUp || session.isMoving && moves.arrivals[name] != nil { discard(session) }
        session.isClaimed = false
        close(session, cleanStart: cleanStart)
        guard sessions.find(name) === session else { return giveNothing(identifier) }
        depart(session, moves)
    }

    /// The other node has a piece, durably.
    func pieceTaken(_ identifier: [UInt8], number: Int) {
        guard let moves = cluster?.moves, let departure = departure(identifier, moves), departure.isAwaitingReceiver,
            number == departure.pieceNumber - 1
        else { return }
        departure.isAwaitingReceiver = false
        moves.makeBusy(departure)
    }

    /// The other node has all of a session, or this node's is out of date: forgets it, without its will.
    func sessionGone(_ identifier: [UInt8]) {
        guard cluster?.moves != nil, let name = EncodedString(identifier), let session = sessions.find(name) else { return }
        discard(session)
    }

    /// The other node has given up: the session is this node's again.
    func sessionStays(_ identifier: [UInt8]) {
        guard let moves = cluster?.moves, let departure = departure(identifier, moves) else { return }
        let session = departure.session
        stay(session, moves)
        session.isClaimed = true
        if let replay = moves.replays[session.key] { ask(for: replay) }
    }

    private func departure(_ identifier: [UInt8], _ moves: SessionMoves) -> Departure? {
        EncodedString(identifier).flatMap { sessions.find($0) }.flatMap { moves.departures[$0.key] }
    }

    private func giveNothing(_ identifier: [UInt8]) {
        effects.append(.cluster(.leaving(identifier: identifier, SessionPiece(number: 0, isLast: true, bytes: []))))
    }

    /// Whether the session is the broker's own, of a bridge or such: those never move.
    private func isOwnClients(_ session: Session) -> Bool {
        if let connection = session.connection { return connection.with { $0.isLocal } }
        return session.isBrokersOwn || session.listener.map { settings.policy(of: $0).isOwn } ?? false
    }

    /// Ends its client's connection, and it too if it ends with that. A will is due as the connection ends, or after its delay, which the
    /// client's return takes back wherever it is then. [MQTT-3.1.3-9 v5]
    private func close(_ session: Session, cleanStart: Bool) {
        guard let old = session.connection?.object else {
            // Its client is back before the delay is over, whatever it begins. [MQTT-3.1.2-8 v5]
            if cleanStart { endSession(session, publishesWill: false) }
            return
        }
        logConnection(.error) { "Client \(session.clientIdentifier) connected to another node, closing old connection." }
        if cleanStart { session.expiryIntervalSeconds = 0 }
        dismiss(old, .sessionTakenOver, telling: Self.takenOverWords, Self.takenOverWords, will: .due)
    }

    // MARK: Leaving

    private func depart(_ session: Session, _ moves: SessionMoves) {
        let places = places(of: session, moves)
        let stepFloor = lacksSteps(session) ? session.stepFloor : nil
        let passedOn = moves.passedOn[session.key]
        endMoves(of: session)
        endWaitInVain(session.clientIdentifier, moves, "its client has gone to another node.")
        wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        if session.isFull { setFull(session, false) }
        let departure = Departure(session, places: places)
        (departure.stepFloor, departure.passedOn) = (stepFloor, passedOn)
        if !session.groups.isEmpty { takeGroups(of: session, departure) }
        session.isMoving = true
        // Nothing matches its subscriptions any more, which are taken from it over as many turns as it takes.
        if session.firstSubscription != SubscriptionRecord.none { tree.forgetMatches() }
        moves.departures[session.key] = departure
        keep(session)
        departure.deadline = now + Limits.departureMilliseconds
        moves.makeBusy(departure)
    }

    /// Up to where it has been given the log.
    func places(of session: Session, _ moves: SessionMoves) -> LogPlaces {
        let places = clusterLog?.places ?? LogPlaces(partitions: 1)
        guard let floor = session.logFloor else { return places }
        return session.isReplaying ? floor : places.later(floor)
    }

    /// Takes subscriptions from a session that leaves, as far as the turn's steps go.
    ///
    /// - Returns: whether none is left.
    private func takeSubscriptions(_ departure: Departure) -> Bool {
        let session = departure.session
        while session.firstSubscription != SubscriptionRecord.none, sessions.ended.stepsLeft > 0 {
            let record = session.firstSubscription
            if let filter = TopicFilter(tree.filter(of: record)) {
                departure.subscriptions.append(
                    Departure.HeldSubscription(
                        filter: filter, terms: tree.records[record].terms, storeNumber: tree.records[record].storeNumber))
                // The row stays.
                tree.setStoreNumber(0, of: record)
            }
            sessions.ended.count(3 * removeSubscription(record, of: session))
        }
        return session.firstSubscription == SubscriptionRecord.none
    }

    /// Notes what its share groups are called in its pieces. It stays a member until it is gone: else what they
    /// dispatch meanwhile would find nobody if it is the only one. With other shards it waits until it has what these
    /// have dispatched to it up to now.
    private func takeGroups(of session: Session, _ departure: Departure) {
        for membership in session.groups {
            guard let filter = membership.name.topicFilter, let group = groups[membership.group],
                let terms = group.member(session.key)?.terms
            else { continue }
            departure.groups.append(
                Departure.HeldSubscription(filter: filter, terms: terms, storeNumber: membership.storeNumber))
            departure.groupPlaces[group.serial] = UInt16(clamping: departure.groups.count)
        }
        guard shardCount > 1 else { return }
        departure.isBarrierPassed = false
        _ = shardMessages.hold(.departure(session.key), ConnectionID(slot: .max, generation: .max), forCluster: false)
    }

    func departureHasPassedBarrier(_ sessionKey: UInt64) {
        guard let departure = cluster?.moves?.departures[sessionKey] else { return }
        departure.isBarrierPassed = true
    }

    /// The session is this node's again: it is subscribed as before, and lacks what its shard has read of the log meanwhile.
    func stay(_ session: Session, _ moves: SessionMoves) {
        guard let departure = moves.departures.removeValue(forKey: session.key) else { return }
        session.isMoving = false
        takeBack(departure)
        // Some may not have been taken yet.
        if session.firstSubscription != SubscriptionRecord.none { tree.forgetMatches() }
        for held in departure.subscriptions.reversed() {
            resubscribe(session, held.filter, held.terms, number: held.storeNumber)
        }
        beginReplay(of: session, from: departure.places, moves)
        if departure.stepFloor != nil { mark(session, moves) }
        keep(session)
        recount(session)
        updateFullness(of: session)
        armTimer(of: session)
    }

    /// Whether its queue has been given to another node: what comes for it since may go to another one, and the log must not say that it is its own.
    func hasGivenQueue(_ session: Session) -> Bool {
        session.isMoving && cluster?.moves?.departures[session.key]?.outbox != nil
    }

    /// What share groups have dispatched to a session that is another node's, and that does not have: behind the queue
    /// that it gives away, while it was taken up, or in this incarnation, which its client may have seen begin. Nothing
    /// of it is in flight.
    func takeLate(of session: Session) -> [SharedEntry] {
        if session.isTakenUp || hasGivenQueue(session) { return session.outbox.takeShared() }
        guard session.isLeft || session.connection != nil, let log = clusterLog else { return [] }
        return session.outbox.takeShared { log.isOfThisIncarnation($0) }
    }

    /// Gives the session its queue again, and behind it what its share groups have dispatched to it meanwhile.
    func takeBack(_ departure: Departure) {
        guard let outbox = departure.outbox else { return }
        departure.outbox = nil
        let session = departure.session
        let late = session.outbox.takeShared()
        session.outbox.removeAll(journal)
        session.outbox = outbox
        for entry in late { redeliver(entry, to: session) }
        recountQueue(of: session)
        guard session.outbox.paged?.hasArriving ?? false, !session.isListed else { return }
        session.isListed = true
        durability?.list(session)
    }

    // MARK: Giving

    /// At the end of a turn: gives on what can be given.
    func stepDepartures(_ moves: SessionMoves) {
        let busy = moves.busyDepartures
        moves.busyDepartures = []
        for key in busy {
            guard let departure = moves.departures[key] else { continue }
            if departure.stage == .settling {
                let isTaken = takeSubscriptions(departure)
                if !isTaken { moves.hasNews = true }
                guard isTaken, settles(departure) else {
                    moves.busyDepartures.append(key)
                    continue
                }
            }
            give(departure)
        }
    }

    /// Whether everything that was on its way to it is here; then its queue is taken.
    private func settles(_ departure: Departure) -> Bool {
        let session = departure.session
        let isLate = departure.deadline.map { now >= $0 } ?? true
        if isLate { departure.deadline = nil }
        guard !session.isReading, departure.isBarrierPassed, !hasOpenEarlierDispatches(of: session) else { return false }
        let unlogged = clusterLog?.unlogged(of: session) ?? []
        // Else a crash leaves here what it has passed on, where nobody takes it from; or what it has got, where that came from, and it is there twice.
        let hasPassedOn = departure.passedOn.flatMap { moment in durability.map { !$0.isDurable(moment) } } ?? false
        guard isLate || unlogged.isEmpty && !hasPassedOn else { return false }
        // They may be in the log.
        if !unlogged.isEmpty, departure.stepFloor == nil { departure.stepFloor = session.stepFloor }
        for packetIdentifier in unlogged {
            _ = clusterLog?.takeUnlogged(packetIdentifier, of: session)
            _ = session.receivedIdentifiers.remove(packetIdentifier)
        }
        // The next node looks again for what is owed.
        cancelScans(of: session)
        departure.deadline = nil
        departure.outbox = session.outbox
        session.outbox = Outbox()
        recountQueue(of: session)
        departure.begin()
        return true
    }
}
