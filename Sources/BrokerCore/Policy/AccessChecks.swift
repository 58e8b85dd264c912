import BrokerModel
import MQTTCodec

/// The rights of clients: which topics each may read and write.
///
/// Writing is checked when a message comes. Reading is checked when a topic's matches are looked up, so that the
/// fan-out has no question to ask; whatever changes a client's rights makes the matches be looked up anew. What was
/// queued before is judged once more when its turn comes. A session whose listener is no more queues what it has
/// subscribed to: that is judged when its client comes back, and nobody has it before.
struct AccessChecks {
    let shard: BrokerShard

    /// Gives the session the rights of the client that has just connected, whose it is from now on.
    ///
    /// - Parameters:
    ///   - grant: what its login brought along.
    ///   - mountPoint: what its topics begin with inside the broker.
    func grantAccess(_ session: Session, _ connection: Connection, _ grant: LoginGrant?, mountPoint: [UInt8]) {
        let isKnown =
            session.owner.userName == connection.client.userName && session.owner.listener == connection.info.listener
            && session.grant === grant && !session.awaitsGrant
            && session.owner.access?.holds(from: connection.info.address) ?? true
        let before = session.grant
        session.grant = grant
        session.awaitsGrant = false
        if let expiry = grant?.expiresAt { connection.makeExtras().loginEndsAt = shard.shardClock(expiry) }
        session.owner.userName = connection.client.userName
        session.owner.listener = connection.info.listener
        session.mountPoint = mountPoint
        session.owner.isUnclaimed = false
        session.owner.isBrokersOwn = connection.info.listener == BrokerSettings.ownListener
        if !isKnown { session.retainedSource = nil }
        guard !isKnown || session.owner.access == nil else { return }
        beginDecisions(of: session, before, connection)
        renewAccess(session, origin: .address(connection.info.address))
    }

    /// The rules have changed: gives every session its rights anew.
    func renewAccess() {
        for session in shard.sessions.all { renewAccess(session) }
        shard.tree.forgetMatches()
    }

    /// - Parameter origin: from where its client comes, if that has just connected.
    func renewAccess(_ session: Session, origin: AccessOrigin? = nil) {
        let before = session.owner.access
        let policy = session.owner.listener.map { shard.settings.policy(of: $0) }
        let origin = origin ?? knownOrigin(of: session)
        let access = AccessControl.policy(
            policy?.accessControl, userName: session.owner.userName, clientIdentifier: session.clientIdentifier,
            grant: session.grant, origin: origin)
        // What rules the login of a client that is away will bring is not known, nor from where it will come: what
        // comes for it waits, and is judged when it is back.
        session.awaitsGrant =
            session.connection == nil
            && (session.grant == nil && policy?.takesRulesFromLogins == true || origin == .unknown && access?.asksAddress == true)
        session.owner.access = session.awaitsGrant ? nil : access
        let hasAuthority = session.grant?.topics != nil
        if hasAuthority { session.owner.access = session.owner.access?.receiving(session.topicDecisions.filters) }
        // What an authority has granted before waits for no other word of it.
        if !session.queue.isEmpty, !hasAuthority { session.bounds.isQueueDoubtful = true }
        // A session that has no subscription yet is among no topic's matches.
        let isListed = session.firstSubscription != SubscriptionRecord.none
        if before != nil || session.owner.access != nil, isListed { shard.tree.forgetMatches() }
        if before !== session.owner.access { shard.shareGroups.sendAccess(of: session) }
    }

    /// From where the session's client comes; if it is away, from where it came last, as far as rules asked for that.
    private func knownOrigin(of session: Session) -> AccessOrigin {
        if let connection = session.connection?.object { return .address(connection.info.address) }
        return session.owner.access?.identity.address.map { .address($0.description) } ?? .unknown
    }

    /// The client has shown anew who it is: from now on it has what that brought along.
    func renewGrant(_ grant: LoginGrant, _ connection: Connection) {
        guard let session = connection.session else { return }
        session.grant = grant
        renewAccess(session)
        guard grant.expiresAt != nil || connection.extras?.hasLoginEnd == true else { return }
        connection.makeExtras().loginEndsAt = grant.expiresAt.map { shard.shardClock($0) } ?? .max
        let seconds = connection.keepAliveMilliseconds / 1500
        shard.armKeepAlive(connection, seconds: UInt16(seconds))
    }

    func mayReceive(_ session: Session, _ topic: UnsafeRawBufferPointer) -> Bool {
        session.mayReceive(topic)
    }

    /// Whether a will may be published; of a client whose listener is no more, if it might be at each of the others.
    func mayPublish(_ will: Will, _ session: Session, _ topic: UnsafeRawBufferPointer) -> Bool {
        guard session.owner.listener.map({ shard.settings.policy(of: $0).isClosed }) ?? true else {
            return session.owner.access?.mayPublish(topic: topic, qos: will.qos, retain: will.retain) ?? true
                || decision(.publish, topic, session) == true
        }
        return policies(ofListener: nil, userName: session.owner.userName, clientIdentifier: session.clientIdentifier)
            .allSatisfy { $0.mayPublish(topic: topic, qos: will.qos, retain: will.retain) }
    }

    /// The rules in force for somebody who came in by a listener, all of which must agree; those of every listener if
    /// that one is no more. Attributes and address are not known any more: rules that allow something hold whatever
    /// they ask of them.
    func policies(
        ofListener listener: Int?, userName: EncodedString?, clientIdentifier: EncodedString
    ) -> [AccessPolicy] {
        let own = listener.map { shard.settings.policy(of: $0) }.flatMap { $0.isClosed ? nil : [$0] }
        return (own ?? shard.settings.listeners)
            .compactMap {
                $0.accessControl?.policy(userName: userName, clientIdentifier: clientIdentifier, origin: .anyone)
            }
    }

    /// Whether a session is this user's.
    func belongs(_ session: Session, to userName: EncodedString?, mountPoint: [UInt8]) -> Bool {
        (session.owner.userName == userName || session.owner.isUnclaimed) && session.mountPoint == mountPoint
    }
}

extension Session {
    /// Whether messages of a topic may reach its client, and are its own among those that divide topics. Those that
    /// tell of clients reach, without any rules, only the client itself.
    @inline(__always)
    func mayReceive(_ topic: UnsafeRawBufferPointer) -> Bool {
        if let topicPart, !topicPart.holds(topic) { return false }
        if topic.first == UInt8(ascii: "$"), PresenceMessage.isTopic(topic) { return mayReceivePresence(topic) }
        guard let access = owner.access else {
            // Where there are no rules, nobody hears what administrators of other listeners are answered.
            return owner.isBrokersOwn || !ControlTopics.isSecurity(topic)
        }
        return access.mayReceive(topic: topic)
    }

    @inline(never)
    private func mayReceivePresence(_ topic: UnsafeRawBufferPointer) -> Bool {
        if owner.isBrokersOwn { return true }
        guard let access = owner.access else { return PresenceMessage.isTopic(topic, of: clientIdentifier) }
        return access.mayReceivePresence(topic: topic)
    }
}
