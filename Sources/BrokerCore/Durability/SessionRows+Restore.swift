import BrokerModel
import MQTTCodec

/// Taking back what the store kept; called by `Recovery` before the shard's first turn.
extension SessionRows {
    /// The session of a row; nil if there is one of this identifier already.
    ///
    /// - Parameter key: nil for one that has no row yet.
    func restore(_ row: StoredSession, key: UInt64?) -> Session? {
        guard shard.sessions.find(row.clientIdentifier) == nil else { return nil }
        let session = shard.sessions.make(
            row.clientIdentifier, publisherKey: shard.clusterMessaging.publisherKey(of: row.clientIdentifier), key: key)
        // A client that is known is not sent away.
        _ = shard.sessions.ofBroker.enter(max: nil)
        session.storage.isStored = key != nil
        if !shard.settings.ownQueueBounds.isEmpty { shard.dispatcher.updateOwnBound(of: session) }
        if !shard.settings.topicParts.isEmpty { shard.dispatcher.updateTopicPart(of: session) }
        session.version = row.version
        session.expiryIntervalSeconds = row.expiryIntervalSeconds
        session.cluster.readsLog = row.expiryIntervalSeconds > 0
        session.owner.userName = row.userName
        session.owner.isUnclaimed = row.isUnclaimed
        session.owner.listener = row.listener.index(among: shard.settings)
        session.mountPoint =
            row.mountPoint ?? session.owner.listener.flatMap { shard.settings.policy(of: $0).mountPoint.fixed } ?? []
        (session.will, session.willName) = (row.will, row.willName)
        session.times.endsAt = row.endsAt.map { shard.shardClock($0) } ?? .max
        session.willDueAt = row.willDueAt.map { shard.shardClock($0) } ?? .max
        (session.logFloor, session.cluster.epoch) = (row.logFloor, row.epoch)
        if row.lacksLog { session.phase = .replaying(nil) }
        session.stepFloor = row.stepFloor ?? FlowStep.Place(epoch: row.epoch, number: 0)
        shard.userBounds.restore(session)
        shard.accessChecks.renewAccess(session)
        session.bounds.isQueueDoubtful = true
        shard.memoryBound.recount(session)
        return session
    }

    /// The client was connected when the broker ended: its connection has ended with it.
    func endConnection(ofRestored session: Session) {
        // Its will is published in the shard's first turn, when all queues are there and a cluster is joined.
        guard session.expiryIntervalSeconds > 0 || session.will != nil else {
            shard.lifecycle.endSession(session, publishesWill: false)
            return
        }
        session.times.endsAt =
            session.expiryIntervalSeconds == .max ? .max : shard.now + UInt64(session.expiryIntervalSeconds) * 1000
        if let will = session.will { session.willDueAt = shard.now + UInt64(will.properties.willDelayInterval ?? 0) * 1000 }
        keep(session)
        keepRestoredFlows(of: session)
        shard.lifecycle.armTimer(of: session)
    }

    func restore(_ row: StoredSubscription, of session: Session, number: UInt64, among shards: [BrokerShard]) {
        shard.userBounds.restoreSubscription(of: session)
        if let shareName = row.filter.shareName {
            restoreMembership(
                GroupName(shareName: shareName, filter: Array(row.filter.matchingBytes)), row.terms, of: session, number, shards)
            return
        }
        row.filter.bytes.withUnsafeBytes { bytes in
            let (record, isNew) = shard.tree.insert(bytes, subscriber: .session(session.index), terms: row.terms)
            if isNew { shard.subscribing.link(record, to: session) }
            shard.tree.setStoreNumber(number, of: record)
        }
        if let stage = row.owed { shard.retainedMessages.restoreOwed(Array(row.filter.bytes), stage, of: session) }
        // Told at once, not as shard messages: what is published first must find its way.
        for target in shards where target !== shard { target.messaging.receivedInterest(row.filter.bytes, true, shard.index) }
    }

