import BrokerModel
import MQTTCodec

/// The long way: from a message to one session's connection or queue, with all that its subscriptions ask for.
extension Dispatcher {
    /// Payloads from this size on are shared among the receivers of a QoS 1 or 2 message; smaller ones are copied with
    /// their header.
    static let sharedPayloadBytesMin = 512

    /// A message to all its matches, each by itself.
    func deliverToEach(_ publication: inout Publication, of matches: Matches) {
        for position in 0..<matches.routeCount { deliver(&publication, to: matches.routes[position]) }
    }

    /// A message to one receiver, with all that its subscriptions ask for.
    func deliver(_ publication: inout Publication, to route: Route) {
        route.session.with { session in
            var maximumQoS = route.maximumQoS
            var retainAsPublished = route.retainAsPublished
            var identifiers: SubscriptionIdentifiers?
            if let detail = route.detail {
                let isOwn = publication.publisher == session.publisherKey
                guard let terms = detail.with({ isOwn ? $0.own : $0.all }) else {
                    if shard.inspection.tracer != nil {
                        shard.tracing.traceFate(.own, publication, qos: publication.qos, retain: publication.retain, for: session)
                    }
                    return
                }
                maximumQoS = terms.maximumQoS
                retainAsPublished = terms.retainAsPublished
                identifiers = terms.encodedIdentifiers
            }
            sendOrQueue(
                &publication, to: session, qos: deliveryQoS(of: publication, maximumQoS),
                retain: publication.retain && retainAsPublished, identifiers: identifiers, group: 0)
        }
    }

    /// The QoS with which a subscription that grants `maximumQoS` gets a message. [MQTT-3.8.4-8 v5]
    @inline(__always)
    func deliveryQoS(of publication: borrowing Publication, _ maximumQoS: QoS) -> QoS {
        shard.settings.upgradesOutgoingQoS ? maximumQoS : min(publication.qos, maximumQoS)
    }

    /// Sends a message to a session that is connected and has room, or queues it.
    ///
    /// - Parameters:
    ///   - qos: the QoS to deliver with. [MQTT-3.8.4-8 v5]
    ///   - group: the serial number of the share group that chose the session, 0 for none.
    func sendOrQueue(
        _ publication: inout Publication, to session: Session, qos: QoS, retain: Bool, identifiers: SubscriptionIdentifiers?,
        group: UInt32
    ) {
        guard qos > .atMostOnce else {
            let mustWait = shard.settings.queuesQoS0 && session.queue.waiting > 0
            if let connection = session.connection, !mustWait {
                connection.with { connection in
                    sendAtMostOnce(&publication, to: connection, session, retain: retain, identifiers: identifiers)
                }
            } else if shard.settings.queuesQoS0 {
                enqueue(&publication, to: session, qos: qos, retain: retain, identifiers: identifiers, group: group)
            } else if shard.inspection.tracer != nil {
                shard.tracing.traceFate(.missed, publication, qos: qos, retain: retain, for: session)
            }
            return
        }
        if let connection = session.connection, session.queue.waiting == 0, mayFly(session) {
            connection.with { connection in
                guard connection.output.pendingBytes < Limits.outputBytesForQueueMax || session.queue.inFlight == 0 else {
                    enqueue(&publication, to: session, qos: qos, retain: retain, identifiers: identifiers, group: group)
                    return
                }
                sendInFlight(
                    &publication, to: connection, session, qos: qos, retain: retain, identifiers: identifiers, group: group)
            }
        } else {
            enqueue(&publication, to: session, qos: qos, retain: retain, identifiers: identifiers, group: group)
        }
    }

