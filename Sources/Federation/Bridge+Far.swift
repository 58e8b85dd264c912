import MQTTCodec

/// The other broker's side.
extension Bridge {
    // MARK: The connection

    /// The shell reports that it has a connection to the address that it was to dial.
    public func connected(now: UInt64) {
        self.now = now
        guard case .connecting = state else { return }
        announcement.isMade = settings.announcesBridge && announcement.mayBeMade && settings.version != .v5
        state = .opening(since: now)
        var packet = ConnectPacket(
            version: settings.version, cleanStart: settings.startsClean, keepAliveSeconds: settings.keepAliveSeconds,
            clientIdentifier: settings.remote.clientIdentifier, userName: settings.remote.userName,
            password: settings.remote.password, isBridge: announcement.isMade)
        if tellsThere, let topic = settings.stateTopic {
            packet.will = Will(topic: topic, payload: Array("0".utf8), qos: .atLeastOnce, retain: true)
        }
        if settings.version == .v5 {
            if settings.sessionExpiryInterval > 0 { packet.properties.sessionExpiryInterval = settings.sessionExpiryInterval }
            packet.properties.receiveMaximum = max(1, settings.receiveMaximum)
            if settings.topicAliasMaximum > 0 { packet.properties.topicAliasMaximum = settings.topicAliasMaximum }
            if let identifier = settings.brokerIdentifier {
                packet.properties.userProperties = [UserProperty(name: UserProperty.brokerName, value: identifier)]
            }
        }
        send(.connect(packet))
    }

    /// The shell reports that it could not connect; `reason` says why, in words.
    public func dialFailed(_ reason: String, now: UInt64) {
        self.now = now
        guard case .connecting = state else { return }
        fail(reason)
    }

    /// The shell reports that the connection to the other broker has ended against our wish; `reason` says why, in
    /// words.
    public func farEnded(_ reason: String, now: UInt64) {
        self.now = now
        switch state {
        case .stopped, .creating, .collecting, .waiting, .connecting: return
        case .opening:
            // Some brokers do not even answer what they do not know.
            if announcement.isMade {
                announcement.mayBeMade = false
            } else if settings.announcesBridge {
                announcement.mayBeMade = true
            }
            fail("\(reason), without an answer to CONNECT")
        case .joining, .running: fail(reason)
        }
    }

    /// The shell reports whether the first address, which it was to probe, can be connected to.
    public func probed(_ isThere: Bool, now: UInt64) {
        self.now = now
        guard isThere, schedule.probeAt != nil, case .running = state else { return }
        schedule.goHome()
        log(.connection, "Bridge \(settings.name): the first address answers again.")
        farOutput.append(contentsOf: ControlPacket.disconnect(DisconnectPacket()).encoded(version: settings.version))
        if settings.notifies { report("0") }
        leave()
        report.connectedSince = nil
        enter(.waiting(until: now), report: .waiting)
    }

    /// The shell reports how many bytes of `farOutput` it has taken and not written yet.
    public func farWaits(_ byteCount: Int) {
        if byteCount < far.pendingBytes { keepAlive.isAlive(now: now) }
        far.pendingBytes = byteCount
        openRoom()
    }

    /// Whether the shell must not read from the other broker just now, since more waits for it than
    /// `farOutputBytesMax`.
    public var isFarPaused: Bool {
        if far.pendingBytes > Limits.farOutputBytesMax { return true }
        return local.state != .ready && far.input.count > Limits.underwayBytesMax
    }

    // MARK: Packets

