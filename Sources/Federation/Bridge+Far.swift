import MQTTCodec

/// The other broker's side.
extension Bridge {
    // MARK: The connection

    /// The shell has a connection to the address that was to be dialled.
    public func connected(now: UInt64) {
        self.now = now
        guard case .connecting = state else { return }
        hasAnnounced = settings.announcesBridge && mayAnnounce && settings.version != .v5
        state = .opening(since: now)
        var packet = ConnectPacket(
            version: settings.version, cleanStart: settings.startsClean, keepAliveSeconds: settings.keepAliveSeconds,
            clientIdentifier: settings.remote.clientIdentifier, userName: settings.remote.userName,
            password: settings.remote.password, isBridge: hasAnnounced)
        if settings.notifies, !settings.notifiesLocallyOnly, let topic = settings.stateTopic {
            packet.will = Will(topic: topic, payload: Array("0".utf8), qos: .atLeastOnce, retain: true)
        }
        if settings.version == .v5 {
            if settings.sessionExpiryInterval > 0 { packet.properties.sessionExpiryInterval = settings.sessionExpiryInterval }
            packet.properties.receiveMaximum = max(1, settings.receiveMaximum)
            if settings.topicAliasMaximum > 0 { packet.properties.topicAliasMaximum = settings.topicAliasMaximum }
        }
        send(.connect(packet))
    }

    /// There is no connection; why, in words.
    public func dialFailed(_ reason: String, now: UInt64) {
        self.now = now
        guard case .connecting = state else { return }
        fail(reason)
    }

    /// The connection has ended, and not by our wish; why, in words.
    public func farEnded(_ reason: String, now: UInt64) {
        self.now = now
        switch state {
        case .stopped, .creating, .collecting, .waiting, .connecting: return
        case .opening:
            // Some brokers do not even answer what they do not know.
            if hasAnnounced { mayAnnounce = false } else if settings.announcesBridge { mayAnnounce = true }
            fail("\(reason), without an answer to CONNECT")
        case .joining, .running: fail(reason)
        }
    }

    /// Whether the first address, which was probed, can be connected to.
    public func probed(_ isThere: Bool, now: UInt64) {
        self.now = now
        guard isThere, probeAt != nil, case .running = state else { return }
        schedule.goHome()
        log(.connection, "Bridge \(settings.name): the first address answers again.")
        farOutput.append(contentsOf: ControlPacket.disconnect(DisconnectPacket()).encoded(version: settings.version))
        if settings.notifies { tell("0") }
        leave()
        report.connectedSince = nil
        enter(.waiting(until: now), report: .waiting)
    }

    /// How many bytes wait for the connection, of all that was taken from `farOutput`.
    public func farWaits(_ byteCount: Int) {
        farPending = byteCount
        openRoom()
    }

    /// Whether nothing is to be read from the other broker just now.
    public var isFarPaused: Bool {
        if farPending > Limits.farOutputBytesMax { return true }
        return local != .ready && far.count > Limits.underwayBytesMax
    }

    // MARK: Packets

