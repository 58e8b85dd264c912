import BrokerModel
import MQTTCodec

/// What a client comes back to.
struct ExistingSession {
    /// The session of its Client Identifier; nil if there is none.
    let session: Session?
    /// Whether the store had one when the client came, even if that has ended meanwhile.
    let hadRow: Bool
    /// Whether it is another user's, and gives way.
    let isForeign: Bool
    /// Whether it ends, whatever is in it: the client wants it so, or it is another user's.
    let endsSession: Bool
    /// What the client has taken of its user's places.
    var places: CountedUser?
}

/// The last two steps of a CONNECT: its session becomes this node's, and the client is let in.
extension Connecting {
    /// Finds what the client comes back to, and has the cluster say that this node keeps it, where sessions are the
    /// cluster's. When that has been said, the same is looked at again: time has passed.
    func claim(_ connect: PendingConnect, _ login: VerifiedLogin, _ connection: Connection) throws(ConnectRefusal) {
        guard !shard.clusterMessaging.awaitsCluster(connection) else {
            connect.awaited = .cluster
            return
        }
        // The login may have told who the user is, and the list of bans may be another one meanwhile.
        try shard.authentication.checkIsWelcome(connect, connection)
        try checkUserPrefix(connect, login.userName, shard.settings.policy(of: connection.info.listener))
        try giveMountPoint(connect, login, connection)
        var existing = existingSession(connect, login, connection)
        try checkMemory(existing)
        try checkOwner(existing, connection)
        try checkStore(connect, existing)
        if try needsClaim(connect, existing, connection) { return sendClaim(connect, login, existing, connection) }
        existing.places = try shard.userBounds.takePlaces(existing, of: login.userName, connection)
        try enterSessionCount(existing)
        connect.state = .claimed(login, existing)
    }

    /// Who the client is is known by now, and so is what its topics begin with.
    private func giveMountPoint(_ connect: PendingConnect, _ login: VerifiedLogin, _ connection: Connection) throws(ConnectRefusal)
    {
        let policy = shard.settings.policy(of: connection.info.listener)
        let mountPoint =
            policy.accessControl?.mountPoint(of: login.userName, in: login.grant?.memberships ?? AccessMemberships())
            ?? policy.mountPoint
        guard !mountPoint.isEmpty else {
            connect.mountPoint = []
            return
        }
        do throws(MountPoint.Refusal) {
            connect.mountPoint = try mountPoint.prefix(
                userName: login.userName, clientIdentifier: connect.packet.clientIdentifier,
                attributes: login.grant?.attributes ?? [])
        } catch {
            throw ConnectRefusal(.notAuthorized, "\(error.words).", failure: .reported(error.words))
        }
        if mountPoint.fixed == nil || mountPoint != policy.mountPoint, let will = connect.packet.will {
            try checkWillTopic(will, connect.mountPoint)
        }
    }

    private func existingSession(
        _ connect: PendingConnect, _ login: VerifiedLogin, _ connection: Connection
    ) -> ExistingSession {
        // Whatever becomes of it, CONNACK tells of it.
        let hadRow = shard.sessions.find(connect.packet.clientIdentifier)?.storage.isStored ?? false
        let session = livingSession(connect.packet.clientIdentifier, isClaimed: connect.epoch != nil)
        let isForeign =
            session.map { !shard.accessChecks.belongs($0, to: login.userName, mountPoint: connect.mountPoint) } ?? false
        return ExistingSession(
            session: session, hadRow: hadRow, isForeign: isForeign, endsSession: connect.packet.cleanStart || isForeign)
    }

    /// The client's session, unless its time is over. Timers fire by their tick, and the first one after a start may be
    /// too late for what has become due before it. [MQTT-3.1.2-23 v5]
    private func livingSession(_ identifier: EncodedString, isClaimed: Bool) -> Session? {
        guard let known = shard.sessions.find(identifier), known.connection == nil, !known.isMoving,
            !known.isRestored,
            min(known.times.endsAt, known.willDueAt) <= shard.now, isClaimed || !shard.moves.mustBeAssumed(known)
        else {
            return shard.sessions.find(identifier)
        }
        shard.wheel.disarm(known.timer)
        // Another one takes its place at once.
        if isClaimed { known.cluster.isClaimed = false }
        shard.lifecycle.sessionTimerFired(known, isOurs: true)
        if isClaimed { shard.sessions.find(identifier)?.cluster.isClaimed = true }
        return shard.sessions.find(identifier)
    }

