import BrokerModel
import MQTTCodec

/// What the shard writes down for the store.
struct SessionRows {
    let shard: BrokerShard

    /// Messages up to this size stand in the row of each entry; larger ones that have several receivers in a row of
    /// their own.
    static let inlineBytesMax = 128

    /// Keeps a session that outlives its connection as it is now, and of another one its will.
    func keep(_ session: Session) {
        guard let journal = shard.journal else { return }
        guard session.storage.isStored || session.expiryIntervalSeconds > 0 else { return keepWill(of: session, journal) }
        journal.put(.session, key: session.key, stored(session).encoded(), isThere: session.storage.isStored)
        session.storage.isStored = true
    }

    /// Keeps the will of a session that ends with its connection, so that it is published after a crash: a row of the
    /// session, without anything that belongs to it. Nobody waits for that, and a store in trouble is not asked. What a
    /// cluster has it publishes itself.
    private func keepWill(of session: Session, _ journal: Journal) {
        let isNeeded = session.will != nil && session.connection != nil && (session.willName == nil || shard.cluster?.moves == nil)
        guard isNeeded != session.storage.isWillStored else { return }
        if !isNeeded {
            forgetStoredWill(of: session, journal)
        } else if !shard.storing.isStoreInTrouble(journal) {
            session.storage.isWillStored = true
            journal.insert(.session, key: session.key, stored(session).encoded())
        }
    }

    private func forgetStoredWill(of session: Session, _ journal: Journal) {
        guard session.storage.isWillStored else { return }
        session.storage.isWillStored = false
        journal.delete(.session, key: session.key)
    }

    private func stored(_ session: Session) -> StoredSession {
        var row = given(session)
        // Before the cluster is joined, or without one, as it was.
        (row.epoch, row.logFloor, row.lacksLog) = (session.cluster.epoch, session.logFloor, session.isReplaying)
        if session.cluster.epoch > 0 { row.stepFloor = session.stepFloor }
        if shard.cluster?.moves != nil { shard.arrivals.record(session, in: &row) }
        return row
    }

    /// What of a session another node would need to know.
    func given(_ session: Session) -> StoredSession {
        var row = StoredSession(
            clientIdentifier: session.clientIdentifier, version: session.version,
            expiryIntervalSeconds: session.expiryIntervalSeconds)
        row.isConnected = session.connection != nil
        row.endsAt = session.times.endsAt == .max ? nil : shard.wallClock(session.times.endsAt)
        row.userName = session.owner.userName
        row.mountPoint = session.mountPoint
        row.isUnclaimed = session.owner.isUnclaimed
        row.listener = .name(session.owner.listener.map { shard.settings.policy(of: $0).name } ?? "")
        (row.will, row.willName) = (session.will, session.will == nil ? nil : session.willName)
        row.willDueAt = session.willDueAt == .max ? nil : shard.wallClock(session.willDueAt)
        return row
    }

    /// A session ends: its row and its receipts go; its subscriptions and entries are given up one by one by whoever
    /// ends it.
    func forget(_ session: Session) {
        guard let journal = shard.journal else { return }
        guard session.storage.isStored else { return forgetStoredWill(of: session, journal) }
        journal.delete(.session, key: session.key)
        session.receivedIdentifiers.forEach {
            journal.delete(.received, key: StoredReceipt(session: session.key, packetIdentifier: $0).key)
            shard.storing.sendReleased($0, of: session)
        }
    }

    /// - Parameters:
    ///   - place: of the step that the cluster's log has of it.
    ///   - isNew: false if there is a row already.
    func keepReceipt(
        _ packetIdentifier: UInt16, of session: Session, digest: UInt64, _ choices: [GroupChoice] = [],
        at place: FlowStep.Place? = nil, isNew: Bool = true
    ) {
        guard let journal = shard.journal, session.keepsMessages else { return }
        // Where sessions move it is the cluster's, which says nothing if the broker is alone the next time.
        let digest = shard.cluster?.moves == nil ? digest : nil
        var receipt = StoredReceipt(
            session: session.key, packetIdentifier: packetIdentifier, digest: digest, hasParts: shard.shardCount > 1,
            choices: choices)
        if shard.cluster?.moves != nil { receipt.place = place }
        journal.put(.received, key: receipt.key, receipt.encodedBody(), isThere: !isNew)
    }

    func forgetReceipt(_ packetIdentifier: UInt16, of session: Session) {
        guard let journal = shard.journal, session.storage.isStored else { return }
        if let clusterLog = shard.clusterLog, clusterLog.takeUnlogged(packetIdentifier, of: session) { return }
        journal.delete(.received, key: StoredReceipt(session: session.key, packetIdentifier: packetIdentifier).key)
    }

