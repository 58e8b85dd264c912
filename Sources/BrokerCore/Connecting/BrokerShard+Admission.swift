import BrokerModel
import MQTTCodec

/// Letting a client in: its session, its limits, and CONNACK.
extension BrokerShard {
    /// Lets the client in: ends its earlier connection, finds or makes its session, and answers.
    ///
    /// - Parameter epoch: by which claim this node keeps the client's session, where sessions are the cluster's; nil before that has said so.
    func admit(
        _ connection: Connection, _ packet: ConnectPacket, userName: EncodedString?, authenticationData: [UInt8]?,
        claimedBy epoch: UInt64? = nil
    ) {
        guard !awaitsCluster(connection, login: VerifiedLogin(userName: userName, authenticationData: authenticationData)) else {
            return
        }
        // The login may have told who the user is, and the list may be another one meanwhile.
        guard !turnsAway(connection, packet, userName: userName) else { return }
        // Whatever becomes of it, CONNACK tells of it.
        let hadRow = sessions.find(packet.clientIdentifier)?.isStored ?? false
        let known = livingSession(packet.clientIdentifier, isClaimed: epoch != nil)
        if known == nil, isMemoryFull {
            refuseConnect(connection, .quotaExceeded, "memory is short.")
            return
        }
        let policy = settings.policy(of: connection.info.listener)
        let isForeign = known.map { !belongs($0, to: userName, mountPoint: policy.mountPoint) } ?? false
        if isForeign, settings.foreignSession == .refusesNewcomer {
            // 0x85 and not 0x87: the user may come in, by another identifier. [MQTT-3.1.3-8 v5] [MQTT-3.1.3-9 v3.1.1]
            refuseConnect(connection, .clientIdentifierNotValid, "the Client Identifier is another user's.")
            return
        }
        if let owner = known?.listener, settings.policy(of: owner).isOwn, !connection.isLocal {
            refuseConnect(connection, .clientIdentifierNotValid, "the Client Identifier is the broker's own.")
            return
        }
        let beginsAnew = packet.cleanStart || isForeign
        if let refusal = storeObjection(to: packet, known, beginsAnew: beginsAnew) {
            refuseConnect(connection, refusal.reason, refusal.explanation)
            return
        }
        if epoch == nil, let moves = cluster?.moves,
            claims(connection, packet, userName, authenticationData, known, beginsAnew: beginsAnew, moves)
        {
            return
        }
        guard known != nil || sessionCount.enter(max: settings.sessionsMax) else {
            refuseConnect(connection, .serverBusy, "the broker has no room for more clients.")
            return
        }
        let isPresent = known != nil && !beginsAnew
        if let known { takeOver(known, for: connection, of: userName, beginsAnew: beginsAnew, isForeign: isForeign) }
        // A session that ended with its earlier connection is gone by now. [MQTT-3.1.2-4 v5] [MQTT-3.1.2-6 v3.1.1]
        let resumed = isPresent ? sessions.find(packet.clientIdentifier) : nil
        let session =
            resumed
            ?? sessions.make(
                packet.clientIdentifier, publisherKey: publisherKey(of: packet.clientIdentifier))
        if resumed == nil { session.createdAt = now }
        if let epoch {
            (session.isClaimed, session.epoch) = (true, epoch)
            if resumed == nil { session.stepFloor = FlowStep.Place(epoch: epoch, number: 0) }
        }
        if !settings.ownQueueBounds.isEmpty { updateOwnBound(of: session) }
        if !settings.topicParts.isEmpty { updateTopicPart(of: session) }
        bind(connection, to: session, packet, userName: userName)
        if epoch != nil, let moves = cluster?.moves { nameWill(of: session, moves) }
        recount(session)
        // A bridge tells itself when it is connected.
        if !connection.isLocal { logConnection(.notice, of: connection) { self.greeting(connection, packet) } }
        logWill(of: session)
        statistics.connectionsAccepted += 1
        statistics.clientsConnected += 1
        if connection.isLocal { statistics.localClientsConnected += 1 }
        guard answer(connection, packet, session, isPresent: resumed != nil, authenticationData) else {
            logRefusal(of: connection, .packetTooLarge, because: "CONNACK is larger than the client's Maximum Packet Size.")
            detach(connection, will: .discarded)
            close(connection)
            return
        }
        reportArrival(of: connection, packet, sessionPresent: resumed != nil)
        keep(session)
        // Nothing that CONNACK says of the session may be undone by a crash: that it is there, or that an earlier one is not.
        // Without room for that, who has messages waiting is let in all the same: taking them is what makes room.
        let makesRoom = resumed != nil && hadRow && !session.outbox.isEmpty && journal?.health == .full
        let isSaving = epoch != nil && !makesRoom && holdsUntilSaved(connection, session, isNew: resumed == nil)
        if session.isStored || hadRow, !makesRoom, !isSaving { holdOutput(of: connection) }
        setPresence(of: session, isConnected: true)
        pump(session, on: connection)
        resumeOwed(session)
        resumeInbound(connection)
        recount(connection)
    }