    /// Sends the messages that wait for a session, as far as its window and its output have room.
    func pump(_ session: Session, on connection: Connection) {
        let waitingBefore = session.queue.waiting
        defer {
            let waiting = session.queue.waiting
            if connection.hasQueuedEndsOfRetained {
                shard.scanning.queueMoved(by: waitingBefore - waiting, left: waiting, connection)
            }
            shard.memoryBound.recountQueue(of: session)
            if session.bounds.isFull { shard.queueRoom.updateFullness(of: session) }
        }
        repeat { sendResident(session, connection) } while session.queue.paged != nil && shard.storedQueues.refill(session)
        if session.queue.waiting == 0 { session.bounds.isQueueDoubtful = false }
    }

    /// Sends what waits and is in memory.
    private func sendResident(_ session: Session, _ connection: Connection) {
        while session.queue.firstWaiting != nil, connection.output.pendingBytes < Limits.outputBytesForQueueMax {
            let position = session.queue.sentEnd
            let state = session.queue[position].state
            if state == .released {
                // PUBREL waits for no room. [MQTT-3.3.4-10 v5] [MQTT-4.4.0-1 v5] [MQTT-4.4.0-1 v3.1.1]
                let packetIdentifier = session.queue.markSent()
                let dependency = shard.clusterLogReading.recordAcknowledged(packetIdentifier, session, connection)
                shard.storing.sendWhenDurable(.pubrel, packetIdentifier, dependingOn: dependency, to: connection)
                continue
            }
            guard let held = session.queue[position].message else {
                shard.storedQueues.readWaiting(session)
                return
            }
            let message = held.object
            let entry = session.queue[position]
            // A message that was sent once is past its expiry's reach. [MQTT-3.3.2-5 v5] [MQTT-4.3.3-7 v5]
            if message.hasExpired(at: shard.now), !entry.wasSent {
                shard.drops.drop(.expired, DroppedMessage(message), for: session)
                session.queue.dropFirstWaiting(shard.journal)
                continue
            }
            if session.bounds.isQueueDoubtful, !shard.accessChecks.mayStillReceive(session, message, entry) {
                shard.accessChecks.giveUpForbidden(message, entry, session)
                continue
            }
            if entry.qos > .atMostOnce, !mayFly(session) { return }
            if !entry.wasSent { shard.inspection.latencies.waited(microseconds: shard.ledger.clockMicroseconds &- message.madeAt) }
            sendWaiting(message, entry, session, connection)
        }
    }

    private func sendWaiting(_ message: Message, _ entry: QueueEntry, _ session: Session, _ connection: Connection) {
        var frame = PublishFrame(version: connection.version, qos: entry.qos, retain: entry.retain)
        frame.duplicate = entry.wasSent && entry.qos > .atMostOnce
        frame.identifiers = entry.identifiers
        frame.expirySeconds = expirySeconds(message.expiresAt)
        if entry.group != 0, shard.accessChecks.passesOn(tooLarge: message, entry, frame, session, connection) { return }
        guard fits(&frame, message, connection) else {
            session.queue.dropFirstWaiting(shard.journal)
            return
        }
        if entry.qos > .atMostOnce {
            let position = session.queue.sentEnd
            frame.packetIdentifier = session.queue.markSent()
            if !entry.wasSent { shard.sessionRows.keepSent(position, of: session) }
            let dependency = shard.clusterLogReading.recordSent(entry, frame.packetIdentifier, session, connection)
            if shard.storing.holdsPublish(entry, frame.packetIdentifier, to: connection, dependingOn: dependency) { return }
        }
        name(&frame, message, connection)
        frame.write(message, to: connection.output.appendOwn(frame.size(message), pool: &shard.pool))
        countSent(frame, message, connection)
        if entry.qos == .atMostOnce { session.queue.dropFirstWaiting(shard.journal) }
    }

