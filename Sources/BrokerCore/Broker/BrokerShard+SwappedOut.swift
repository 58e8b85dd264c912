import MQTTCodec

/// Long queues: their messages stay in the store only, and are read when their turn comes.
extension BrokerShard {
    /// A message was queued behind many others: once it is durable, memory can do without it.
    func noteLongQueue(of session: Session, _ entry: OutboxEntry) {
        guard entry.storeNumber != 0, entry.group == 0, session.outbox.waiting > Limits.residentMessagesMax else { return }
        durability?.swapOutLater(entry.storeNumber, sessionIndex: session.index, sessionGeneration: session.generation)
    }

    /// Lets go of messages in long queues that are durable by now.
    func swapOutQueues() {
        for entry in durability?.takeSwappable() ?? [] {
            guard let session = sessions.find(index: entry.sessionIndex, generation: entry.sessionGeneration),
                let position = session.outbox.position(ofStored: entry.number),
                position >= session.outbox.sentEnd + Limits.residentMessagesMax / 2, !session.outbox[position].wasSent
            else { continue }
            session.outbox[position].swapOut()
        }
    }

    /// Asks the store for the messages at the front of a session's queue.
    func readWaiting(_ session: Session) {
        guard !session.isReading else { return }
        var (entries, rows): ([UInt64], [StoreRequest.Row]) = ([], [])
        var bytes = 0
        var position = session.outbox.sentEnd
        while position < session.outbox.count, entries.count < Limits.readMessagesMax, bytes < Limits.readBytesMax {
            let entry = session.outbox[position]
            position += 1
            guard entry.isSwappedOut else { continue }
            entries.append(entry.storeNumber)
            rows.append(
                entry.payload.map { StoreRequest.Row(.message, key: $0.number) } ?? StoreRequest.Row(.entry, key: entry.storeNumber)
            )
            bytes += Int(entry.byteCount)
        }
        guard !rows.isEmpty else { return }
        session.isReading = true
        effects.append(
            .read(StoreRequest(sessionIndex: session.index, sessionKey: session.key, entries: entries, rows: rows)))
    }

    /// Messages of a queue have been read.
    func receivedRows(_ answer: StoreRows) {
        let request = answer.request
        guard let session = sessions.find(index: request.sessionIndex, key: request.sessionKey) else { return }
        session.isReading = false
        for (place, number) in request.entries.enumerated() {
            // What was dropped meanwhile is not there any more.
            guard let position = session.outbox.position(ofStored: number), session.outbox[position].isSwappedOut else { continue }
            if let message = answer.bodies[place].flatMap({ message(from: $0, request.rows[place].table) }) {
                message.stored = session.outbox[position].payload
                session.outbox[position].warm(message)
            } else {
                dropUnreadable(number, of: session)
            }
        }
        guard let connection = session.connection?.object else { return }
        pump(session, on: connection)
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
            expiresAt: shardClock(parts.expiresAt), publisher: parts.publisher, ledger: ledger)
    }

    /// A time in milliseconds since 1970 on the shard's clock; what is past is due now.
    func shardClock(_ time: UInt64) -> UInt64 {
        guard time != MessageParts.never else { return Message.neverExpires }
        return time < settings.wallClockOffsetMilliseconds ? 0 : time &- settings.wallClockOffsetMilliseconds
    }

    private func dropUnreadable(_ number: UInt64, of session: Session) {
        log(.error) {
            "Error: A message for client \(session.clientIdentifier) (entry \(number)) cannot be read from the store; it is dropped."
        }
        let position = session.outbox.position(ofStored: number)
        let entry = position.map { session.outbox[$0] }
        // Nobody knows its topic.
        let message = DroppedMessage(
            topic: UnsafeRawBufferPointer(start: nil, count: 0), qos: entry?.qos ?? .atLeastOnce,
            byteCount: Int(entry?.byteCount ?? 0))
        drop(.unreadable, message, for: session)
        if let position { session.outbox.removeWaiting(at: position, journal) }
        if session.isFull { noteFullness(of: session) }
    }
}