    /// The client's session, unless its time is over. Timers fire by their tick, and the first one after a start may be too late
    /// for what has become due before it. [MQTT-3.1.2-23 v5]
    private func livingSession(_ identifier: EncodedString, isClaimed: Bool) -> Session? {
        guard let known = sessions.find(identifier), known.connection == nil, !known.isMoving, !known.isTakenUp,
            min(known.endsAt, known.willDueAt) <= now, isClaimed || !mustBeAdopted(known)
        else {
            return sessions.find(identifier)
        }
        wheel.disarm(known.timer)
        // Another one takes its place at once.
        if isClaimed { known.isClaimed = false }
        sessionTimerFired(known, isOurs: true)
        if isClaimed { sessions.find(identifier)?.isClaimed = true }
        return sessions.find(identifier)
    }

    /// Ends what the session had before: its connection and its waiting will, and the session itself when the client begins anew:
    /// it asks for that, or is another user. [MQTT-3.1.4-3 v5]
    private func takeOver(
        _ session: Session, for newcomer: Connection, of userName: EncodedString?, beginsAnew: Bool, isForeign: Bool
    ) {
        // The new session counts in its place: between the two no other client comes in.
        session.leavesPlace = false
        defer { session.leavesPlace = true }
        if let old = session.connection?.object {
            logConnection(.error) { "Client \(session.clientIdentifier) \(old.logPlace) disconnected: session taken over." }
            sendDisconnect(.sessionTakenOver, to: old, explanation: "another connection uses this Client Identifier.")
            // A will without delay is due as the old connection closes; one with delay only if the session ends. [MQTT-3.1.3-9 v5]
            let delay = session.will?.properties.willDelayInterval ?? 0
            if beginsAnew { session.expiryIntervalSeconds = 0 }
            let sessionEnds = session.expiryIntervalSeconds == 0
            let fate: WillFate = delay == 0 || sessionEnds ? .due : .kept
            reportDeparture(
                of: old, .sessionTakenOver, "another connection uses this Client Identifier", will: fate,
                isOwnReturn: settings.flapping != nil && isOneParty(old, newcomer, userName))
            detach(old, will: fate)
            close(old)
        } else if beginsAnew {
            // Its client is back before the delay is over, whatever it begins; of another user it says nothing. [MQTT-3.1.2-8 v5]
            if !isForeign { forgetWill(of: session) }
            endSession(session, publishesWill: isForeign)
        }
        forgetWill(of: session)
        session.willDueAt = .max
    }

    private func bind(_ connection: Connection, to session: Session, _ packet: ConnectPacket, userName: EncodedString?) {
        connection.session = session
        connection.state = .connected
        connection.advertisedLimits =
            connection.isLocal ? AdvertisedLimits(settings, settings.own) : advertisedLimits[connection.info.listener]
        connection.userName = userName
        connection.isCleanStart = packet.cleanStart
        connection.connectedAt = now
        session.connection = Reference(connection)
        session.version = packet.version
        session.endsAt = .max
        session.willDueAt = .max
        (session.will, session.willName) = (packet.will, nil)
        // Of the broker's own clients, whose sessions keep what waits for others, none ends before its time.
        session.expiryIntervalSeconds =
            connection.isLocal ? packet.properties.sessionExpiryInterval ?? 0 : expiryInterval(asked: packet)
        if session.expiryIntervalSeconds > 0 { session.readsLog = true }
        session.inFlightMax = inFlightMax(asked: packet.properties.receiveMaximum)
        grantAccess(session, connection)
        wheel.disarm(session.timer)
        session.timer = TimerWheel.none
        armKeepAlive(connection, seconds: keepAliveSeconds(asked: packet))
        let policy = settings.policy(of: connection.info.listener)
        connection.frameKind = packet.version == .v5 ? .shared5 : .shared3
        let aliases = min(packet.properties.topicAliasMaximum ?? 0, policy.sentTopicAliasMaximum)
        if aliases > 0 {
            connection.makeExtras().sentAliases = SentAliases(maximum: aliases)
            connection.frameKind = .own
        }
        let takesAnySize = connection.maximumPacketSize == BrokerSettings.packetBytesLargest
        if !takesAnySize || !policy.mountPoint.isEmpty { connection.frameKind = .own }
        connection.holdsPromises = policy.holdsAcknowledgements
        applyLimits(to: connection, policy)
        if let session = connection.session, let will = session.will, let words = objection(to: will, of: session) {
            will.topic.bytes.withUnsafeBytes { logDenied(publish: $0, of: session, connection, because: words) }
            session.will = nil
        }
    }