    private func checkMemory(_ existing: ExistingSession) throws(ConnectRefusal) {
        if existing.session == nil, shard.memoryBound.isMemoryFull { throw ConnectRefusal(.quotaExceeded, "memory is short.") }
    }

    /// 0x85 and not 0x87: the user may come in, by another identifier. [MQTT-3.1.3-8 v5] [MQTT-3.1.3-9 v3.1.1]
    private func checkOwner(_ existing: ExistingSession, _ connection: Connection) throws(ConnectRefusal) {
        if existing.isForeign, shard.settings.foreignSession == .refusesNewcomer {
            throw ConnectRefusal(.clientIdentifierNotValid, "the Client Identifier is another user's.")
        }
        if let owner = existing.session?.owner.listener, shard.settings.policy(of: owner).isOwn, !connection.client.isLocal {
            throw ConnectRefusal(.clientIdentifierNotValid, "the Client Identifier is the broker's own.")
        }
    }

    /// A store in trouble keeps no session, and forgets none.
    private func checkStore(_ connect: PendingConnect, _ existing: ExistingSession) throws(ConnectRefusal) {
        guard let journal = shard.journal, journal.health != .good else { return }
        let isNew = existing.session == nil || existing.endsSession
        let lasts =
            connect.packet.version == .v5
            ? connect.packet.properties.sessionExpiryInterval ?? 0 > 0 : !connect.packet.cleanStart
        if isNew, lasts || existing.session?.storage.isStored == true {
            throw ConnectRefusal(.quotaExceeded, "the broker's store is full, and cannot keep a session.")
        }
    }

    /// A new session takes a place among all that may be; one that is there has it.
    private func enterSessionCount(_ existing: ExistingSession) throws(ConnectRefusal) {
        if existing.session == nil, !shard.sessions.ofBroker.enter(max: shard.settings.sessionsMax) {
            shard.userBounds.giveBack(existing.places)
            throw ConnectRefusal(.serverBusy, "the broker has no room for more clients.")
        }
    }

    // MARK: Letting in

    /// Lets the client in: ends its earlier connection, finds or makes its session, and answers with CONNACK.
    func admit(
        _ connect: PendingConnect, _ login: VerifiedLogin, _ existing: ExistingSession, _ connection: Connection
    ) {
        let policy = shard.settings.policy(of: connection.info.listener)
        takeOver(existing, for: connection, login)
        let (session, isPresent) = resumeOrMake(existing, connect)
        shard.userBounds.settle(existing.places, session)
        bind(connection, to: session, connect, login, policy)
        reportBound(connection, session, connect)
        let isAnswered = acknowledge(connect, login, session, isPresent: isPresent, connection, policy)
        forgetConnect(of: connection)
        guard isAnswered else {
            shard.logRefusal(of: connection, .packetTooLarge, because: "CONNACK is larger than the client's Maximum Packet Size.")
            shard.disconnecting.detach(connection, will: .discarded)
            return shard.disconnecting.close(connection)
        }
        shard.presence.reportArrival(of: connection, sessionPresent: isPresent)
        makeDurable(session, existing, isPresent: isPresent, isClaimed: connect.epoch != nil, connection)
        shard.shareGroups.setPresence(of: session, isConnected: true)
        shard.dispatcher.pump(session, on: connection)
        shard.retainedMessages.resumeOwed(session)
        shard.receiving.resumeInbound(connection)
        shard.memoryBound.recount(connection)
    }

    /// Ends what the session had before: its connection and its waiting will, and the session itself when the client
    /// begins anew: it asks for that, or is another user. [MQTT-3.1.4-3 v5]
    private func takeOver(_ existing: ExistingSession, for newcomer: Connection, _ login: VerifiedLogin) {
        guard let session = existing.session else { return }
        // The new session counts in its place: between the two no other client comes in.
        session.freesRoom = false
        defer { session.freesRoom = true }
        if let old = session.connection?.object {
            endTakenOver(
                old, session, existing,
                isOwnReturn: shard.settings.flapping != nil && shard.banEnforcement.isOneParty(old, newcomer, login.userName))
        } else if existing.endsSession {
            // Its client is back before the delay is over, whatever it begins; of another user it says nothing.
            // [MQTT-3.1.2-8 v5]
            if !existing.isForeign { shard.moves.forgetWill(of: session) }
            shard.lifecycle.endSession(session, publishesWill: existing.isForeign)
        }
        shard.moves.forgetWill(of: session)
        session.willDueAt = .max
    }

