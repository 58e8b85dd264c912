public import MQTTCodec

/// The beginning and the end of a connection.
extension ClientSession {
    /// The transport to the server stands: sends CONNECT.
    public mutating func transportOpened(now: UInt64) {
        precondition(state == .offline, "a client has one connection at a time")
        beginCounting(now: now)
        state = .connecting
        requestDeadline = nil
        carried = []
        output.discard()
        sentAliases = SentTopicAliases()
        receivedTopics.connectionOpened()
        incoming.connectionOpened()
        outgoing.connectionOpened()
        send(.connect(connectPacket), now: now)  // [MQTT-3.1.0-1 v5]
        answerDeadline = now + options.connectTimeoutMilliseconds
    }

    /// The transport is gone. What the server has not acknowledged is kept for the next one.
    public mutating func transportClosed() {
        state = .offline
        answerDeadline = nil
        output.discard()
        carried = []
        trim()
    }

    /// Says goodbye; the transport is to be closed when the output is sent.
    public mutating func disconnect(
        _ reason: ReasonCode = .normalDisconnection, properties: Properties = Properties(), now: UInt64
    ) {
        guard state == .online || state == .connecting else { return }
        if state == .online { sendDisconnect(reason, properties, now: now) }
        state = .ending  // [MQTT-3.14.4-1 v5]
        answerDeadline = nil
    }

    /// What the server would not take is left out: reasons that the standard does not know, texts that make the packet too large, a Session
    /// Expiry Interval where CONNECT had none. [MQTT-3.14.2-1 v5] [MQTT-3.14.2-3 v5] [MQTT-3.14.2-4 v5]
    private mutating func sendDisconnect(_ reason: ReasonCode, _ properties: Properties, now: UInt64) {
        var packet = DisconnectPacket(reasonCode: reason, properties: properties)
        if !reason.isAllowed(in: .disconnect, from: .client) {
            packet.reasonCode = reason.isError ? .unspecifiedError : .normalDisconnection
        }
        if options.sessionExpiryInterval ?? 0 == 0 { packet.properties.sessionExpiryInterval = nil }
        if !fits(.disconnect(packet)) { (packet.properties.reasonString, packet.properties.userProperties) = (nil, []) }
        send(.disconnect(packet), now: now)
    }

    /// Takes the next step of an extended authentication, whose method CONNECT has named; with Re-authenticate, once online, begins it again.
    ///
    /// The method is put into the packet. [MQTT-4.12.0-5 v5] Texts that make it too large are left out. [MQTT-3.15.2-2 v5] Throws `packetTooLarge` if
    /// the server does not take it then either. [MQTT-3.2.2-15 v5]
    public mutating func authenticate(_ packet: AuthPacket, now: UInt64) throws(RequestRefusal) {
        guard options.version == .v5, state == .connecting || state == .online else { throw .notConnected }
        // [MQTT-4.12.0-7 v5]
        guard let method = options.connectProperties.authenticationMethod else { throw .notAllowed(.protocolError) }
        // [MQTT-4.12.0-3 v5] [MQTT-4.12.1-1 v5]
        guard packet.reasonCode == .continueAuthentication || (packet.reasonCode == .reauthenticate && state == .online) else {
            throw .notAllowed(.protocolError)
        }
        var packet = packet
        packet.properties.authenticationMethod = method
        if !fits(.auth(packet)) { (packet.properties.reasonString, packet.properties.userProperties) = (nil, []) }
        guard fits(.auth(packet)) else { throw .packetTooLarge }
        send(.auth(packet), now: now)
    }

    private func fits(_ packet: ControlPacket) -> Bool { packet.encoded(version: options.version).count <= packetSizeMax }

    mutating func receivedAuth(_ packet: AuthPacket, now: UInt64) {
        // [MQTT-4.12.0-6 v5] [MQTT-4.12.0-5 v5]
        let method = options.connectProperties.authenticationMethod
        guard method != nil, packet.properties.authenticationMethod ?? method == method,
            packet.reasonCode == .continueAuthentication || state == .online  // [MQTT-4.12.0-2 v5]
        else { return fail(.protocolError(.protocolError), now: now) }
        tell(.authentication(packet))
    }