    /// Keeps a subscription; `number` is that of its row, 0 if it has none yet. Returns the row's number, 0 if it is
    /// not kept.
    func keepSubscription(_ filter: TopicFilter, _ terms: SubscriptionTerms, of session: Session, number: UInt64) -> UInt64 {
        guard let journal = shard.journal, session.keepsMessages else { return number }
        var row = StoredSubscription(session: session.key, filter: filter, terms: terms)
        if let owed = session.owed { row.owed = owed.stage(of: Array(filter.bytes)) }
        let body = row.encoded()
        if number != 0 {
            journal.update(.subscription, key: number, body)
            return number
        }
        let made = journal.nextNumber()
        journal.insert(.subscription, key: made, body)
        return made
    }

    func forgetSubscription(_ number: UInt64) {
        if number != 0 { shard.journal?.delete(.subscription, key: number) }
    }

    /// Makes the entry of a message in a session's queue, and keeps it if the session outlives its connection.
    func makeEntry(
        _ publication: inout Publication, for session: Session, qos: QoS, retain: Bool, identifiers: SubscriptionIdentifiers?,
        group: UInt32
    ) -> QueueEntry {
        let isLate = group != 0 && shard.departures.hasGivenQueue(session)
        let mark = session.connection == nil && !isLate ? nil : publication.mark
        if group != 0, mark == nil, !isLate, qos > .atMostOnce {
            shard.clusterDispatching.recordDispatched(publication.name, publication.mark, to: session)
        }
        let name = qos == .exactlyOnce || group != 0 ? publication.name : .none
        let detail =
            identifiers == nil && group == 0 && name == .none
            ? nil : EntryDetail(identifiers: identifiers, group: group, mark: mark, name: name)
        let message = publication.makeMessage(shard.ledger)
        var entry = QueueEntry(message: message, detail: detail, qos: qos, retain: retain)
        // Of QoS 0 only for room: behind a queue's bound, and not beyond the broker's end. Not in a store in trouble:
        // nobody is refused for QoS 0, and a batch that is not taken would grow with every message.
        if let journal = shard.journal,
            qos > .atMostOnce || (session.queue.paged != nil && !shard.storing.isStoreInTrouble(journal)),
            session.keepsMessages || group != 0 && shard.shareGroups.isKept(forGroup: group, qos, publication.mark)
        {
            entry.storeNumber = keep(entry, message, publication, of: session, journal)
        }
        return entry
    }

    /// Writes the row of an entry, and that of its message if it is to be shared.
    func keep(
        _ entry: QueueEntry, _ message: Message, _ publication: borrowing Publication, of session: Session, _ journal: Journal
    ) -> UInt64 {
        let number = journal.nextNumber()
        var header = EntryHeader(
            session: session.key, qos: entry.qos, retain: entry.retain, byteCount: entry.byteCount,
            group: entry.group == 0 ? 0 : groupHash(serial: entry.group))
        header.name = entry.name
        if entry.qos == .atMostOnce { header.packetIdentifier = EntryHeader.endsWithBroker }
        let identifiers = entry.identifiers
        header.identifiersLength = UInt32(identifiers?.encoded.count ?? 0)
        // A share group's message may have to move to another member at any time, so it stands in its own row.
        let isShared = publication.receiverCount > 1 && publication.byteCount > Self.inlineBytesMax && entry.group == 0
        header.isInline = !isShared
        let front = header.size + Int(header.identifiersLength)
        if isShared {
            let payload = message.stored ?? keepPayload(of: message, publication, journal)
            let target = journal.insert(.entry, key: number, bodyCount: front + 8)
            write(header, identifiers, to: target)
            target.storeBytes(of: payload.number, toByteOffset: front, as: UInt64.self)
        } else {
            let parts = MessageParts(publication, expiresAt: shard.wallClock(publication.expiresAt))
            let target = journal.insert(.entry, key: number, bodyCount: front + parts.size)
            write(header, identifiers, to: target)
            parts.write(to: target + front)
        }
        return number
    }

    private func keepPayload(of message: Message, _ publication: borrowing Publication, _ journal: Journal) -> StoredPayload {
        let payload = StoredPayload(number: journal.nextNumber(), journal: journal)
        let parts = MessageParts(publication, expiresAt: shard.wallClock(publication.expiresAt))
        parts.write(to: journal.insert(.message, key: payload.number, bodyCount: parts.size))
        message.stored = payload
        return payload
    }

    private func write(_ header: EntryHeader, _ identifiers: SubscriptionIdentifiers?, to target: UnsafeMutableRawPointer) {
        header.write(to: target)
        guard let identifiers else { return }
        identifiers.encoded.withUnsafeBytes {
            if let source = $0.baseAddress { (target + header.size).copyMemory(from: source, byteCount: $0.count) }
        }
    }