    /// Ends the connection that a session has, for the sake of another one.
    private func endTakenOver(_ old: Connection, _ session: Session, _ existing: ExistingSession, isOwnReturn: Bool) {
        shard.logConnection(.error) { "Client \(session.clientIdentifier) \(old.logPosition) disconnected: session taken over." }
        // A will without delay is due as the old connection closes; one with delay only if the session ends.
        // [MQTT-3.1.3-9 v5]
        let delay = session.will?.properties.willDelayInterval ?? 0
        if existing.endsSession { session.expiryIntervalSeconds = 0 }
        let fate: Disconnecting.WillFate = delay == 0 || session.expiryIntervalSeconds == 0 ? .due : .kept
        shard.disconnecting.dismiss(
            old, .sessionTakenOver, telling: "another connection uses this Client Identifier.",
            "another connection uses this Client Identifier", will: fate, isOwnReturn: isOwnReturn)
    }

    /// The session that the client has from now on, and whether it is the one from before, as CONNACK's Session Present
    /// tells.
    private func resumeOrMake(_ existing: ExistingSession, _ connect: PendingConnect) -> (session: Session, isPresent: Bool) {
        // A session that ended with its earlier connection is gone by now. [MQTT-3.1.2-4 v5] [MQTT-3.1.2-6 v3.1.1]
        let mayResume = existing.session != nil && !existing.endsSession
        let resumed = mayResume ? shard.sessions.find(connect.packet.clientIdentifier) : nil
        let session = resumed ?? makeSession(connect)
        if let epoch = connect.epoch { (session.cluster.isClaimed, session.cluster.epoch) = (true, epoch) }
        if !shard.settings.ownQueueBounds.isEmpty { shard.dispatcher.updateOwnBound(of: session) }
        if !shard.settings.topicParts.isEmpty { shard.dispatcher.updateTopicPart(of: session) }
        return (session, resumed != nil)
    }

    private func makeSession(_ connect: PendingConnect) -> Session {
        let identifier = connect.packet.clientIdentifier
        let session = shard.sessions.make(identifier, publisherKey: shard.clusterMessaging.publisherKey(of: identifier))
        session.times.createdAt = shard.now
        if let epoch = connect.epoch { session.stepFloor = FlowStep.Place(epoch: epoch, number: 0) }
        return session
    }

    // MARK: Binding

    /// Gives the connection its session, and both what CONNECT and the listener say of them.
    private func bind(
        _ connection: Connection, to session: Session, _ connect: PendingConnect, _ login: VerifiedLogin, _ policy: ListenerPolicy
    ) {
        connection.session = session
        connection.state = .connected
        connection.advertisedLimits =
            connection.client.isLocal
            ? AdvertisedLimits(shard.settings, shard.settings.own) : shard.policy.advertisedLimits[connection.info.listener]
        connection.client.userName = login.userName
        connection.client.isCleanStart = connect.packet.cleanStart
        connection.connectedAt = shard.now
        connection.holding.holdsAcknowledgements = policy.holdsAcknowledgements
        setTerms(of: session, connect, connection)
        shard.accessChecks.grantAccess(session, connection, login.grant, mountPoint: connect.mountPoint)
        shard.wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        shard.armKeepAlive(connection, seconds: keepAliveSeconds(of: connect))
        chooseFrames(connection, connect, policy)
        applyLimits(to: connection, connect)
        setWill(connect, session, connection)
        shard.memoryBound.recount(session)
    }

    /// What CONNECT says of the session.
    private func setTerms(of session: Session, _ connect: PendingConnect, _ connection: Connection) {
        session.connection = Reference(connection)
        session.version = connect.packet.version
        session.times.endsAt = .max
        session.willDueAt = .max
        // Of the broker's own clients, whose sessions keep what waits for others, none ends before its time.
        session.expiryIntervalSeconds =
            connection.client.isLocal ? connect.packet.properties.sessionExpiryInterval ?? 0 : expiryInterval(of: connect)
        if session.expiryIntervalSeconds > 0 { session.cluster.readsLog = true }
        session.inFlightMax = inFlightMax(asked: connect.packet.properties.receiveMaximum)
    }

    /// How PUBLISH packets to the client are encoded.
    private func chooseFrames(_ connection: Connection, _ connect: PendingConnect, _ policy: ListenerPolicy) {
        connection.frameKind = connect.packet.version == .v5 ? .shared5 : .shared3
        let aliases = min(connect.packet.properties.topicAliasMaximum ?? 0, policy.sentTopicAliasMaximum)
        if aliases > 0 { connection.makeExtras().sentAliases = SentAliases(maximum: aliases) }
        let takesAnySize = connection.maximumPacketSize == BrokerSettings.packetBytesLargest
        if aliases > 0 || !takesAnySize || !connect.mountPoint.isEmpty { connection.frameKind = .own }
    }