    /// Takes bytes from the other broker.
    public func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        self.now = now
        keepAlive.lastReceivedAt = now
        report.bytesIn += UInt64(bytes.count)
        keepAlive.isAlive(now: now)
        far.input.append(bytes)
        drainFar()
    }

    /// Handles the packets of the other broker that wait, as far as this broker is ready for them.
    func drainFar() {
        // Beyond what this broker takes, names of either side apart.
        let sizeMax = local.packetBytesMax < 200_000_000 ? local.packetBytesMax + 131_072 : Int.max
        let isLegible = far.input.drain(sizeMax: sizeMax, tooLarge: { refuse(tooLarge: $0, $1) }) { firstByte, body, _ in
            switch state {
            case .opening, .joining, .running: break
            case .stopped, .creating, .collecting, .waiting, .connecting: return false
            }
            return receive(firstByte, body)
        }
        if !isLegible { fail("the other broker sends something that is not MQTT") }
    }

    /// Refuses a message that is larger than this broker accepts, of which only the beginning is there. A connection
    /// that was ended for it would be ended again each time that the message is sent again.
    private func refuse(tooLarge firstByte: UInt8, _ body: UnsafeRawBufferPointer) {
        let topicLength = Int(body[0]) << 8 | Int(body[1])
        guard firstByte >> 4 == PacketType.publish.rawValue, let qos = QoS(rawValue: firstByte >> 1 & 3) else {
            return fail("the other broker sends something that is not MQTT")
        }
        warnOnce("the other broker sends a message that is larger than this broker takes. Such messages are not forwarded.")
        let place = 2 + topicLength
        refuse(qos, UInt16(body[place]) << 8 | UInt16(body[place + 1]), .implementationSpecificError)
    }

    /// Handles one packet of the other broker. Returns false to be given it again when this broker is ready.
    private func receive(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) -> Bool {
        do throws(WireError) {
            switch PacketType(rawValue: firstByte >> 4) {
            case .publish:
                guard local.state == .ready else { return false }
                let view = try PublishView.decode(firstByte: firstByte, body: body, version: settings.version, from: .server)
                try forward(view)
            case .puback, .pubrec, .pubrel, .pubcomp:
                guard let type = PacketType(rawValue: firstByte >> 4) else { return true }
                let view = try AcknowledgementView.decode(
                    type: type, firstByte: firstByte, body: body, version: settings.version, from: .server)
                guard far.noticeIdentifier == nil || type != .puback || view.packetIdentifier != far.noticeIdentifier else {
                    far.noticeIdentifier = nil
                    return true
                }
                guard local.state == .ready else { return false }
                receive(type, view)
            default:
                receive(
                    try ControlPacket.decode(firstByte: firstByte, body: body, version: settings.version, from: .server))
            }
        } catch {
            fail("the other broker sends something that is not MQTT: \(error.explanation)")
        }
        return true
    }

    private func receive(_ packet: ControlPacket) {
        switch packet {
        case .connack(let answer): receive(answer)
        case .suback(let answer):
            guard let filter = far.unanswered.removeValue(forKey: answer.packetIdentifier) else { return }
            for code in answer.reasonCodes where code.isError {
                warnOnce("the other broker refuses the subscription to \(filter): \(code). Nothing of it comes in.")
            }
            settleJoin()
        case .unsuback(let answer):
            far.unanswered[answer.packetIdentifier] = nil
            settleJoin()
        case .pingresp: keepAlive.pingSentAt = nil
        case .disconnect(let disconnect): fail("the other broker ends the connection: \(disconnect.reasonCode)")
        case .auth: fail("the other broker asks for an authentication that bridges do not have")
        case .connect, .publish, .acknowledgement, .subscribe, .unsubscribe, .pingreq: return
        }
    }

    private func receive(_ answer: ConnackPacket) {
        guard case .opening = state else { return fail("the other broker sends a second CONNACK") }
        guard answer.isAccepted else {
            if announcement.isMade, answer.returnCode == .unacceptableProtocolVersion {
                announcement.mayBeMade = false
                log(.connection, "Bridge \(settings.name): the other broker does not support try_private; trying without it.")
                leave()
                return enter(.waiting(until: now), report: .connecting)
            }
            let words = settings.version == .v5 ? "\(answer.reasonCode)" : answer.returnCode.words
            return fail("Connection Refused: \(words)")
        }
        let properties = answer.properties
        far.sessionPresent = answer.sessionPresent || (settings.version == .v31 && !settings.startsClean)
        far.packetBytesMax = min(settings.packetBytesMax ?? .max, properties.maximumPacketSize.map(Int.init) ?? .max)
        far.qosMax = properties.maximumQoS ?? .exactlyOnce
        far.takesRetain = properties.retainAvailable ?? true
        keepAlive.milliseconds = UInt64(properties.serverKeepAlive ?? settings.keepAliveSeconds) * 1000
        far.sentAliases = SentTopicAliases(maximum: min(properties.topicAliasMaximum ?? 0, settings.topicAliasMaximum))
        path.far = properties.userProperties.first { $0.name == UserProperty.brokerName }.map { Array($0.value.bytes.prefix(64)) }
        state = .joining(since: now)
        // Our own notice is one of those that may be under way. [MQTT-3.3.4-9 v5]
        var farWindow = properties.receiveMaximum ?? .max
        far.noticeQoS = tellsThere && farWindow > 1 ? .atLeastOnce : .atMostOnce
        if far.noticeQoS == .atLeastOnce { farWindow -= 1 }
        let window = min(farWindow, max(1, settings.receiveMaximum))
        subscribeThere()
        detach()
        attach(cleanStart: endsLocallyWithConnection, receiveMaximum: window)
    }

    private func subscribeThere() {
        var identifier = UInt16.max
        for (filter, qos) in settings.remoteFilters {
            let isV5 = settings.version == .v5
            let options = SubscriptionOptions(maximumQoS: qos, noLocal: isV5 && !filter.isShared, retainAsPublished: isV5)
            far.unanswered[identifier] = "\(TextOf(filter))"
            send(
                .subscribe(
                    SubscribePacket(packetIdentifier: identifier, subscriptions: [Subscription(filter: filter, options: options)])))
            identifier -= 1
        }
        let unwanted = (settings.attemptsUnsubscribe ? settings.outgoingRemoteFilters : []) + retired
        for filter in unwanted where far.sessionPresent {
            far.unanswered[identifier] = "\(TextOf(filter))"
            send(.unsubscribe(UnsubscribePacket(packetIdentifier: identifier, filters: [filter])))
            identifier -= 1
        }
        if tellsThere {
            far.noticeIdentifier = identifier
            sendNotice("1", qos: far.noticeQoS)
        }
    }

    /// Whether the other broker is told when we come and go.
    var tellsThere: Bool { settings.notifies && !settings.notifiesLocallyOnly }

    /// Tells the other broker whether we are there.
    func sendNotice(_ text: String, qos: QoS) {
        guard let topic = settings.stateTopic else { return }
        let sent = min(qos, far.qosMax)
        if sent == .atMostOnce { far.noticeIdentifier = nil }
        send(
            .publish(
                PublishPacket(
                    topic: topic.text, packetIdentifier: sent == .atMostOnce ? nil : far.noticeIdentifier, qos: sent,
                    retain: far.takesRetain, payload: Array(text.utf8))))
    }

    /// Handles an acknowledgement of the other broker: the answer to a message of this broker, or the release of one
    /// that this broker has taken.
    private func receive(_ type: PacketType, _ view: AcknowledgementView) {
        var type = type
        let reason = view.reasonCode
        if reason.isError, type == .puback || type == .pubrec, !isRefusedForGood(view.packetIdentifier, reason) { return }
        if far.lowered.contains(view.packetIdentifier), type == .puback {
            type = .pubrec
            if reason.isError { far.lowered.remove(view.packetIdentifier) }
        }
        answer(type, view.packetIdentifier, reason)
    }

    /// Whether the other broker's refusal of a message is final. A message that it may accept later is not answered
    /// here: the session keeps it, and sends it again on the next connection. All other codes say that the message
    /// itself is not wanted, and the standard has nobody send such a message again.
    private func isRefusedForGood(_ identifier: UInt16, _ reason: ReasonCode) -> Bool {
        switch reason {
        case .quotaExceeded:
            report.postponedOut += 1
            fail(Self.noRoomThere)
            return false
        case .packetIdentifierInUse:
            // It waits for the release of an earlier message of that identifier, which this broker knows nothing of.
            report.postponedOut += 1
            acknowledge(.pubrel, identifier)
            fail("the other broker has a message of that packet identifier, which is released now")
            return false
        default:
            report.droppedOut += 1
            warnOnce("the other broker refuses messages: \(reason). They are not forwarded.")
            return true
        }
    }

    /// Sends an acknowledgement to this broker.
    func answer(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success) {
        AcknowledgementView(packetIdentifier: identifier, reasonCode: reason).encode(type, version: .v5, into: &localOutput)
    }

    /// Sends an acknowledgement to the other broker.
    func acknowledge(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success) {
        // PUBREC of MQTT 3 cannot refuse: the message is taken, and thrown away.
        AcknowledgementView(packetIdentifier: identifier, reasonCode: reason)
            .encode(type, version: settings.version, into: &farOutput)
        keepAlive.lastSentAt = now
    }

    func send(_ packet: ControlPacket) {
        packet.encode(version: settings.version, into: &farOutput)
        keepAlive.lastSentAt = now
    }
}

