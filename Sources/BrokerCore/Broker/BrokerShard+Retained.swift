import MQTTCodec

/// Retained messages: keeping them, and sending them to new subscriptions.
///
/// A topic's retained message lives on the shard that the topic hashes to. A subscription asks every shard; each walks its own a few
/// steps a turn.
extension BrokerShard {
    /// How many messages may wait for a session before its scan pauses; fewer where queues are short.
    var scanQueueMax: Int { settings.queuedMessagesMax == 0 ? 64 : min(64, max(1, settings.queuedMessagesMax / 2)) }

    /// Keeps a message as the retained one of its topic, on the shard that the topic belongs to. [MQTT-3.3.1-5 v5]
    func retain(_ publication: inout Publication) {
        let shard = placement.shard(of: publication.topic)
        guard shard != index else {
            keep(&publication)
            return
        }
        forwardRetained(publication, to: shard)
    }

    func forwardRetained(_ publication: borrowing Publication, to shard: Int) {
        let detail = MailDetail(shards: interest(in: publication.topic) | 1 << UInt64(index))
        if let source = publication.source { tell(.retainedSource(source), shard) }
        append(publication, as: .retain, detail, to: shard)
    }

    /// Another shard's client published a retained message of a topic of this shard. Subscriptions that the publisher's shard had not
    /// heard of yet get it from here: they have asked this shard for retained messages before it came.
    func receivedRetain(_ publication: inout Publication, deliveredTo shards: UInt64) {
        keep(&publication)
        let missed = interest(in: publication.topic) & ~shards
        if missed & 1 << UInt64(index) != 0 { routeLocally(&publication) }
        let others = missed & ~(1 << UInt64(index))
        if others != 0 { forward(publication, to: others, as: .detoured) }
    }

    /// A live message for subscriptions that its publisher's shard had not heard of. What that shard published after it had heard may
    /// have come before; then this one is of yesterday.
    func receivedDetoured(_ publication: inout Publication) {
        if !retainedArrivals.isOutdated(topic: placement.hash(publication.topic), stamp: 0) { routeLocally(&publication) }
    }

    private func keep(_ publication: inout Publication) {
        // A message without a payload only removes. [MQTT-3.3.1-6 v5] [MQTT-3.3.1-7 v5] [MQTT-3.3.1-10 v3.1.1]
        let number = journal == nil ? 0 : retained.storeNumber(publication.topic)
        if publication.payload.count == 0 {
            forgetRetained(number)
            _ = retained.remove(publication.topic)
        } else if isMemoryFull, publication.byteCount > retained.find(publication.topic)?.byteCount ?? 0 {
            statistics.drops[.noRoom] &+= 1
        } else {
            let message = publication.makeMessage(ledger)
            message.source = publication.source
            retained.set(message, storeNumber: keepRetained(publication, number: number))
        }
    }

    /// Subscriptions ask all shards for what is retained.
    func beginScans(_ queries: [RetainedQuery]) {
        for (position, var query) in queries.enumerated() {
            if shardCount > 1 {
                query.credit = reserveCredit(for: query, sharedBy: queries.count - position)
                tellOthers(.retainedQuery(query))
            }
            openScan(query)
        }
    }

    /// The credit of a query that shares what is left with as many others. All that a session has asked for fills half of its queue, if it may
    /// have to wait there, save that each query gets one message from each shard.
    private func reserveCredit(for query: RetainedQuery, sharedBy count: Int) -> Int {
        guard let session = sessions.find(index: query.sessionIndex, key: query.sessionKey) else { return 1 }
        let mayQueue = query.terms.maximumQoS > .atMostOnce || settings.queuesQoS0
        let sum = mayQueue && settings.queuedMessagesMax > 0 ? settings.queuedMessagesMax / 2 : Limits.scanCreditSum
        let messages = min(Limits.scanCreditMax, (sum - session.retainedAhead) / count)
        let credit = max(1, messages / (shardCount - 1))
        session.retainedAhead += credit * (shardCount - 1)
        return credit
    }

    func openScan(_ query: RetainedQuery) {
        guard retained.count > 0 else {
            if query.shard != index { tell(.retainedFinished(query, scan: 0), query.shard) }
            return
        }
        let isExact = !query.filter.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
        if isExact, query.shard == index {
            // One topic needs no walk.
            if let message = query.filter.withUnsafeBytes({ retained.find($0) }) { deliverRetained(message, query) }
            return
        }
        let scan = query.filter.withUnsafeBytes { RetainedScan(filter: $0, store: retained) }
        scans.add(query, scan)
    }

    func cancelScans(of session: Session) {
        for var entry in scans.removeAll(of: session.key) { entry.scan.end(in: &retained) }
        guard shardCount > 1 else { return }
        remoteScans.removeAll(of: session.key)
        tellOthers(.retainedCancelled(sessionKey: session.key))
    }

    /// Takes the scans some steps further, as far as their receivers keep up.
    func stepScans() {
        scans.hasReadyScan = false
        if !remoteScans.due.isEmpty { grantRemoteScans() }
        guard !scans.entries.isEmpty else { return }
        var steps = Limits.scanStepsPerTurn
        var position = scans.next % scans.entries.count
        var finished: [UInt64] = []
        for _ in 0..<scans.entries.count {
            if step(position, &steps) {
                let entry = scans.entries[position]
                finished.append(entry.number)
                if entry.query.shard != index { tell(.retainedFinished(entry.query, scan: entry.number), entry.query.shard) }
            }
            if steps == 0 {
                scans.hasReadyScan = true
                break
            }
            position = (position + 1) % scans.entries.count
        }
        scans.next = position
        for number in finished {
            scans.entries.removeAll { $0.number == number }
        }
    }