    /// Sends a QoS 2 message whose packet identifier is durable by now, if it is still to be sent.
    func sendHeld(_ packetIdentifier: UInt16, _ connection: Connection) {
        guard let session = connection.session, let position = session.queue.position(of: packetIdentifier),
            session.queue[position].state == .sent, let message = session.queue[position].message?.object
        else { return }
        let entry = session.queue[position]
        var publication = Publication(message)
        var frame = PublishFrame(version: connection.version, qos: entry.qos, retain: entry.retain)
        frame.duplicate = entry.wasSent
        frame.identifiers = connection.version == .v5 ? entry.identifiers : nil
        frame.expirySeconds = expirySeconds(message.expiresAt)
        frame.packetIdentifier = packetIdentifier
        // Judged when it was queued to be sent; sizes do not change.
        _ = fits(&frame, publication, connection)
        name(&frame, publication, connection)
        write(frame, &publication, to: connection)
        finish(&publication)
    }

    private func sendAtMostOnce(
        _ publication: inout Publication, to connection: Connection, _ session: Session, retain: Bool,
        identifiers: SubscriptionIdentifiers?
    ) {
        var frame = PublishFrame(version: connection.version, qos: .atMostOnce, retain: retain)
        frame.identifiers = connection.version == .v5 ? identifiers : nil
        frame.expirySeconds = expirySeconds(publication.expiresAt)
        guard connection.output.pendingBytes &+ publication.byteCount <= shard.memoryBound.outputBytesMax else {
            shard.drops.drop(.outputFull, DroppedMessage(publication), for: connection)
            return
        }
        guard fits(&frame, publication, connection) else { return }
        name(&frame, publication, connection)
        write(frame, &publication, to: connection)
    }

    /// Sends a QoS 1 or 2 message and notes it as in flight.
    private func sendInFlight(
        _ publication: inout Publication, to connection: Connection, _ session: Session, qos: QoS, retain: Bool,
        identifiers: SubscriptionIdentifiers?, group: UInt32
    ) {
        var frame = PublishFrame(version: connection.version, qos: qos, retain: retain)
        frame.identifiers = connection.version == .v5 ? identifiers : nil
        frame.expirySeconds = expirySeconds(publication.expiresAt)
        guard fits(&frame, publication, connection) else { return }
        let entry = shard.sessionRows.makeEntry(
            &publication, for: session, qos: qos, retain: retain, identifiers: identifiers, group: group)
        let position = session.queue.count
        session.queue.append(entry)
        frame.packetIdentifier = session.queue.markSent()
        if entry.storeNumber != 0 { shard.sessionRows.keepSent(position, of: session) }
        let dependency = shard.clusterLogReading.recordSent(entry, frame.packetIdentifier, session, connection)
        if shard.storing.holdsPublish(entry, frame.packetIdentifier, to: connection, dependingOn: dependency) { return }
        name(&frame, publication, connection)
        if publication.hasManyReceivers, connection.frameKind != .own, !retain, frame.identifiers == nil {
            copyTemplate(frame, &publication, to: connection)
        } else {
            write(frame, &publication, to: connection)
        }
    }

    /// Copies the frame that all receivers of a QoS 1 or 2 message have in common, and puts the packet identifier in.
    private func copyTemplate(_ frame: PublishFrame, _ publication: inout Publication, to connection: Connection) {
        let kind = (frame.version == .v5 ? 2 : 0) + (frame.qos == .exactlyOnce ? 1 : 0)
        let template = template(&publication, kind, frame.qos)
        connection.output.appendCopy(of: template, packetIdentifier: frame.packetIdentifier, pool: &shard.pool)
        countSent(frame, publication, connection)
    }

    /// Checks the size: what is too large for the client, or for any packet, counts as sent. [MQTT-3.1.2-25 v5]
    private func fits(
        _ frame: inout PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection
    ) -> Bool {
        guard connection.frameKind == .own || frame.identifiers != nil || publication.byteCount > Limits.fittingBytesMax
        else { return true }
        if let mountPoint = connection.extras?.mountPoint, publication.topic.starts(with: mountPoint) {
            frame.topicOffset = mountPoint.count
            guard isNamed(UnsafeRawBufferPointer(rebasing: publication.topic[mountPoint.count...])) else {
                let message = DroppedMessage(topic: publication.topic, qos: frame.qos, byteCount: publication.byteCount)
                shard.drops.drop(.notAuthorised, message, for: connection)
                return false
            }
        }
        let size = frame.size(publication)
        guard size <= connection.maximumPacketSize else {
            let message = DroppedMessage(topic: publication.topic, qos: frame.qos, byteCount: publication.byteCount)
            shard.drops.drop(.tooLargeForClient, message, for: connection)
            return false
        }
        return true
    }