/// The connection to the other broker: what has come of it, what its CONNACK allows, and what is not answered.
struct FarSide {
    let input = PacketBuffer()
    /// Bytes that the shell has and the connection has not taken.
    var pendingBytes = 0

    // What CONNACK has said.
    var sessionPresent = false
    var packetBytesMax = Int.max
    var qosMax = QoS.exactlyOnce
    var takesRetain = true

    /// SUBSCRIBE and UNSUBSCRIBE that are not answered, by packet identifier, and what they ask for.
    var unanswered: [UInt16: String] = [:]
    /// The packet identifier of our own PUBLISH that says that we are there, until it is acknowledged.
    var noticeIdentifier: UInt16?
    /// The QoS of that, unless the other broker allows less.
    var noticeQoS = QoS.atLeastOnce
    /// Topics by the alias that the other broker has set.
    var aliases: [UInt16: [UInt8]] = [:]
    var sentAliases = SentTopicAliases(maximum: 0)
    /// Messages that go out at a lower QoS than this broker sends them: PUBREL is answered here.
    var lowered: Set<UInt16> = []

    /// Forgets what belongs to a connection that is gone. What CONNACK said stays until the next says it.
    mutating func clear() {
        input.removeAll()
        pendingBytes = 0
        (aliases, lowered, unanswered, noticeIdentifier) = ([:], [], [:], nil)
    }
}

/// A filter as text, for logs.
struct TextOf: CustomStringConvertible {
    private let filter: TopicFilter
    init(_ filter: TopicFilter) { self.filter = filter }
    var description: String { String(decoding: filter.bytes, as: UTF8.self) }
}

extension ConnectReturnCode {
    /// The error in mosquitto's words.
    var words: String {
        switch self {
        case .accepted: "accepted"
        case .unacceptableProtocolVersion: "unacceptable protocol version"
        case .identifierRejected: "identifier rejected"
        case .serverUnavailable: "broker unavailable"
        case .badUserNameOrPassword: "bad user name or password"
        case .notAuthorized: "not authorised"
        }
    }
}

extension Limits {
    /// Bytes that may wait for the other broker. Beyond them nothing is read from it, so that a broker that does not
    /// read costs no more memory.
    static let farOutputBytesMax = 4 << 20
}
