import BrokerModel
import MQTTCodec

/// Sessions that come from another node.
struct SessionArrivals {
    let shard: BrokerShard

    /// A piece of a session that was claimed and arrives; pieces come in their order. One that was here before counts
    /// once.
    func sessionArrives(_ identifier: [UInt8], _ piece: SessionChunk) {
        guard let moves = shard.cluster?.moves, let name = EncodedString(identifier),
            let sessionImport = moves[name].sessionImport, !sessionImport.isWhole,
            piece.number >= sessionImport.nextSessionChunk
        else { return }
        shard.storing.beginPacket()
        if piece.number == 0, piece.isLast, piece.bytes.isEmpty {
            // Who kept it has nothing of it.
            moves[name].sessionImport = nil
            return shard.connecting.keep(name, by: sessionImport.epoch, moves)
        }
        let isLegible =
            piece.number == sessionImport.nextSessionChunk && piece.bytes.withUnsafeBytes { take($0, sessionImport, name, moves) }
        guard isLegible, let session = sessionImport.session else {
            moves[name].sessionImport = nil
            if let session = sessionImport.session { shard.connecting.discard(session) }
            shard.log(.error) { "Error: What another node has sent of the session of client \(name) cannot be read." }
            shard.effects.append(.cluster(.illegible(identifier: identifier)))
            return
        }
        sessionImport.nextSessionChunk += 1
        if piece.isLast { complete(sessionImport, session, moves) }
        shard.memoryBound.recountQueue(of: session)
        moves.announce(
            SessionMoves.Notice(
                sequence: shard.journal?.sequence ?? 0, sessionImport: sessionImport, number: piece.number, isLast: piece.isLast))
    }

    /// What of a session that moves stands in its row alone.
    func record(_ session: Session, in row: inout StoredSession) {
        if let export = session.export {
            // It is given no more of the log, and whether its will is said is the other node's to decide.
            (row.logFloor, row.lacksLog) = (export.places, true)
            (row.will, row.willDueAt, row.willName) = (nil, nil, nil)
            return
        }
        row.isArriving = session.isMoving || session.isRestored
        guard let floor = session.logFloor, !session.isReplaying,
            shard.clusterLog?.places.isBehind(floor) == false
        else { return }
        // All sessions of the shard have been given that, and it is written down: after a crash nothing of it is read
        // again.
        shard.clusterLogReading.writeLogPositions()
        (session.logFloor, row.logFloor) = (nil, nil)
    }

    // MARK: Items

    private func take(
        _ bytes: UnsafeRawBufferPointer, _ sessionImport: SessionImport, _ name: EncodedString, _ moves: SessionMoves
    ) -> Bool {
        var reader = RecordReader(bytes)
        guard reader.read(UInt8.self) == ChunkItem.version else { return false }
        while !reader.isAtEnd {
            guard let kind = reader.read(UInt8.self).flatMap({ ChunkItem.Kind(rawValue: $0) }),
                kind == .session || sessionImport.session != nil
            else { return false }
            let isTaken =
                switch kind {
                case .session: importSession(&reader, sessionImport, name, moves)
                case .subscription: importSubscription(&reader, sessionImport)
                case .entry: importEntry(&reader, sessionImport)
                case .receipt: importReceipt(&reader, sessionImport)
                case .steps: importSteps(&reader, sessionImport)
                case .restored: restoration(&reader, sessionImport)
                case .owed: importOwed(&reader, sessionImport)
                case .subscriptions: importPlace(&reader, sessionImport)
                case .unsaved: importUnsaved(&reader, sessionImport)
                case .done: importDone(&reader, sessionImport)
                }
            guard isTaken else { return false }
        }
        return true
    }