    /// What only few brokers ask for: rates, and topics that look different from inside.
    private func applyLimits(to connection: Connection, _ policy: ListenerPolicy) {
        if settings.messagesPerSecondMax > 0 {
            connection.makeExtras().messageRate = RateGauge(perSecond: settings.messagesPerSecondMax, now: now)
        }
        if settings.bytesPerSecondMax > 0 {
            connection.makeExtras().byteRate = RateGauge(perSecond: settings.bytesPerSecondMax, now: now)
        }
        guard !policy.mountPoint.isEmpty else { return }
        connection.makeExtras().mountPoint = policy.mountPoint
        guard let will = connection.session?.will else { return }
        if let topic = will.topic.mounted(policy.mountPoint) {
            connection.session?.will?.topic = topic
        } else {
            // CONNECT was refused for it, unless the rules have changed while the login was awaited: it goes nowhere else.
            connection.session?.will = nil
        }
    }

    func expiryInterval(asked packet: ConnectPacket) -> UInt32 {
        if packet.version == .v5 { return min(packet.properties.sessionExpiryInterval ?? 0, settings.sessionExpirySecondsMax) }
        return packet.cleanStart ? 0 : settings.sessionExpirySecondsMax
    }

    private func inFlightMax(asked receiveMaximum: UInt16?) -> Int {
        let own = settings.inFlightMessagesMax == 0 ? 65_535 : settings.inFlightMessagesMax
        return min(own, Int(receiveMaximum ?? 65_535), 65_535)
    }

    private func keepAliveSeconds(asked packet: ConnectPacket) -> UInt16 {
        let longest = settings.keepAliveSecondsMax
        guard longest > 0, packet.version == .v5 || settings.boundsEarlierKeepAlives else { return packet.keepAliveSeconds }
        return packet.keepAliveSeconds == 0 ? longest : min(packet.keepAliveSeconds, longest)
    }

    /// CONNACK with what the client must know of the broker's limits. [MQTT-3.2.2-3 v5]
    ///
    /// - Returns: false if it is too large for the client, which then knows nothing.
    private func answer(
        _ connection: Connection, _ packet: ConnectPacket, _ session: Session, isPresent: Bool, _ authenticationData: [UInt8]?
    ) -> Bool {
        var answer = ConnackPacket(reasonCode: .success)
        // 3.1 has no Session Present flag.
        answer.sessionPresent = isPresent && packet.version != .v31
        if packet.version == .v5 {
            answer.properties = advertisedLimits(of: settings.policy(of: connection.info.listener))
            if connection.extras?.hasAssignedIdentifier == true {
                answer.properties.assignedClientIdentifier = session.clientIdentifier
            }
            let keepAlive = keepAliveSeconds(asked: packet)
            if keepAlive != packet.keepAliveSeconds { answer.properties.serverKeepAlive = keepAlive }
            let asked = packet.properties.sessionExpiryInterval ?? 0
            if session.expiryIntervalSeconds != asked { answer.properties.sessionExpiryInterval = session.expiryIntervalSeconds }
            if packet.properties.requestResponseInformation == true, let prefix = settings.responseInformationPrefix {
                // [MQTT-3.1.2-28 v5]
                answer.properties.responseInformation = EncodedString(prefix.bytes + session.clientIdentifier.bytes)
            }
            if let identifier = settings.brokerIdentifier, !packet.properties.userProperties.isEmpty {
                answer.properties.userProperties = [UserProperty(name: UserProperty.brokerName, value: identifier)]
            }
            answer.properties.authenticationMethod = packet.properties.authenticationMethod
            answer.properties.authenticationData = authenticationData
        }
        let isSent = sendConnack(answer, to: connection)
        releaseConnect(of: connection)
        return isSent
    }