    /// Whether a topic may be called so behind a mount point: with no name nobody could tell it, and what begins with a
    /// $ would look like the broker's own.
    @inline(never)
    private func isNamed(_ topic: UnsafeRawBufferPointer) -> Bool { topic.first.map { $0 != UInt8(ascii: "$") } ?? false }

    /// Names the topic, by an alias if the client allows some: just before the frame is written, since the next one may
    /// rely on it.
    private func name(
        _ frame: inout PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection
    ) {
        guard connection.frameKind == .own, let extras = connection.extras else { return }
        // An alias makes the packet larger, so one is set only if there is room. [MQTT-3.1.2-24 v5]
        guard frame.size(publication) + PublishFrame.aliasBytesMax <= connection.maximumPacketSize else { return }
        frame.naming = extras.sentAliases.name(UnsafeRawBufferPointer(rebasing: publication.topic[frame.topicOffset...]))
    }

    private func write(_ frame: PublishFrame, _ publication: inout Publication, to connection: Connection) {
        let size = frame.size(publication)
        if publication.payload.count >= Self.sharedPayloadBytesMin {
            let payload = sharedPayload(&publication)
            let target = connection.output.appendOwn(size - publication.payload.count, pool: &shard.pool)
            frame.write(publication, to: target, payload: false)
            connection.output.append(payload, pool: &shard.pool)
        } else {
            frame.write(publication, to: connection.output.appendOwn(size, pool: &shard.pool))
        }
        countSent(frame, publication, connection)
    }

    private func countSent(_ frame: PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection)
    {
        shard.markDirty(connection)
        countSent(1, frame.qos, payloadBytes: publication.payload.count)
        connection.traffic.sentMessages &+= 1
        if shard.settings.logTopics.contains(.debug) { logSent(frame, publication, connection) }
        if shard.matchCache.observed != nil { shard.topicMetrics.countObservedSent(frame, publication, connection) }
    }

    private func sharedPayload(_ publication: inout Publication) -> SharedFrame {
        if let known = publication.sharedPayload { return known }
        let count = publication.payload.count
        let (chunk, offset) = shard.arena.allocate(count)
        if let source = publication.payload.baseAddress {
            chunk.with { ($0.base + offset).copyMemory(from: source, byteCount: count) }
        }
        let made = SharedFrame(chunk: chunk, offset: offset, length: count)
        publication.sharedPayload = made
        return made
    }

    /// Queues a message for later, within the session's limits.
    private func enqueue(
        _ publication: inout Publication, to session: Session, qos: QoS, retain: Bool, identifiers: SubscriptionIdentifiers?,
        group: UInt32
    ) {
        // A session that ends with its connection has no queue once that is gone.
        guard session.connection != nil || session.expiryIntervalSeconds > 0 else { return }
        if shard.memoryBound.isMemoryFull, bound(of: session).overflow != .refusesPublisher || !publication.mustArrive {
            shard.drops.drop(.noRoom, DroppedMessage(publication), for: session)
            return
        }
        if isQueueFull(of: session) {
            guard makeRoom(in: session, for: publication) else { return }
        }
        let entry = shard.sessionRows.makeEntry(
            &publication, for: session, qos: qos, retain: retain, identifiers: identifiers, group: group)
        shard.storedQueues.append(entry, to: session)
        if shard.inspection.tracer != nil { shard.tracing.traceFate(.queued, publication, qos: qos, retain: retain, for: session) }
        shard.memoryBound.recountQueue(of: session)
        if let connection = session.connection { connection.with { shard.slowClients.suspect($0) } }
        if shard.room.mayRefusePublishers { shard.queueRoom.updateFullness(of: session) }
    }

