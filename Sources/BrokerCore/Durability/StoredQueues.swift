public import BrokerModel
import MQTTCodec

/// Long queues: what stands behind a bound is in the store only, and is read when its turn comes near.
///
///     enqueue ─► arriving ──(durable)──► a number ──(the front runs low)──► Effect.read ─► the front
struct StoredQueues {
    let shard: BrokerShard

    /// Puts a message at the end of a session's queue.
    func append(_ entry: QueueEntry, to session: Session) {
        guard session.queue.paged != nil || entry.storeNumber != 0 && session.keepsMessages && isFrontFull(of: session) else {
            session.queue.append(entry)
            return
        }
        session.queue.appendPaged(entry)
        guard !session.storage.isListed else { return }
        session.storage.isListed = true
        shard.durability?.list(session)
    }

    private func isFrontFull(of session: Session) -> Bool {
        session.queue.waitingResident >= shard.settings.residentMessagesMax
            || session.queue.waitingBytesResident >= shard.settings.residentBytesMax
    }

    /// Lets go of messages in long queues that are durable by now.
    func pageOutQueues() {
        guard let journal = shard.journal else { return }
        shard.durability?.visitListed(shard.sessions) { session in
            session.queue.paged?.pageOut(through: journal.persistedNumber, journal)
            session.storage.isListed = session.queue.paged?.hasArriving ?? false
            shard.memoryBound.recountQueue(of: session)
            return session.storage.isListed
        }
    }

    /// Fills the front of a queue again when half of it has gone.
    ///
    /// - Returns: whether anything was there at once.
    func refill(_ session: Session) -> Bool {
        guard session.queue.paged != nil, !session.storage.isReading,
            session.queue.waitingResident <= shard.settings.residentMessagesMax / 2,
            session.queue.waitingBytesResident <= shard.settings.residentBytesMax / 2
        else { return false }
        let (hasMoved, places) = session.queue.refill(
            messagesMax: shard.settings.residentMessagesMax, bytesMax: min(shard.settings.residentBytesMax, Limits.readBytesMax))
        if !places.isEmpty {
            session.storage.isReading = true
            shard.effects.append(.read(StoreRequest(of: session, paged: places)))
        }
        return hasMoved
    }

    /// Asks the store for the messages at the front of a session's queue.
    func readWaiting(_ session: Session) {
        guard !session.storage.isReading else { return }
        var (entries, rows): ([UInt64], [StoreRequest.Row]) = ([], [])
        var bytes = 0
        var position = session.queue.sentEnd
        while position < session.queue.count, entries.count < Limits.readMessagesMax, bytes < Limits.readBytesMax {
            let entry = session.queue[position]
            position += 1
            guard entry.isSwappedOut else { continue }
            entries.append(entry.storeNumber)
            rows.append(
                entry.payload.map { StoreRequest.Row(.message, key: $0.number) } ?? StoreRequest.Row(.entry, key: entry.storeNumber)
            )
            bytes += Int(entry.byteCount)
        }
        guard !rows.isEmpty else { return }
        session.storage.isReading = true
        shard.effects.append(
            .read(StoreRequest(sessionIndex: session.index, sessionKey: session.key, entries: entries, rows: rows)))
    }

    /// Messages of a queue have been read.
    func receivedRows(_ answer: StoreRows) {
        let request = answer.request
        guard request.departureRound == 0 else { return shard.departures.receivedRows(answer, ofExport: request.departureRound) }
        guard let session = shard.sessions.find(index: request.sessionIndex, key: request.sessionKey) else { return }
        session.storage.isReading = false
        if request.isPurge {
            shard.purging.receivedRows(answer, ofPurged: session)
        } else if request.isPaged {
            receivedPaged(answer, session)
        } else {
            receivedResident(answer, session)
        }
        // In turn: a client that takes all at once would leave a command nothing to read.
        if !request.isPurge, !shard.inspection.commands.waiting.isEmpty { shard.commands.stepWaitingCommands() }
        guard let connection = session.connection?.object else { return }
        shard.dispatcher.pump(session, on: connection)
    }

    private func receivedResident(_ answer: StoreRows, _ session: Session) {
        let request = answer.request
        for (place, number) in request.entries.enumerated() {
            // What was dropped meanwhile is not there any more.
            guard let position = session.queue.position(ofStored: number), session.queue[position].isSwappedOut else { continue }
            if let message = answer.bodies[place].flatMap({ message(from: $0, request.rows[place].table) }) {
                message.stored = session.queue[position].payload
                session.queue[position].warm(message)
            } else {
                dropUnreadable(number, of: session)
            }
        }
    }