    /// What only few brokers ask for: rates, and topics that look different from inside.
    private func applyLimits(to connection: Connection, _ connect: PendingConnect) {
        if shard.settings.messagesPerSecondMax > 0 {
            connection.makeExtras().messageRate = RateGauge(perSecond: shard.settings.messagesPerSecondMax, now: shard.now)
        }
        if shard.settings.bytesPerSecondMax > 0 {
            connection.makeExtras().byteRate = RateGauge(perSecond: shard.settings.bytesPerSecondMax, now: shard.now)
        }
        if !connect.mountPoint.isEmpty { connection.makeExtras().mountPoint = connect.mountPoint }
    }

    /// The will goes with the session from now on, if its client may publish it.
    private func setWill(_ connect: PendingConnect, _ session: Session, _ connection: Connection) {
        (session.will, session.willName) = (nil, nil)
        guard var will = connect.packet.will else { return }
        if !connect.mountPoint.isEmpty {
            // CONNECT was refused for it, unless the rules have changed while the login was awaited: it goes nowhere
            // else.
            guard let topic = will.topic.mounted(connect.mountPoint) else { return }
            will.topic = topic
        }
        if let words = shard.bridgeStateTopics.willObjection(will, of: session) {
            will.topic.bytes.withUnsafeBytes { shard.accessChecks.logDenied(publish: $0, of: session, connection, because: words) }
            return
        }
        session.will = will
        shard.accessChecks.askAhead(aboutWill: will.topic, session, connection)
        if connect.epoch != nil, let moves = shard.cluster?.moves { shard.moves.nameWill(of: session, moves) }
    }

    /// How long the session outlives its connection, in seconds.
    func expiryInterval(of connect: PendingConnect) -> UInt32 {
        guard connect.packet.version == .v5 else { return connect.packet.cleanStart ? 0 : shard.settings.sessionExpirySecondsMax }
        return min(connect.packet.properties.sessionExpiryInterval ?? 0, shard.settings.sessionExpirySecondsMax)
    }

    private func inFlightMax(asked receiveMaximum: UInt16?) -> Int {
        let own = shard.settings.inFlightMessagesMax == 0 ? 65_535 : shard.settings.inFlightMessagesMax
        return min(own, Int(receiveMaximum ?? 65_535), 65_535)
    }

    private func keepAliveSeconds(of connect: PendingConnect) -> UInt16 {
        let (asked, longest) = (connect.packet.keepAliveSeconds, shard.settings.keepAliveSecondsMax)
        guard longest > 0, connect.packet.version == .v5 || shard.settings.boundsEarlierKeepAlives else { return asked }
        return asked == 0 ? longest : min(asked, longest)
    }

    // MARK: CONNACK

    /// CONNACK with what the client must know of the broker's limits. [MQTT-3.2.2-3 v5]
    ///
    /// - Returns: false if it is too large for the client, which then knows nothing.
    private func acknowledge(
        _ connect: PendingConnect, _ login: VerifiedLogin, _ session: Session, isPresent: Bool, _ connection: Connection,
        _ policy: ListenerPolicy
    ) -> Bool {
        var answer = ConnackPacket(reasonCode: .success)
        // 3.1 has no Session Present flag.
        answer.sessionPresent = isPresent && connect.packet.version != .v31
        if connect.packet.version == .v5 {
            setAdvertisedLimits(policy, in: &answer.properties)
            setTerms(of: connect, session, in: &answer.properties)
            answer.properties.authenticationMethod = connect.packet.properties.authenticationMethod
            answer.properties.authenticationData = login.authenticationData
        }
        return shard.sending.sendConnack(answer, to: connection)
    }