    /// Lets go of what gives way in a full queue: the message that comes, the oldest one, or nothing.
    ///
    /// - Returns: whether the message that comes is queued.
    private func makeRoom(in session: Session, for publication: borrowing Publication) -> Bool {
        let overflow = bound(of: session).overflow
        if overflow == .refusesPublisher, publication.mustArrive { return true }
        shard.drops.drop(.queueFull, DroppedMessage(publication), for: session)
        return overflow == .dropsOldest && session.queue.dropOldestUnsent(shard.journal)
    }

    /// Whether the limits of a session's queue are reached. As with mosquitto, the last message may go past the limit
    /// of bytes.
    func isQueueFull(of session: Session) -> Bool {
        let bound = bound(of: session)
        return (bound.messagesMax > 0 && session.queue.waiting >= bound.messagesMax)
            || (bound.bytesMax > 0 && session.queue.waitingBytes >= bound.bytesMax)
    }

    /// How long a session's queue may be.
    @inline(__always)
    func bound(of session: Session) -> QueueBound {
        guard session.bounds.hasOwnQueueBound else { return shard.settings.queueBound }
        return shard.settings.ownQueueBounds[session.clientIdentifier] ?? shard.settings.queueBound
    }

    /// Looks up whether the session has a bound of its own for its queue. Called when the session or the settings are
    /// new.
    func updateOwnBound(of session: Session) {
        session.bounds.hasOwnQueueBound = shard.settings.ownQueueBounds[session.clientIdentifier] != nil
    }

    /// Looks up the part of the topics that the session is for. Called when the session or the settings are new.
    func updateTopicPart(of session: Session) {
        guard let part = shard.settings.topicParts[session.clientIdentifier], part != session.topicPart else { return }
        session.topicPart = part
        session.publisherKey = part.publisher.bytes.withUnsafeBytes(shard.placement.hash) | 1
        // A session that has no subscription yet is among no topic's matches.
        if session.firstSubscription != SubscriptionRecord.none { shard.tree.forgetMatches() }
    }

    /// Whether the window lets another message go. As with mosquitto, it may go past the limit of bytes.
    /// [MQTT-4.9.0-2 v5]
    @inline(__always)
    func mayFly(_ session: Session) -> Bool {
        guard session.queue.inFlight < session.inFlightMax else { return false }
        return shard.settings.inFlightBytesMax == 0 || session.queue.inFlight == 0
            || session.queue.inFlightBytes < shard.settings.inFlightBytesMax
    }

    func expirySeconds(_ deadline: UInt64) -> UInt32? { Message.expirySeconds(until: deadline, now: shard.now) }

    /// Whether a message is a line of the log, of which no line must tell.
    static func isLogTopic(_ topic: UnsafeRawBufferPointer) -> Bool { topic.starts(with: "$SYS/broker/log/".utf8) }

    func logSending(_ publication: borrowing Publication, _ route: Route, _ qos: QoS) {
        guard !Self.isLogTopic(publication.topic) else { return }
        let (topic, count) = (LoggedText(publication.topic), publication.payload.count)
        let name = route.session.with { $0.clientIdentifier }
        shard.log(.debug) { "Sending PUBLISH to \(name) (d0, q\(qos.rawValue), r0, m0, '\(topic)', ... (\(count) bytes))" }
    }

    private func logSent(_ frame: PublishFrame, _ publication: borrowing some PublishParts & ~Copyable, _ connection: Connection) {
        guard !Self.isLogTopic(publication.topic) else { return }
        let (topic, count) = (LoggedText(publication.topic), publication.payload.count)
        shard.log(.debug) {
            "Sending PUBLISH to \(connection.name) (d\(frame.duplicate ? 1 : 0), q\(frame.qos.rawValue), r\(frame.retain ? 1 : 0), "
                + "m\(frame.packetIdentifier), '\(topic)', ... (\(count) bytes))"
        }
    }
}
