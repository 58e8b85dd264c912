import BrokerModel
import MQTTCodec

/// Sessions that come from another node.
extension BrokerShard {
    /// A piece of a session that was claimed and arrives; pieces come in their order. One that was here before counts once.
    func sessionArrives(_ identifier: [UInt8], _ piece: SessionPiece) {
        guard let moves = cluster?.moves, let name = EncodedString(identifier), let arrival = moves.arrivals[name],
            !arrival.isWhole,
            piece.number >= arrival.nextPiece
        else { return }
        beginPacket()
        if piece.number == 0, piece.isLast, piece.bytes.isEmpty {
            // Who kept it has nothing of it.
            moves.arrivals[name] = nil
            return finishClaim(name, epoch: arrival.epoch, moves)
        }
        let isLegible = piece.number == arrival.nextPiece && piece.bytes.withUnsafeBytes { take($0, arrival, name) }
        guard isLegible, let session = arrival.session else {
            moves.arrivals[name] = nil
            if let session = arrival.session { discard(session) }
            log(.error) { "Error: What another node has sent of the session of client \(name) cannot be read." }
            effects.append(.cluster(.illegible(identifier: identifier)))
            return
        }
        arrival.nextPiece += 1
        if piece.isLast { complete(arrival, session, moves) }
        recountQueue(of: session)
        moves.announce(
            SessionMoves.Notice(
                sequence: journal?.sequence ?? 0, identifier: name, arrival: arrival.number, number: piece.number,
                isLast: piece.isLast))
    }

    /// What of a session that moves stands in its row alone.
    func note(_ moves: SessionMoves, of session: Session, in row: inout StoredSession) {
        if let departure = moves.departures[session.key] {
            // It is given no more of the log, and whether its will is said is the other node's to decide.
            (row.logFloor, row.lacksLog) = (departure.places, true)
            (row.will, row.willDueAt, row.willName) = (nil, nil, nil)
            return
        }
        row.isArriving = session.isMoving || session.isTakenUp
        guard let floor = session.logFloor, !session.isReplaying, clusterLog?.places.isBehind(floor) == false else { return }
        // All sessions of the shard have been given that, and it is written down: after a crash nothing of it is read again.
        writeLogPlaces()
        (session.logFloor, row.logFloor) = (nil, nil)
    }

    // MARK: Items

    private func take(_ bytes: UnsafeRawBufferPointer, _ arrival: Arrival, _ name: EncodedString) -> Bool {
        var reader = RecordReader(bytes)
        guard reader.read(UInt8.self) == PieceItem.version else { return false }
        while !reader.isAtEnd {
            guard let kind = reader.read(UInt8.self).flatMap({ PieceItem.Kind(rawValue: $0) }) else { return false }
            let isTaken =
                switch kind {
                case .session: takeSession(&reader, arrival, name)
                case .subscription: takeSubscription(&reader, arrival)
                case .entry: takeEntry(&reader, arrival)
                case .receipt: takeReceipt(&reader, arrival)
                case .steps: takeSteps(&reader, arrival)
                case .takenUp: takeUp(arrival)
                case .owed: takeOwed(&reader, arrival)
                }
            guard isTaken else { return false }
        }
        return true
    }

    private func takeSession(_ reader: inout RecordReader, _ arrival: Arrival, _ name: EncodedString) -> Bool {
        guard arrival.session == nil, let body = reader.readBytes(), let placesBody = reader.readBytes(),
            let row = body.withUnsafeBytes({ StoredSession(decoding: $0) }),
            let places = placesBody.withUnsafeBytes({ StoredLogPlaces(decoding: $0) }), row.clientIdentifier == name,
            row.expiryIntervalSeconds > 0, let session = restore(row, key: nil)
        else { return false }
        (session.logFloor, session.epoch) = (nil, arrival.epoch)
        if let log = clusterLog, let last = row.stepFloor { recordStep(last.number, log) }
        // Who has given it has given all that earlier steps have come to.
        session.stepFloor = FlowStep.Place(epoch: arrival.epoch, number: 0)
        // Nobody knows when its node has gone: the time that it has begins now.
        if row.isConnected, row.expiryIntervalSeconds != .max {
            session.endsAt = now + UInt64(row.expiryIntervalSeconds) * 1000
        }
        session.isMoving = true
        (arrival.session, arrival.places) = (session, places.places)
        keep(session)
        return true
    }

    private func takeSubscription(_ reader: inout RecordReader, _ arrival: Arrival) -> Bool {
        guard arrival.session != nil, let terms = reader.read(UInt32.self).flatMap({ SubscriptionTerms(exactly: $0) }),
            let filter = reader.readBytes().flatMap({ TopicFilter($0) })
        else { return false }
        arrival.subscriptions.append((filter, terms))
        if let shareName = filter.shareName {
            let group = knownGroup(GroupName(shareName: shareName, filter: Array(filter.matchingBytes)))
            arrival.groups.append(groups[group]?.serial ?? 0)
        }
        return true
    }

    private func takeOwed(_ reader: inout RecordReader, _ arrival: Arrival) -> Bool {
        guard arrival.session != nil, let stage = reader.read(UInt8.self).flatMap({ OwedRetained.Stage(rawValue: $0) }),
            let filter = reader.readBytes().flatMap({ TopicFilter($0) }), filter.shareName == nil
        else { return false }
        arrival.owed.append((filter.bytes, stage))
        return true
    }