    /// Limits appear only where they differ from the standard's defaults. [MQTT-3.2.2-9 v5]
    private func setAdvertisedLimits(_ policy: ListenerPolicy, in properties: inout Properties) {
        if policy.topicAliasMaximum > 0 { properties.topicAliasMaximum = policy.topicAliasMaximum }
        if shard.settings.packetBytesMax < BrokerSettings.packetBytesLargest {
            properties.maximumPacketSize = UInt32(clamping: shard.settings.packetBytesMax)
        }
        if shard.settings.inFlightMessagesMax > 0, shard.settings.inFlightMessagesMax < 65_535 {
            properties.receiveMaximum = UInt16(shard.settings.inFlightMessagesMax)
        }
        if policy.maximumQoS != .exactlyOnce { properties.maximumQoS = policy.maximumQoS }
        if !shard.settings.retainAvailable { properties.retainAvailable = false }
        if !shard.settings.wildcardSubscriptionAvailable { properties.wildcardSubscriptionAvailable = false }
        if !shard.settings.subscriptionIdentifiersAvailable { properties.subscriptionIdentifierAvailable = false }
        if !shard.settings.sharedSubscriptionAvailable { properties.sharedSubscriptionAvailable = false }
    }

    /// What the client gets instead of what it asked for, and what it asked to be told.
    private func setTerms(of connect: PendingConnect, _ session: Session, in properties: inout Properties) {
        if connect.hasAssignedIdentifier { properties.assignedClientIdentifier = session.clientIdentifier }
        let keepAlive = keepAliveSeconds(of: connect)
        if keepAlive != connect.packet.keepAliveSeconds { properties.serverKeepAlive = keepAlive }
        let asked = connect.packet.properties.sessionExpiryInterval ?? 0
        if session.expiryIntervalSeconds != asked { properties.sessionExpiryInterval = session.expiryIntervalSeconds }
        if connect.packet.properties.requestResponseInformation == true, let prefix = shard.settings.responseInformationPrefix {
            // [MQTT-3.1.2-28 v5]
            properties.responseInformation = EncodedString(prefix.bytes + session.clientIdentifier.bytes)
        }
        if let identifier = shard.settings.brokerIdentifier, !connect.packet.properties.userProperties.isEmpty {
            properties.userProperties = [UserProperty(name: UserProperty.brokerName, value: identifier)]
        }
    }

    /// CONNECT is answered; what only that needed may go.
    private func forgetConnect(of connection: Connection) {
        guard let extras = connection.extras else { return }
        extras.pendingConnect = nil
        if extras.isIdle { connection.extras = nil }
    }

    /// Nothing that CONNACK says of the session may be undone by a crash: that it is there, or that an earlier one is
    /// not. Without room for that, who has messages waiting is let in all the same: taking them is what makes room.
    private func makeDurable(
        _ session: Session, _ existing: ExistingSession, isPresent: Bool, isClaimed: Bool, _ connection: Connection
    ) {
        shard.sessionRows.keep(session)
        let makesRoom = isPresent && existing.hadRow && !session.queue.isEmpty && shard.journal?.health == .full
        if makesRoom { return }
        if isClaimed, shard.saves.holdsUntilSaved(connection, session, isNew: !isPresent) { return }
        if session.storage.isStored || existing.hadRow { shard.storing.holdOutput(of: connection) }
    }

    // MARK: Reporting

    private func reportBound(_ connection: Connection, _ session: Session, _ connect: PendingConnect) {
        // A bridge tells itself when it is connected.
        if !connection.client.isLocal {
            shard.logConnection(.notice, of: connection) { shard.connecting.greeting(connection, session, connect) }
        }
        logWill(of: session)
        shard.statistics.connectionsAccepted += 1
        shard.statistics.clientsConnected += 1
        if connection.client.isLocal { shard.statistics.localClientsConnected += 1 }
    }

    private func logWill(of session: Session) {
        guard let will = session.will else {
            shard.log(.debug) { "No will message specified." }
            return
        }
        shard.log(.debug) {
            "Will message specified (\(will.payload.count) bytes) (r\(will.retain ? 1 : 0), q\(will.qos.rawValue))."
        }
        shard.log(.debug) { "\t\(will.topic)" }
    }

    private func greeting(_ connection: Connection, _ session: Session, _ connect: PendingConnect) -> String {
        let (address, user) = (connection.info.address, connection.client.userName)
        let names = LineWriter.room(for: session.clientIdentifier) + LineWriter.room(for: user)
        return .line(room: 128 + address.utf8.count + names) { line in
            line.write("New client connected from ")
            line.write(address)
            line.write(":")
            line.write(connection.info.port)
            line.write(" as ")
            line.write(session.clientIdentifier)
            line.write(" (p")
            line.write(digit: connection.version.rawValue)
            line.write(", c")
            line.write(digit: connection.client.isCleanStart ? 1 : 0)
            line.write(", k")
            line.write(connect.packet.keepAliveSeconds)
            if let user {
                line.write(", u'")
                line.write(user)
                line.write("'")
            }
            line.write(").")
        }
    }
}