    /// After the flush: whether a scan has room that it had not before, so that the next turn must come at once.
    func noteReadyScans() {
        if scans.hasReadyScan { return }
        scans.hasReadyScan =
            scans.entries.contains(where: hasRoom)
            || remoteScans.due.contains { hasRoom(sessionIndex: $0.sessionIndex, sessionKey: $0.sessionKey) }
    }

    /// Takes one scan further; true when it has come to its end.
    private func step(_ position: Int, _ steps: inout Int) -> Bool {
        while hasRoom(scans.entries[position]) {
            switch scans.entries[position].scan.next(in: &retained, steps: &steps) {
            case .message(let message):
                deliverRetained(message, ofScan: position)
            case .pause: return false
            case .finished: return true
            }
        }
        return false
    }

    /// Whether the receiver of a scan takes more just now.
    private func hasRoom(_ entry: ScanTable.Entry) -> Bool {
        guard entry.query.shard == index else { return entry.credit > 0 }
        return hasRoom(sessionIndex: entry.query.sessionIndex, sessionKey: entry.query.sessionKey)
    }

    private func hasRoom(sessionIndex: UInt32, sessionKey: UInt64) -> Bool {
        guard let session = sessions.find(index: sessionIndex, key: sessionKey) else { return true }
        guard session.outbox.waiting < scanQueueMax else { return false }
        guard let connection = session.connection else { return true }
        return connection._withUnsafeGuaranteedRef { $0.output.pendingBytes < Limits.outputBytesForQueueMax * 4 }
    }

    /// Lets the scans of other shards go on whose receivers have room again.
    private func grantRemoteScans() {
        let due = remoteScans.due
        remoteScans.due = []
        for grant in due {
            if hasRoom(sessionIndex: grant.sessionIndex, sessionKey: grant.sessionKey) {
                tell(.retainedMore(scan: grant.scan, count: grant.count), grant.shard)
            } else {
                remoteScans.due.append(grant)
            }
        }
    }

    /// Sends one retained message to the subscription that asked, with RETAIN set. [MQTT-3.3.1-8 v3.1.1]
    private func deliverRetained(_ message: Message, _ query: RetainedQuery) {
        guard checkRetained(message) else { return }
        var publication = Publication(message)
        deliverRetained(&publication, sessionIndex: query.sessionIndex, sessionKey: query.sessionKey, query.terms)
        finish(&publication)
    }

    /// The same for what a scan has found.
    private func deliverRetained(_ message: Message, ofScan position: Int) {
        let query = scans.entries[position].query
        guard query.shard != index else { return deliverRetained(message, query) }
        guard checkRetained(message) else { return }
        let detail = MailDetail(
            sessionKey: query.sessionKey, sessionIndex: query.sessionIndex, terms: query.terms.bits,
            request: scans.entries[position].send(byteCount: message.byteCount), stamp: query.stamp,
            shards: scans.entries[position].number)
        append(Publication(message), as: .retained, detail, to: query.shard)
    }

    /// Whether a retained message is to be sent: its publisher may still write there, and it has not expired. One that has is removed.
    private func checkRetained(_ message: Message) -> Bool {
        guard message.hasExpired(at: now) else { return mayBeHandedOut(message) }
        if journal != nil { forgetRetained(retained.storeNumber(message.topic)) }
        _ = retained.remove(message.topic)
        return false
    }

    /// A retained message of another shard for a session of this one.
    func receivedRetained(_ publication: inout Publication, _ detail: MailDetail, from shard: Int) {
        retainedArrivals.stayActive(now: now)
        if !retainedArrivals.isOutdated(topic: placement.hash(publication.topic), stamp: detail.stamp) {
            deliverRetained(
                &publication, sessionIndex: detail.sessionIndex, sessionKey: detail.sessionKey,
                SubscriptionTerms(bits: detail.terms))
        }
        // A session that has ended cancelled its scans.
        guard detail.request != 0, sessions.find(index: detail.sessionIndex, key: detail.sessionKey) != nil else { return }
        remoteScans.due.append(
            RemoteScans.Grant(
                shard: shard, scan: detail.shards, count: Int(detail.request), sessionIndex: detail.sessionIndex,
                sessionKey: detail.sessionKey))
    }

    private func deliverRetained(
        _ publication: inout Publication, sessionIndex: UInt32, sessionKey: UInt64, _ terms: SubscriptionTerms
    ) {
        guard let session = sessions.find(index: sessionIndex, key: sessionKey) else { return }
        guard mayReceive(session, publication.topic) else { return }
        if terms.noLocal, publication.publisher == session.publisherKey { return }
        // Nobody was told that it would come here.
        publication.mustArrive = false
        deliver(
            &publication, to: session, qos: deliveryQoS(of: publication, terms.maximumQoS), retain: true,
            identifiers: terms.identifier == 0 ? nil : SubscriptionIdentifiers([terms.identifier]), group: 0)
    }
}