    private func takeReceipt(_ reader: inout RecordReader, _ arrival: Arrival) -> Bool {
        guard let session = arrival.session, let packetIdentifier = reader.read(UInt16.self), packetIdentifier != 0,
            let digest = reader.read(UInt32.self), session.receivedIdentifiers.insert(packetIdentifier, digest: digest)
        else { return false }
        keepReceipt(packetIdentifier, of: session, digest: UInt64(digest))
        receipts.markRestored(StoredReceipt(session: session.key, packetIdentifier: packetIdentifier).key)
        return true
    }

    private func takeSteps(_ reader: inout RecordReader, _ arrival: Arrival) -> Bool {
        guard let session = arrival.session, let epoch = reader.read(UInt64.self), let number = reader.read(UInt64.self) else {
            return false
        }
        session.stepFloor = FlowStep.Place(epoch: epoch, number: number)
        if let log = clusterLog { recordStep(number, log) }
        arrival.lacksSteps = true
        keep(session)
        return true
    }

    private func takeUp(_ arrival: Arrival) -> Bool {
        arrival.isTakenUp = arrival.session != nil
        return arrival.isTakenUp
    }

    private func takeEntry(_ reader: inout RecordReader, _ arrival: Arrival) -> Bool {
        guard let session = arrival.session, let state = reader.read(UInt8.self).flatMap({ PieceItem.EntryState(rawValue: $0) }),
            let group = reader.read(UInt16.self), let length = reader.read(UInt32.self), let body = reader.take(Int(length))
        else { return false }
        var entry = RecordReader(body)
        guard let header = EntryHeader(&entry), header.isInline, let identifiers = entry.take(Int(header.identifiersLength)),
            Properties.areSubscriptionIdentifiers(identifiers), let parts = MessageParts(&entry), parts.isLegal, entry.isAtEnd,
            (state == .waiting) == (header.packetIdentifier == 0), state != .released || header.qos == .exactlyOnce,
            state == .waiting || header.qos > .atMostOnce && !arrival.hasUnsent
        else { return false }
        let message = makeMessage(parts)
        var publication = Publication(message)
        publication.name = header.name
        let isOfGroup = group > 0 && Int(group) <= arrival.groups.count
        if state == .waiting { arrival.hasUnsent = true }
        let made = makeEntry(
            &publication, for: session, qos: header.qos, retain: header.retain,
            identifiers: identifiers.isEmpty ? nil : SubscriptionIdentifiers(encoded: Array(identifiers)),
            group: isOfGroup ? arrival.groups[Int(group) - 1] : 0)
        finish(&publication)
        guard state != .waiting else {
            append(made, to: session)
            return true
        }
        restore(made, header.packetIdentifier, isReleased: state == .released, of: session)
        return true
    }

    /// Adds an entry whose message was sent by the node that had the session.
    func restore(_ entry: OutboxEntry, _ packetIdentifier: UInt16, isReleased: Bool, of session: Session) {
        var entry = entry
        entry.packetIdentifier = packetIdentifier
        entry.wasSent = true
        let position = session.outbox.count
        session.outbox.append(entry)
        // Nobody acknowledges it before the session is up.
        _ = journal?.markSent(entry.storeNumber, packetIdentifier, isAwaited: false)
        guard isReleased else { return }
        keepReleased(position, of: session)
        session.outbox.restoreReleased(position)
    }

    // MARK: The end of it

    /// All pieces are here: from now on the session is given what its shard reads of the log, once it has what it lacks.
    private func complete(_ arrival: Arrival, _ session: Session, _ moves: SessionMoves) {
        arrival.isWhole = true
        session.isMoving = false
        session.isClaimed = true
        let places = arrival.places ?? LogPlaces(partitions: 1)
        // What is queued was lost with the node that had the queue.
        for owed in arrival.owed { restoreOwed(owed.filter, arrival.isTakenUp ? .asked : owed.stage, of: session) }
        for held in arrival.subscriptions { resubscribe(session, held.filter, held.terms, number: 0) }
        if arrival.isTakenUp {
            beginTakeUp(of: session, from: places, moves)
        } else {
            beginReplay(of: session, from: places, moves)
        }
        moves.replays[session.key]?.isAnswered = true
        if arrival.lacksSteps { mark(session, moves) }
        keep(session)
        recount(session)
        updateFullness(of: session)
        armTimer(of: session)
    }

    /// At the end of a turn: what has arrived is durable so far.
    func stepMoves(_ moves: SessionMoves) {
        moves.hasNews = false
        keepReplays(moves)
        stepDepartures(moves)
        giveSaves(moves)
        guard let journal else { return }
        for notice in moves.takeNotices(persisted: journal.persisted) {
            guard let arrival = moves.arrivals[notice.identifier], arrival.number == notice.arrival else { continue }
            effects.append(.cluster(.arrived(identifier: Array(notice.identifier.bytes), number: notice.number)))
            guard notice.isLast, let session = arrival.session else { continue }
            moves.arrivals[notice.identifier] = nil
            if let replay = moves.replays[session.key] {
                ask(for: replay)
            } else {
                finishRestored(session, moves)
            }
        }
    }

    /// The session is up: its client may come in.
    func finishRestored(_ session: Session, _ moves: SessionMoves) {
        let name = session.clientIdentifier
        finishClaim(name, epoch: session.epoch, moves)
        effects.append(.cluster(.restored(identifier: Array(name.bytes))))
    }
}