    /// Limits appear only where they differ from the standard's defaults. [MQTT-3.2.2-9 v5]
    private func advertisedLimits(of policy: ListenerPolicy) -> Properties {
        var properties = Properties()
        if policy.topicAliasMaximum > 0 { properties.topicAliasMaximum = policy.topicAliasMaximum }
        if settings.packetBytesMax < BrokerSettings.packetBytesLargest {
            properties.maximumPacketSize = UInt32(clamping: settings.packetBytesMax)
        }
        if settings.inFlightMessagesMax > 0, settings.inFlightMessagesMax < 65_535 {
            properties.receiveMaximum = UInt16(settings.inFlightMessagesMax)
        }
        if policy.maximumQoS != .exactlyOnce { properties.maximumQoS = policy.maximumQoS }
        if !settings.retainAvailable { properties.retainAvailable = false }
        if !settings.wildcardSubscriptionAvailable { properties.wildcardSubscriptionAvailable = false }
        if !settings.subscriptionIdentifiersAvailable { properties.subscriptionIdentifierAvailable = false }
        if !settings.sharedSubscriptionAvailable { properties.sharedSubscriptionAvailable = false }
        return properties
    }

    /// CONNECT is answered; what only that needed may go.
    private func releaseConnect(of connection: Connection) {
        guard let extras = connection.extras else { return }
        extras.pendingConnect = nil
        if extras.isIdle { connection.extras = nil }
    }

    private func logWill(of session: Session) {
        guard let will = session.will else {
            log(.debug) { "No will message specified." }
            return
        }
        log(.debug) { "Will message specified (\(will.payload.count) bytes) (r\(will.retain ? 1 : 0), q\(will.qos.rawValue))." }
        log(.debug) { "\t\(will.topic)" }
    }

    private func greeting(_ connection: Connection, _ packet: ConnectPacket) -> String {
        let (address, user) = (connection.info.address, connection.userName)
        let names = LineWriter.room(for: packet.clientIdentifier) + LineWriter.room(for: user)
        return .line(room: 128 + address.utf8.count + names) { line in
            line.write("New client connected from ")
            line.write(address)
            line.write(":")
            line.write(connection.info.port)
            line.write(" as ")
            line.write(packet.clientIdentifier)
            line.write(" (p")
            line.write(digit: packet.version.rawValue)
            line.write(", c")
            line.write(digit: packet.cleanStart ? 1 : 0)
            line.write(", k")
            line.write(packet.keepAliveSeconds)
            if let user {
                line.write(", u'")
                line.write(user)
                line.write("'")
            }
            line.write(").")
        }
    }
}

/// Puts a line of the log together in one piece of memory: interpolation grows a string again and again, and every client that comes and
/// goes makes three lines.
///
///     String.line(room: 64) { $0.write("Client "); $0.write(identifier); $0.write(" closed its connection.") }
///
/// What has no room is left out.
struct LineWriter {
    private let buffer: UnsafeMutableBufferPointer<UInt8>
    fileprivate private(set) var count = 0

    fileprivate init(_ buffer: UnsafeMutableBufferPointer<UInt8>) { self.buffer = buffer }

    mutating func write(_ words: StaticString) {
        write(UnsafeRawBufferPointer(start: words.utf8Start, count: words.utf8CodeUnitCount))
    }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    /// What a peer called something, as `LoggedText` shows it.
    mutating func write(_ text: EncodedString) {
        guard text.count <= Self.plainBytes else { return write(LoggedText(text.bytes).description) }
        text.bytes.withUnsafeBytes { write($0) }
    }

    mutating func write(_ number: UInt16) {
        var divisor: UInt16 = 10_000
        while divisor > 1, number < divisor { divisor /= 10 }
        while divisor > 0 {
            write(digit: UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    /// - Parameter digit: below 10.
    mutating func write(digit: UInt8) {
        guard count < buffer.count else { return }
        buffer[count] = UInt8(ascii: "0") &+ digit
        count += 1
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let start = buffer.baseAddress, bytes.count <= buffer.count - count else { return }
        UnsafeMutableRawPointer(start + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    /// What `write` of the text takes at most, with the dots behind one that is cut.
    static func room(for text: EncodedString?) -> Int { text.map { min($0.count + 3, longestBytes) } ?? 0 }

    /// A text of no more bytes is certainly shown as it is.
    private static let plainBytes = 128
    /// More than `LoggedText` ever shows.
    private static let longestBytes = 512
}

extension String {
    /// - Parameters:
    ///   - room: the bytes of the line at most.
    ///   - write: writes it.
    static func line(room: Int, _ write: (inout LineWriter) -> Void) -> String {
        String(unsafeUninitializedCapacity: room) { buffer in
            var writer = LineWriter(buffer)
            write(&writer)
            return writer.count
        }
    }
}