    private func importSession(
        _ reader: inout RecordReader, _ sessionImport: SessionImport, _ name: EncodedString, _ moves: SessionMoves
    ) -> Bool {
        guard sessionImport.session == nil, let body = reader.readBytes(), let placesBody = reader.readBytes(),
            let row = body.withUnsafeBytes({ StoredSession(decoding: $0) }),
            let places = placesBody.withUnsafeBytes({ StoredLogPositions(decoding: $0) }), row.clientIdentifier == name,
            row.expiryIntervalSeconds > 0, let session = shard.sessionRows.restore(row, key: nil)
        else { return false }
        (session.logFloor, session.cluster.epoch) = (nil, sessionImport.epoch)
        if let log = shard.clusterLog, let last = row.stepFloor {
            shard.clusterLogReading.recordStep(last.number, log)
        }
        // Who has given it has given all that earlier steps have come to.
        session.stepFloor = FlowStep.Place(epoch: sessionImport.epoch, number: 0)
        // Nobody knows when its node has gone: the time that it has begins now.
        if row.isConnected, row.expiryIntervalSeconds != .max {
            session.times.endsAt = shard.now + UInt64(row.expiryIntervalSeconds) * 1000
        }
        moves.change(phaseOf: session, to: .importing)
        (sessionImport.session, sessionImport.places) = (session, places.places)
        shard.sessionRows.keep(session)
        return true
    }

    private func importSubscription(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let terms = reader.read(UInt32.self).flatMap({ SubscriptionTerms(exactly: $0) }),
            let filter = reader.readBytes().flatMap({ TopicFilter($0) })
        else { return false }
        sessionImport.subscriptions.append((filter, terms))
        if let shareName = filter.shareName {
            let group = shard.shareGroups.knownGroup(GroupName(shareName: shareName, filter: Array(filter.matchingBytes)))
            sessionImport.groups.append(shard.groups[group]?.serial ?? 0)
        }
        return true
    }

    private func importOwed(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let stage = reader.read(UInt8.self).flatMap({ OwedRetained.Stage(rawValue: $0) }),
            let filter = reader.readBytes().flatMap({ TopicFilter($0) }), filter.shareName == nil
        else { return false }
        sessionImport.owed.append((filter.bytes, stage))
        return true
    }

    private func importReceipt(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let session = sessionImport.session, let packetIdentifier = reader.read(UInt16.self), packetIdentifier != 0,
            let digest = reader.read(UInt32.self), session.receivedIdentifiers.insert(packetIdentifier, digest: digest)
        else { return false }
        shard.sessionRows.keepReceipt(packetIdentifier, of: session, digest: UInt64(digest))
        shard.receipts.markRestored(StoredReceipt(session: session.key, packetIdentifier: packetIdentifier).key)
        return true
    }

    private func importSteps(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let session = sessionImport.session, let place = ChunkItem.place(&reader) else { return false }
        session.stepFloor = place
        if let log = shard.clusterLog { shard.clusterLogReading.recordStep(place.number, log) }
        sessionImport.lacksSteps = true
        shard.sessionRows.keep(session)
        return true
    }

    private func restoration(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let epoch = reader.read(UInt64.self) else { return false }
        sessionImport.saved.epoch = epoch
        sessionImport.isRestored = true
        return true
    }

    private func importPlace(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let place = ChunkItem.place(&reader) else { return false }
        sessionImport.saved.subscriptionsAt = place
        return true
    }

    private func importUnsaved(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let record = reader.read(UInt64.self) else { return false }
        sessionImport.saved.subscriptionsAfter = record
        return true
    }

    private func importDone(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let done = reader.readBytes()?.withUnsafeBytes({ StoredLogPositions(decoding: $0) }) else { return false }
        sessionImport.done = done.places
        return true
    }

