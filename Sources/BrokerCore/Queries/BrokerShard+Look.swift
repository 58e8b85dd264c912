import BrokerModel
import MQTTCodec

/// Looking through sessions, queues and trees for those who ask, a part of them in each turn.
extension BrokerShard {
    func lookAtClients(_ selection: ClientSelection, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int) -> Bool {
        if query.best != nil { return lookForBestClients(selection, &query, &steps) }
        return visit(sessions.indexEnd, &query, &steps) { place, query, steps in
            steps -= Limits.stepsPerSession - 1
            guard let session = sessions.session(at: place), selection.takes(session, now: now) else { return true }
            query.rows.clients.append(ClientRow(session, at: now))
            return true
        }
    }

    /// All of a page in an order at the end: out of a list that was made for the page before, or of all sessions.
    private func lookForBestClients(
        _ selection: ClientSelection, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int
    ) -> Bool {
        let rowsMax = query.query.rowsMax
        if query.cursor.place == 0,
            let page = queries.clientLists.page(selection, rowsMax: rowsMax, of: sessions, at: now)
        {
            query.rows.clients = page.rows
            (query.count, query.hasMore) = (page.count, page.hasMore)
            steps = max(0, steps - page.rows.count * Limits.stepsPerSession)
            return true
        }
        let isAtEnd = visit(sessions.indexEnd, &query, &steps) { place, query, steps in
            // Judging a session is more than looking at a place, and finding its place in a heap is more than that.
            steps -= Limits.stepsPerSession - 1
            guard let session = sessions.session(at: place), selection.takes(session, now: now) else { return true }
            query.count = (query.count ?? 0) + 1
            if query.best?.add(session, now: now) ?? false { steps -= Limits.stepsPerListedSession }
            return true
        }
        guard isAtEnd, let best = query.best else { return false }
        let list = ClientList(best, count: query.count ?? 0, at: now)
        queries.clientLists.add(list)
        query.count = list.count
        (query.rows.clients, query.hasMore) = list.page(after: selection.after, rowsMax: rowsMax, of: sessions, at: now)
        return true
    }

    func lookAtQueue(
        of client: EncodedString, isInFlightOnly: Bool, withPayload: Bool, _ query: inout QueryScheduler.OpenQuery,
        _ steps: inout Int
    ) -> Bool {
        guard let session = sessions.find(client) else { return true }
        query.count = isInFlightOnly ? session.outbox.inFlight : session.outbox.inFlight + session.outbox.waiting
        let end = isInFlightOnly ? session.outbox.sentEnd : session.outbox.count
        return visit(UInt32(clamping: end), &query, &steps) { place, query, steps in
            let entry = session.outbox[Int(place)]
            guard entry.state != .vacant else { return true }
            let row = QueueRow(entry, at: Int(place), now: ledger.clockMicroseconds, withPayload: withPayload)
            let bytes = row.payload?.count ?? 0
            query.rows.queue.append(row)
            query.rows.payloadBytes += bytes
            query.rows.textBytes += row.topic?.count ?? 0
            steps -= bytes / Limits.payloadBytesPerStep
            return true
        }
    }

    /// First the places of subscriptions, then those of retained messages.
    func lookAtTopics(_ query: inout QueryScheduler.OpenQuery, _ steps: inout Int) -> Bool {
        guard let prefix = query.levels?.prefix else { return true }
        let border = tree.recordLimit
        let isAtEnd = visit(border + UInt32(retained.nodes.end), &query, &steps) { place, query, steps in
            guard place < border else {
                guard let message = retained.message(of: place - border), !message.hasExpired(at: now) else { return true }
                retained.withLevel(below: prefix, of: place - border) { level, isBelow in
                    query.levels?.add(level, subscriptions: 0, retained: 1, isBelow: isBelow)
                }
                return true
            }
            guard let (subscriber, _) = tree.holder(at: place) else { return true }
            let count = subscriptionCount(of: subscriber, &steps)
            guard count > 0 else { return true }
            tree.withLevel(below: prefix, of: place) { level, isBelow in
                query.levels?.add(level, subscriptions: count, retained: 0, isBelow: isBelow)
            }
            return true
        }
        if isAtEnd { query.count = query.levels?.count }
        return isAtEnd
    }

    /// How many of the shard's sessions stand behind a record. All members of a group are steps of one turn.
    private func subscriptionCount(of subscriber: Subscriber, _ steps: inout Int) -> Int {
        if subscriber.isSession { return sessions.subscriber(subscriber.index) == nil ? 0 : 1 }
        guard subscriber.isGroup, let group = groups[subscriber.index] else { return 0 }
        steps = max(0, steps - group.members.count)
        return group.members.count { $0.shard == index }
    }

    func retainedContent(of topic: TopicName) -> RetainedContent? {
        let message = topic.bytes.withUnsafeBytes { retained.find($0) }
        guard let message, !message.hasExpired(at: now), let packet = retainedMessage(of: topic) else { return nil }
        return RetainedContent(row: RetainedRow(message), packet: packet)
    }
}

extension QueueRow {
    /// - Parameter now: in microseconds on the shard's clock.
    init(_ entry: OutboxEntry, at position: Int, now: UInt64, withPayload: Bool) {
        let message = entry.message?.object
        let state: State =
            switch entry.state {
            case .waiting, .vacant: message == nil ? .stored : .waiting
            case .sent: .sent
            case .released: .released
            }
        self.init(
            position: position, state: state, topic: message.map { Array($0.topic) }, qos: entry.qos, retain: entry.retain,
            byteCount: Int(entry.byteCount), packetIdentifier: entry.packetIdentifier,
            ageMilliseconds: message.map { (now &- min(now, $0.madeAt)) / 1000 },
            expiresAt: message.flatMap { $0.expiresAt == Message.neverExpires ? nil : $0.expiresAt },
            payload: withPayload ? message.map { Array($0.payload.prefix(Limits.queryPayloadBytesMax)) } : nil)
    }
}