    private func restoreMembership(
        _ name: GroupName, _ terms: SubscriptionTerms, of session: Session, _ number: UInt64, _ shards: [BrokerShard]
    ) {
        let group = shard.shareGroups.knownGroup(name)
        let member = GroupMember(
            shard: shard.index, sessionIndex: session.index, sessionKey: session.key, serial: shard.groups[group]?.serial ?? 0,
            terms: terms,
            isConnected: false, access: session.owner.access, isLasting: session.keepsMessages)
        shard.groups[group]?.join(member)
        session.groups.append(GroupMembership(name: name, group: group, storeNumber: number))
        shard.statistics.sharedSubscriptions += 1
        for target in shards where target !== shard { target.shareGroups.receivedGroupChange(name, .joined(member)) }
    }

    /// Puts an entry at the end of its session's queue.
    ///
    /// - Parameters:
    ///   - payload: the number of the row that holds the message, with a reference to it, or 0 if the entry's own row
    ///     does.
    ///   - message: what stands in the row behind the header, which is read again when its turn comes, but for messages
    ///     of share groups.
    ///   - isInFront: whether it is to stand in the part of the queue that memory knows, sent or not.
    func restore(
        _ header: EntryHeader, _ identifiers: [UInt8], of session: Session, number: UInt64, payload: UInt64,
        message: UnsafeRawBufferPointer, isInFront: Bool
    ) {
        let group = header.group == 0 ? 0 : groupSerial(header.group, of: session)
        let wasSent = header.packetIdentifier != 0
        if !wasSent, !isInFront, group == 0 {
            session.queue.appendPaged(PagedEntry(number: number, payload: payload, byteCount: header.byteCount))
            return
        }
        let stored = payload == 0 ? nil : shard.journal.map { StoredPayload(number: payload, journal: $0) }
        let detail =
            identifiers.isEmpty && group == 0 && stored == nil && header.name == .none
            ? nil
            : EntryDetail(
                identifiers: identifiers.isEmpty ? nil : SubscriptionIdentifiers(encoded: identifiers), group: group,
                payload: stored, name: header.name)
        var entry = QueueEntry(stored: number, byteCount: header.byteCount, detail: detail, qos: header.qos, retain: header.retain)
        if group != 0, let message = restoredMessage(message) { entry.warm(message) }
        entry.packetIdentifier = header.packetIdentifier
        entry.wasSent = wasSent
        if session.queue.paged != nil, !wasSent, !isInFront {
            session.queue.appendPaged(pinned: entry)
        } else {
            session.queue.append(entry)
        }
    }

    /// The message that stands in an entry's row.
    func restoredMessage(_ bytes: UnsafeRawBufferPointer) -> Message? {
        var reader = RecordReader(bytes)
        return MessageParts(&reader).map { shard.storedQueues.makeMessage($0) }
    }

    func restoreRetained(_ parts: MessageParts, source: RetainedSource?, number: UInt64) {
        let message = shard.storedQueues.makeMessage(parts)
        message.source = source
        shard.retained.set(message, storeNumber: number)
    }

    /// Makes sure that no number in the store is given again.
    func skipNumbers(session: UInt64, other: UInt64) {
        shard.sessions.skipKeys(through: session)
        shard.journal?.skipNumbers(through: other)
    }

    /// A member of the share group that this stands for, 0 for none, that may read the topic.
    func member(ofGroup hash: UInt64, for topic: UnsafeRawBufferPointer) -> GroupMember? {
        guard hash != 0, let group = shard.groups.find(hash: hash) else { return nil }
        return shard.groups[group]?.choose(for: topic)
    }

    /// Queues a share group's message for a member of this shard.
    func restoreShared(_ message: Message, for member: GroupMember) {
        var publication = Publication(message)
        publication.mustArrive = true
        shard.shareGroups.sendToMember(&publication, member)
        shard.dispatcher.finish(&publication)
    }

    /// How many messages may be in flight to any client.
    var windowMax: Int { shard.settings.inFlightMessagesMax == 0 ? Int(UInt16.max) : shard.settings.inFlightMessagesMax }

    private func groupSerial(_ hash: UInt64, of session: Session) -> UInt32 {
        guard let group = shard.groups.find(hash: hash).flatMap({ shard.groups[$0] }), group.member(session.key) != nil else {
            return 0
        }
        return group.serial
    }
}