    private func importEntry(_ reader: inout RecordReader, _ sessionImport: SessionImport) -> Bool {
        guard let session = sessionImport.session,
            let state = reader.read(UInt8.self).flatMap({ ChunkItem.EntryState(rawValue: $0) }),
            let group = reader.read(UInt16.self), let length = reader.read(UInt32.self), let body = reader.take(Int(length))
        else { return false }
        var entry = RecordReader(body)
        guard let header = EntryHeader(&entry), header.isInline, let identifiers = entry.take(Int(header.identifiersLength)),
            Properties.areSubscriptionIdentifiers(identifiers), let parts = MessageParts(&entry), parts.isLegal, entry.isAtEnd,
            (state == .waiting) == (header.packetIdentifier == 0), state != .released || header.qos == .exactlyOnce,
            state == .waiting || header.qos > .atMostOnce && !sessionImport.hasUnsent
        else { return false }
        let message = shard.storedQueues.makeMessage(parts)
        var publication = Publication(message)
        publication.name = header.name
        let isOfGroup = group > 0 && Int(group) <= sessionImport.groups.count
        if state == .waiting { sessionImport.hasUnsent = true }
        let made = shard.sessionRows.makeEntry(
            &publication, for: session, qos: header.qos, retain: header.retain,
            identifiers: identifiers.isEmpty ? nil : SubscriptionIdentifiers(encoded: Array(identifiers)),
            group: isOfGroup ? sessionImport.groups[Int(group) - 1] : 0)
        shard.dispatcher.finish(&publication)
        guard state != .waiting else {
            shard.storedQueues.append(made, to: session)
            return true
        }
        restore(made, header.packetIdentifier, isReleased: state == .released, of: session)
        return true
    }

    /// Adds an entry whose message was sent by the node that had the session.
    func restore(_ entry: QueueEntry, _ packetIdentifier: UInt16, isReleased: Bool, of session: Session) {
        var entry = entry
        entry.packetIdentifier = packetIdentifier
        entry.wasSent = true
        let position = session.queue.count
        session.queue.append(entry)
        // Nobody acknowledges it before the session is up.
        _ = shard.journal?.markSent(entry.storeNumber, packetIdentifier, isAwaited: false)
        guard isReleased else { return }
        shard.sessionRows.keepReleased(position, of: session)
        session.queue.restoreReleased(position)
    }

    // MARK: The end of it

    /// All pieces are here: from now on the session is given what its shard reads of the log, once it has what it
    /// lacks.
    private func complete(_ sessionImport: SessionImport, _ session: Session, _ moves: SessionMoves) {
        sessionImport.isWhole = true
        moves.change(phaseOf: session, to: .whole)
        session.cluster.isClaimed = true
        let places = sessionImport.places ?? LogPositions(partitions: 1)
        // What is queued was lost with the node that had the queue.
        for owed in sessionImport.owed {
            shard.retainedMessages.restoreOwed(owed.filter, sessionImport.isRestored ? .asked : owed.stage, of: session)
        }
        for held in sessionImport.subscriptions { shard.subscribing.resubscribe(session, held.filter, held.terms, number: 0) }
        if sessionImport.isRestored {
            shard.sessionReplay.beginRestoration(of: session, from: places, sessionImport.saved, moves)
        } else {
            shard.sessionReplay.beginReplay(of: session, from: places, moves)
            if let done = sessionImport.done, let read = shard.clusterLog?.places {
                shard.saves.recordDone(done.fitted(to: read), of: session, moves)
            }
        }
        moves[session.clientIdentifier].isBrought = true
        if sessionImport.lacksSteps { shard.clusterLogReading.mark(session, moves) }
        shard.sessionRows.keep(session)
        shard.memoryBound.recount(session)
        shard.queueRoom.updateFullness(of: session)
        shard.lifecycle.armTimer(of: session)
    }

    /// At the end of a turn: what has arrived is durable so far.
    func stepMoves(_ moves: SessionMoves) {
        moves.hasNews = false
        shard.sessionReplay.keepReplays(moves)
        shard.departures.stepExports(moves)
        shard.saves.giveSaves(moves)
        shard.saves.writeProgress(moves)
        guard let journal = shard.journal else { return }
        for notice in moves.takeNotices(persisted: journal.persisted) {
            guard let session = notice.sessionImport.session else { continue }
            let name = session.clientIdentifier
            guard moves[name].sessionImport === notice.sessionImport else { continue }
            shard.effects.append(.cluster(.arrived(identifier: name.bytes, number: notice.number)))
            guard notice.isLast else { continue }
            moves[name].sessionImport = nil
            shard.connecting.open(session, moves)
        }
    }
}