    /// Whether the session begins anew. Without a name there is none to come back to. [MQTT-3.1.3-7 v3.1.1]
    private var startsClean: Bool { options.cleanStart || (options.version != .v5 && options.clientIdentifier.isEmpty) }

    var connectPacket: ConnectPacket {
        var properties = options.connectProperties
        properties.sessionExpiryInterval = options.sessionExpiryInterval
        properties.receiveMaximum = options.receiveMaximum
        properties.maximumPacketSize = options.maximumPacketSize
        if options.topicAliasMaximum > 0 { properties.topicAliasMaximum = options.topicAliasMaximum }
        // [MQTT-3.1.2-22 v3.1.1]
        let nobody: EncodedString? = options.version != .v5 && options.password != nil ? "" : nil
        return ConnectPacket(
            version: options.version, cleanStart: startsClean, keepAliveSeconds: options.keepAliveSeconds,
            properties: properties, clientIdentifier: options.clientIdentifier, will: options.will,
            userName: options.userName ?? nobody,
            password: options.password, isBridge: options.isBridge)
    }

    mutating func receivedConnack(_ packet: ConnackPacket, now: UInt64) {
        guard state == .connecting else { return fail(.protocolError(.protocolError), now: now) }  // [MQTT-3.2.0-2 v5]
        answerDeadline = nil
        guard packet.isAccepted else {
            state = .ending
            return tell(.refused(packet))
        }
        // A method that CONNECT has not named. [MQTT-4.12.0-5 v5] [MQTT-4.12.0-6 v5]
        if let method = packet.properties.authenticationMethod, method != options.connectProperties.authenticationMethod {
            return fail(.protocolError(.protocolError), now: now)
        }
        // [MQTT-3.2.2-4 v5]
        if packet.sessionPresent, startsClean { return fail(.protocolError(.protocolError), now: now) }
        state = .online
        serverProperties = packet.properties
        sentAliases.allow(options.setsTopicAliases ? packet.properties.topicAliasMaximum ?? 0 : 0)
        outgoing.window = min(options.inFlightMessagesMax, Int(packet.properties.receiveMaximum ?? .max))
        tell(.connected(packet))
        // MQTT 3.1 cannot tell whether the session is there: sending again does no harm, starting over would repeat messages of QoS 2.
        if packet.sessionPresent || (options.version == .v31 && !startsClean) {
            resume(now: now)
        } else {
            startOver()
        }
        sendWaiting(now: now)
    }

    /// The server knows the session: PUBREL goes again at once, and what it had not acknowledged as far as its window lets it, before anything
    /// that is new. [MQTT-4.4.0-1 v5] [MQTT-4.6.0-1 v5]
    private mutating func resume(now: UInt64) {
        for identifier in outgoing.resume() {
            send(.pubrel, identifier, now: now)
        }
    }

    /// The server knows nothing of what was in flight: messages are new to it. [MQTT-3.2.2-5 v5]
    private mutating func startOver() {
        let hadSent = outgoing.hasFlights
        for completed in outgoing.startOver() { finish(completed, .success) }
        if incoming.startOver() || hadSent { note(.startedOver) }
    }

    /// Ends the connection, and tells the server why if it can be told.
    mutating func fail(_ failure: ClientFailure, now: UInt64) {
        guard state != .ending, state != .offline else { return }
        if options.version == .v5, state == .online {
            let reason: ReasonCode? =
                switch failure {
                case .malformed(let error): error.reasonCode
                case .protocolError(let reason): reason
                case .connectTimeout, .requestTimeout, .pingTimeout: nil
                }
            if let reason { send(.disconnect(DisconnectPacket(reasonCode: reason)), now: now) }
        }
        state = .ending
        answerDeadline = nil
        tell(.failed(failure))
    }
}