    private func receivedPaged(_ answer: StoreRows, _ session: Session) {
        guard let journal = shard.journal else { return }
        var bodies: [UInt64: [UInt8]] = [:]
        for (row, body) in zip(answer.request.rows, answer.bodies) where row.table == .message { bodies[row.key] = body }
        var entries = answer.request.rows.indices.makeIterator()
        let unreadable = session.queue.takeAsked { place in
            // In the order in which they were asked for; those that were given up meanwhile are passed over.
            while let index = entries.next() {
                let row = answer.request.rows[index]
                guard row.table == .entry, row.key == place.number else { continue }
                return answer.bodies[index].flatMap {
                    shard.storedQueues.entry(at: place, from: $0, bodies[place.payload], journal)
                }
            }
            return nil
        }
        for place in unreadable { dropUnreadable(place, of: session, journal) }
        shard.memoryBound.recountQueue(of: session)
    }

    /// A message of a queue as its rows say, with the reference to the row that it shares with others.
    private func entry(at place: PagedEntry, from body: [UInt8], _ shared: [UInt8]?, _ journal: Journal) -> QueueEntry? {
        body.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard let header = EntryHeader(&reader), let identifiers = reader.take(Int(header.identifiersLength)) else {
                return nil
            }
            var message: Message?
            if header.isInline {
                message = MessageParts(&reader).map { makeMessage($0) }
            } else {
                message = shared.flatMap { self.message(from: $0, .message) }
            }
            guard let message else { return nil }
            if place.payload != 0 { message.stored = StoredPayload(number: place.payload, journal: journal) }
            let detail =
                identifiers.isEmpty && header.name == .none
                ? nil
                : EntryDetail(
                    identifiers: identifiers.isEmpty ? nil : SubscriptionIdentifiers(encoded: Array(identifiers)), group: 0,
                    name: header.name)
            var entry = QueueEntry(
                stored: place.number, byteCount: place.byteCount, detail: detail, qos: header.qos, retain: header.retain)
            entry.warm(message)
            return entry
        }
    }

    private func message(from body: [UInt8], _ table: StoreTable) -> Message? {
        body.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            if table == .entry {
                guard let header = EntryHeader(&reader), header.isInline, reader.take(Int(header.identifiersLength)) != nil else {
                    return nil
                }
            }
            return MessageParts(&reader).map { makeMessage($0) }
        }
    }

    func makeMessage(_ parts: MessageParts) -> Message {
        Message.make(
            topic: parts.topic, properties: parts.properties, payload: parts.payload, qos: parts.qos, retain: parts.retain,
            expiresAt: shard.shardClock(parts.expiresAt), publisher: parts.publisher, ledger: shard.ledger)
    }

    private func dropUnreadable(_ number: UInt64, of session: Session) {
        let position = session.queue.position(ofStored: number)
        let entry = position.map { session.queue[$0] }
        logUnreadable(number, of: session, entry?.qos ?? .atLeastOnce, byteCount: Int(entry?.byteCount ?? 0))
        if let position { session.queue.removeWaiting(at: position, shard.journal) }
        if session.bounds.isFull { shard.queueRoom.updateFullness(of: session) }
    }

    private func dropUnreadable(_ place: PagedEntry, of session: Session, _ journal: Journal) {
        logUnreadable(place.number, of: session, .atLeastOnce, byteCount: Int(place.byteCount))
        journal.endEntry(place.number, hasFlow: false)
        if place.payload != 0 { journal.letGoShared(place.payload) }
        if session.bounds.isFull { shard.queueRoom.updateFullness(of: session) }
    }

    private func logUnreadable(_ number: UInt64, of session: Session, _ qos: QoS, byteCount: Int) {
        shard.log(.error) {
            "Error: A message for client \(session.clientIdentifier) (entry \(number)) cannot be read from the store; it is dropped."
        }
        // Nobody knows its topic.
        let message = DroppedMessage(topic: UnsafeRawBufferPointer(start: nil, count: 0), qos: qos, byteCount: byteCount)
        shard.drops.drop(.unreadable, message, for: session)
    }
}

extension StoreRequest {
    /// Messages of a queue that only the store has: each one's row, and behind it that of the message if several share
    /// it.
    init(of session: Session, paged places: [PagedEntry]) {
        var rows: [Row] = []
        for place in places {
            rows.append(Row(.entry, key: place.number))
            if place.payload != 0 { rows.append(Row(.message, key: place.payload)) }
        }
        self.init(sessionIndex: session.index, sessionKey: session.key, entries: [], rows: rows, isPaged: true)
    }
}

extension StoredBrokerState {
    /// The last batch of a run, to be committed when every shard has stopped and all its changes are durable.
    public static func end(of shards: [BrokerShard]) -> JournalBatch {
        let batch = JournalBatch()
        let hasEnded = shards.count == 1 || shards.allSatisfy { !$0.receipts.hasUncertain }
        StoredBrokerState(shardCount: shards.count, hasEnded: hasEnded).encoded().withUnsafeBytes {
            batch.append(JournalRecord(.update, .broker, key: key, body: $0))
        }
        return batch
    }
}