    /// An entry has got a packet identifier: written into its row while that is still in memory, else, for QoS 2, told
    /// apart.
    func keepSent(_ position: Int, of session: Session) {
        let entry = session.queue[position]
        guard let journal = shard.journal, entry.storeNumber != 0, !entry.hasFlow else { return }
        let isNoted = journal.markSent(entry.storeNumber, entry.packetIdentifier, isAwaited: entry.qos == .atLeastOnce)
        if !isNoted, entry.qos == .exactlyOnce {
            keepFlow(.sent, position, of: session, journal)
        }
    }

    /// The broker ended while the client was connected, and it has been found anew what may have been sent: the next
    /// start has to find the same. [MQTT-4.6.0-1 v5]
    func keepRestoredFlows(of session: Session) {
        guard let journal = shard.journal else { return }
        for position in 0..<session.queue.count {
            let entry = session.queue[position]
            guard entry.packetIdentifier != 0 else { return }
            guard entry.storeNumber != 0, !entry.hasFlow, entry.qos == .atLeastOnce else { continue }
            keepFlow(.sent, position, of: session, journal)
        }
    }

    /// PUBREC came for an entry: it never goes out again.
    func keepReleased(_ position: Int, of session: Session) {
        guard let journal = shard.journal, session.queue[position].storeNumber != 0 else { return }
        keepFlow(.released, position, of: session, journal)
    }

    /// The connection is about to end: the packet identifiers that it used are kept for the next one. [MQTT-4.4.0-1 v5]
    func keepFlows(of session: Session) {
        guard let journal = shard.journal, session.keepsMessages else { return }
        for position in 0..<session.queue.sentEnd {
            let entry = session.queue[position]
            guard entry.state == .sent, entry.storeNumber != 0, !entry.hasFlow, entry.qos == .atLeastOnce,
                journal.entryBody(entry.storeNumber) == nil
            else { continue }
            keepFlow(.sent, position, of: session, journal)
        }
    }

    private func keepFlow(_ state: StoredFlow.State, _ position: Int, of session: Session, _ journal: Journal) {
        let entry = session.queue[position]
        let flow = StoredFlow(state: state, packetIdentifier: entry.packetIdentifier)
        let target =
            entry.hasFlow
            ? journal.update(.flow, key: entry.storeNumber, bodyCount: StoredFlow.size)
            : journal.insert(.flow, key: entry.storeNumber, bodyCount: StoredFlow.size)
        flow.write(to: target)
        session.queue[position].hasFlow = true
    }

    /// Gives up all entries of a session that ends: a long queue over several turns.
    func abandonQueue(of session: Session) {
        guard shard.journal != nil, session.queue.count + session.queue.pagedCount > Limits.entriesEndedPerTurn else {
            session.queue.removeAll(shard.journal)
            return
        }
        if let paged = session.queue.takePaged() { shard.durability?.abandon(paged) }
        for position in 0..<session.queue.count {
            let entry = session.queue[position]
            if entry.storeNumber != 0 { shard.durability?.abandonEntry(entry.storeNumber, hasFlow: entry.hasFlow) }
        }
        session.queue.removeAll(nil)
    }

    /// Keeps or removes the row of a topic's retained message. What the broker says of itself is said anew after a
    /// start.
    func keepRetained(_ publication: borrowing Publication, number: UInt64) -> UInt64 {
        guard let journal = shard.journal,
            publication.topic.first != UInt8(ascii: "$") || !publication.topic.starts(with: "$SYS/".utf8)
        else {
            return 0
        }
        let parts = MessageParts(publication, expiresAt: shard.wallClock(publication.expiresAt))
        let origin = publication.source?.row ?? []
        let key = number != 0 ? number : journal.nextNumber()
        let target =
            number != 0
            ? journal.update(.retained, key: key, bodyCount: parts.size + origin.count)
            : journal.insert(.retained, key: key, bodyCount: parts.size + origin.count)
        parts.write(to: target)
        origin.withUnsafeBytes {
            if let bytes = $0.baseAddress { (target + parts.size).copyMemory(from: bytes, byteCount: $0.count) }
        }
        return key
    }

    func forgetRetained(_ number: UInt64) {
        if number != 0 { shard.journal?.delete(.retained, key: number) }
    }

    /// Stands for a share group in the store.
    private func groupHash(serial: UInt32) -> UInt64 {
        shard.groups.find(serial: serial).flatMap { shard.groups[$0]?.hash } ?? 0
    }

    func hash(of group: GroupName) -> UInt64 {
        (group.shareName.bytes + [0] + group.filter).withUnsafeBytes(shard.placement.hash) | 1
    }
}

extension MessageParts {
    /// The parts of a message that is to be kept.
    ///
    /// - Parameter expiresAt: milliseconds since 1970, or `never`.
    init(_ publication: borrowing Publication, expiresAt: UInt64) {
        self.init(
            expiresAt: expiresAt, publisher: publication.publisher, qos: publication.qos, retain: publication.retain,
            topic: publication.topic, properties: publication.properties, payload: publication.payload)
    }
}
