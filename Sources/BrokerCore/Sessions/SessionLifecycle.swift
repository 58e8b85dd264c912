import BrokerModel
import MQTTCodec

/// The life of sessions without a connection, and wills.
struct SessionLifecycle {
    let shard: BrokerShard

    /// Ends a session: its subscriptions, its messages and its place among share groups. [MQTT-4.1.0-2 v5]
    ///
    /// Its subscriptions match nothing any more when this returns, and its Client Identifier is free. Those that are
    /// too many for a turn are taken out of the tree in the next ones: `Session`.
    ///
    /// - Parameters:
    ///   - session: the session.
    ///   - publishesWill: whether its will is due.
    ///   - isElsewhere: whether it goes on on another node, so that nobody is told of its end.
    func endSession(_ session: Session, publishesWill: Bool, isElsewhere: Bool = false) {
        // The cluster publishes it before it forgets the session.
        if publishesWill, session.willName != nil { publishWill(of: session) }
        if session.cluster.epoch > 0 || !session.phase.isWhole || !session.opening.isKnown {
            shard.connecting.endMoves(of: session)
        }
        if !isElsewhere { shard.presence.reportEnd(of: session) }
        if publishesWill { publishWill(of: session) }
        assert(shard.dispatchState.batch.isEmpty, "its audience may hold the session")
        session.will = nil
        shard.drops.reportDrops(of: session)
        shard.wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        if session.bounds.isFull { shard.queueRoom.setFull(session, false) }
        while session.firstSubscription != SubscriptionRecord.none, shard.sessions.ended.stepsLeft > 0 {
            shard.sessions.ended.count(shard.subscribing.removeSubscription(session.firstSubscription, of: session))
        }
        let memberships = shard.shareGroups.leaveGroups(session)
        shard.scanning.cancelScans(of: session)
        shard.sessionRows.abandonQueue(of: session)
        shard.sessionRows.forget(session)
        session.receivedIdentifiers.removeAll()
        shard.memoryBound.uncount(session)
        if session.firstSubscription == SubscriptionRecord.none, memberships.isEmpty {
            shard.sessions.remove(session)
        } else {
            keepRemains(of: session, memberships)
        }
        if session.freesRoom { shard.sessions.ofBroker.leave() }
        shard.userBounds.sessionEnded(session)
    }

    /// Publishes the will, if there is one, and forgets it. [MQTT-3.1.2-8 v5] [MQTT-3.1.2-10 v5]
    func publishWill(of session: Session) {
        guard let will = session.will else { return }
        let saved = shard.moves.savedWill(of: session)
        (session.will, session.willName) = (nil, nil)
        session.willDueAt = .max
        let properties = ForwardedProperties.encode(will.properties)
        let expiresAt = will.properties.messageExpiryInterval.map { shard.now + UInt64($0) * 1000 } ?? Message.neverExpires
        will.topic.bytes.withUnsafeBytes { topic in
            if let reason = dueWillObjection(will, session, topic) {
                if reason == .notAuthorised { shard.statistics.denials.count(.will) }
                let size = topic.count + properties.count + will.payload.count
                shard.drops.drop(reason, DroppedMessage(topic: topic, qos: will.qos, byteCount: size), for: session)
                if let saved { shard.moves.sendWillEnds(saved.name, of: session) }
                return
            }
            if shard.moves.givesWill(saved, of: session) { return }
            properties.withUnsafeBytes { properties in
                will.payload.withUnsafeBytes { payload in
                    var publication = Publication(
                        topic: topic, properties: properties, payload: payload, qos: will.qos,
                        retain: will.retain && shard.settings.retainAvailable, expiresAt: expiresAt, publisher: session.publisherKey
                    )
                    publication.sender = Reference(session)
                    if will.retain { publication.source = shard.retainedMessages.retainedSource(of: session) }
                    shard.publishing.publish(&publication)
                }
            }
        }
    }

    /// What stands in the way of a will when it is due: the rules may have changed since its CONNECT was taken, and a
    /// store may hold any.
    private func dueWillObjection(_ will: Will, _ session: Session, _ topic: UnsafeRawBufferPointer) -> DropReason? {
        guard BridgeStateTopics.isOpenToClients(topic),
            topic.first != UInt8(ascii: "$") || !shard.bridgeStateTopics.isOfOwnBridge(topic),
            shard.accessChecks.mayPublish(will, session, topic)
        else { return .notAuthorised }
        return shard.publishing.isTooDeep(topic) || shard.publishing.isTooLong(topic) ? .refused : nil
    }

    /// Arms the timer of a session whose client is away, for its will or its end, whichever comes first; not before all
    /// of it is here.
    func armTimer(of session: Session) {
        shard.wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        guard !session.isRestored else { return }
        let due = min(session.times.endsAt, session.willDueAt)
        guard due != .max else { return }
        session.timer = shard.wheel.arm(
            TimerSubject(kind: .session, index: session.index, generation: session.generation), at: due)
    }

    /// The timer of a session has fired.
    ///
    /// - Parameter isOurs: whether it is known that no other node has the session.
    func sessionTimerFired(_ session: Session, isOurs: Bool = false) {
        session.timer = TimerWheel.none
        guard session.connection == nil else { return }
        if !isOurs, shard.moves.mustBeAssumed(session) { return shard.moves.wake(session) }
        if session.times.endsAt <= shard.now {
            // One that lasts no longer than its connection has ended with the broker's last run.
            if session.expiryIntervalSeconds > 0 {
                shard.log(.notice) { "Expiring client \(session.clientIdentifier) due to timeout." }
                shard.statistics.clientsExpired += 1
            }
            endSession(session, publishesWill: true)
            return
        }
        if session.willDueAt <= shard.now {
            publishWill(of: session)
            shard.sessionRows.keep(session)
            shard.saves.markPresenceChanged(of: session)
        }
        armTimer(of: session)
    }
}