    /// Bytes from the other broker.
    public func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        self.now = now
        lastReceivedAt = now
        report.bytesIn += UInt64(bytes.count)
        far.append(bytes)
        drainFar()
    }

    /// Works off what has come, as far as this broker is ready for it.
    func drainFar() {
        // Beyond what this broker takes, names of either side apart.
        let sizeMax = nearPacketBytesMax < 200_000_000 ? nearPacketBytesMax + 131_072 : Int.max
        let isLegible = far.drain(sizeMax: sizeMax) { firstByte, body, _ in
            switch state {
            case .opening, .joining, .running: break
            case .stopped, .creating, .collecting, .waiting, .connecting: return false
            }
            return receive(firstByte, body)
        }
        if !isLegible { fail("the other broker sends what is no packet of MQTT, or one that is larger than this broker takes") }
    }

    /// Returns false to get the packet again when this broker is ready.
    private func receive(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) -> Bool {
        do throws(WireError) {
            switch PacketType(rawValue: firstByte >> 4) {
            case .publish:
                guard local == .ready else { return false }
                let view = try PublishView.decode(firstByte: firstByte, body: body, version: settings.version, from: .server)
                try takeIn(view)
            case .puback, .pubrec, .pubrel, .pubcomp:
                guard let type = PacketType(rawValue: firstByte >> 4) else { return true }
                let view = try AcknowledgementView.decode(
                    type: type, firstByte: firstByte, body: body, version: settings.version, from: .server)
                guard noticeIdentifier == nil || type != .puback || view.packetIdentifier != noticeIdentifier else {
                    noticeIdentifier = nil
                    return true
                }
                guard local == .ready else { return false }
                receive(type, view)
            default:
                receive(
                    try ControlPacket.decode(firstByte: firstByte, body: body, version: settings.version, from: .server))
            }
        } catch {
            fail("the other broker sends what is no packet of MQTT: \(error.explanation)")
        }
        return true
    }

    private func receive(_ packet: ControlPacket) {
        switch packet {
        case .connack(let answer): receive(answer)
        case .suback(let answer):
            guard let filter = unanswered.removeValue(forKey: answer.packetIdentifier) else { return }
            for code in answer.reasonCodes where code.isError {
                log(
                    .warning,
                    "Warning: Bridge \(settings.name): the other broker refuses the subscription to \(filter): \(code). Nothing of it comes in."
                )
            }
            settleJoin()
        case .unsuback(let answer):
            unanswered[answer.packetIdentifier] = nil
            settleJoin()
        case .pingresp: pingSentAt = nil
        case .disconnect(let farewell): fail("the other broker ends the connection: \(farewell.reasonCode)")
        case .auth: fail("the other broker asks for an authentication that bridges do not have")
        case .connect, .publish, .acknowledgement, .subscribe, .unsubscribe, .pingreq: return
        }
    }

    private func receive(_ answer: ConnackPacket) {
        guard case .opening = state else { return fail("the other broker sends a second CONNACK") }
        guard answer.isAccepted else {
            if hasAnnounced, answer.returnCode == .unacceptableProtocolVersion {
                mayAnnounce = false
                log(.connection, "Bridge \(settings.name): the other broker does not know bridges; trying without try_private.")
                leave()
                return enter(.waiting(until: now), report: .connecting)
            }
            let words = settings.version == .v5 ? "\(answer.reasonCode)" : answer.returnCode.words
            return fail("Connection Refused: \(words)")
        }
        let properties = answer.properties
        farSessionPresent = answer.sessionPresent || (settings.version == .v31 && !settings.startsClean)
        farPacketBytesMax = min(settings.packetBytesMax ?? .max, properties.maximumPacketSize.map(Int.init) ?? .max)
        farQoSMax = properties.maximumQoS ?? .exactlyOnce
        farTakesRetain = properties.retainAvailable ?? true
        keepAliveMilliseconds = UInt64(properties.serverKeepAlive ?? settings.keepAliveSeconds) * 1000
        state = .joining(since: now)
        let window = min(properties.receiveMaximum ?? .max, max(1, settings.receiveMaximum))
        subscribeThere()
        detach()
        attach(cleanStart: endsLocallyWithConnection, receiveMaximum: window)
    }

    private func subscribeThere() {
        var identifier = UInt16.max
        for (filter, qos) in settings.remoteFilters {
            let isV5 = settings.version == .v5
            let options = SubscriptionOptions(maximumQoS: qos, noLocal: isV5 && !filter.isShared, retainAsPublished: isV5)
            unanswered[identifier] = "\(TextOf(filter))"
            send(
                .subscribe(
                    SubscribePacket(packetIdentifier: identifier, subscriptions: [Subscription(filter: filter, options: options)])))
            identifier -= 1
        }
        let unwanted = (settings.attemptsUnsubscribe ? settings.outgoingRemoteFilters : []) + retired
        for filter in unwanted where farSessionPresent {
            unanswered[identifier] = "\(TextOf(filter))"
            send(.unsubscribe(UnsubscribePacket(packetIdentifier: identifier, filters: [filter])))
            identifier -= 1
        }
        if farSessionPresent { retired = [] }
        if settings.notifies, !settings.notifiesLocallyOnly {
            noticeIdentifier = identifier
            sendNotice("1", qos: .atLeastOnce)
        }
    }

    /// Tells the other broker whether we are there.
    func sendNotice(_ text: String, qos: QoS) {
        guard let topic = settings.stateTopic else { return }
        let sent = min(qos, farQoSMax)
        if sent == .atMostOnce { noticeIdentifier = nil }
        send(
            .publish(
                PublishPacket(
                    topic: topic.text, packetIdentifier: sent == .atMostOnce ? nil : noticeIdentifier, qos: sent,
                    retain: farTakesRetain, payload: Array(text.utf8))))
    }

    /// An answer to what this broker has sent, or the release of what it has taken.
    private func receive(_ type: PacketType, _ view: AcknowledgementView) {
        var type = type
        let reason = view.reasonCode
        if reason.isError, type == .puback || type == .pubrec { report.droppedOut += 1 }
        if lowered.contains(view.packetIdentifier), type == .puback {
            type = .pubrec
            if reason.isError { lowered.remove(view.packetIdentifier) }
        }
        answer(type, view.packetIdentifier, reason)
    }

    /// Tells this broker.
    func answer(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success) {
        ControlPacket.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason))
            .encode(version: .v5, into: &localOutput)
    }

    /// Tells the other broker.
    func acknowledge(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success) {
        // PUBREC of MQTT 3 cannot refuse: the message is taken, and thrown away.
        send(
            .acknowledgement(
                AcknowledgementPacket(
                    type: type, packetIdentifier: identifier, reasonCode: settings.version == .v5 ? reason : .success)))
    }

    // MARK: Messages

    /// A message for this broker.
    private func takeIn(_ view: PublishView) throws(WireError) {
        if view.topicAlias != 0 {
            guard view.topicAlias <= settings.topicAliasMaximum else { throw .topicAliasZero }
            if view.topic.isEmpty {
                guard let known = aliases[view.topicAlias] else { throw .emptyTopic }
                return known.withUnsafeBytes { takeIn(view, topic: $0) }
            }
            aliases[view.topicAlias] = Array(view.topic)
        }
        takeIn(view, topic: view.topic)
    }

    private func takeIn(_ view: PublishView, topic: UnsafeRawBufferPointer) {
        lastMessageAt = now
        guard let renaming = map.in(topic) else { return refuse(view, .success) }
        if needsEchoFilter, !view.duplicate, echoes.isEcho(topic, view.payload, now: now) {
            report.echoes += 1
            return refuse(view, .success, counts: false)
        }
        let written = write(
            view, topic: topic, renaming, version: .v5, qos: view.qos, retain: view.retain && nearTakesRetain,
            duplicate: view.duplicate && view.qos != .atMostOnce, bytesMax: nearPacketBytesMax, into: &localOutput)
        guard written > 0 else { return refuse(view, .implementationSpecificError) }
        report.messagesIn += 1
    }

    /// A message is not taken; the other broker must not send it again.
    private func refuse(_ view: PublishView, _ reason: ReasonCode, counts: Bool = true) {
        if counts { report.droppedIn += 1 }
        switch view.qos {
        case .atMostOnce: return
        case .atLeastOnce: acknowledge(.puback, view.packetIdentifier, reason)
        // Its PUBREL goes to this broker, which answers that it knows of no such message.
        case .exactlyOnce: acknowledge(.pubrec, view.packetIdentifier, reason)
        }
    }

    /// Whether own messages may come back.
    var needsEchoFilter: Bool { settings.version != .v5 && !hasAnnounced && settings.mayEcho }

    func send(_ packet: ControlPacket) {
        packet.encode(version: settings.version, into: &farOutput)
        lastSentAt = now
    }

    /// Writes a message as it is called on the other side.
    ///
    /// - Returns: its bytes; 0 if nothing is written, because there would be more than `bytesMax`, or no such topic.
    func write(
        _ view: PublishView, topic: UnsafeRawBufferPointer, _ renaming: TopicMap.Renaming, version: ProtocolVersion, qos: QoS,
        retain: Bool, duplicate: Bool, bytesMax: Int, into output: inout [UInt8]
    ) -> Int {
        let topicLength = renaming.prefix.count + topic.count - renaming.strippedCount
        guard topicLength > 0, topicLength <= Int(UInt16.max) else { return 0 }
        let expiryLength = view.messageExpiryInterval == nil ? 0 : 5
        let propertiesLength = version == .v5 ? view.forwardedPropertiesLength + expiryLength : 0
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: topicLength, propertiesLength: propertiesLength,
            payloadLength: view.payload.count)
        guard size <= bytesMax, size <= Self.packetBytesLargest else { return 0 }
        let start = output.count
        let header = PublishHeader(version: version, qos: qos, retain: retain, duplicate: duplicate)
        output.append(contentsOf: repeatElement(0, count: size))
        output.withUnsafeMutableBytes { memory in
            guard let base = memory.baseAddress else { return }
            let packet = base + start
            func write(_ name: UnsafeRawBufferPointer) {
                let offsets = header.write(
                    to: packet, topic: name, packetIdentifier: view.packetIdentifier, propertiesLength: propertiesLength,
                    payloadLength: view.payload.count)
                var place = packet + offsets.propertiesOffset
                if version == .v5 {
                    if let interval = view.messageExpiryInterval {
                        place.storeBytes(of: 0x02, as: UInt8.self)
                        (place + 1).storeBytes(of: interval.bigEndian, as: UInt32.self)
                        place += 5
                    }
                    view.copyForwardedProperties(to: place)
                    place += view.forwardedPropertiesLength
                }
                if let payload = view.payload.baseAddress { place.copyMemory(from: payload, byteCount: view.payload.count) }
            }
            if renaming.strippedCount == 0, renaming.prefix.isEmpty {
                write(topic)
            } else {
                renaming.name(topic).withUnsafeBytes(write)
            }
        }
        return size
    }

    private static let packetBytesLargest = 268_435_460
}

/// A filter as text, for logs.
struct TextOf: CustomStringConvertible {
    private let filter: TopicFilter
    init(_ filter: TopicFilter) { self.filter = filter }
    var description: String { String(decoding: filter.bytes, as: UTF8.self) }
}

extension ConnectReturnCode {
    /// As mosquitto says it.
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
