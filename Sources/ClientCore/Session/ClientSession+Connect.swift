public import MQTTCodec

/// The beginning and the end of a connection.
extension ClientSession {
    /// The transport to the server stands: sends CONNECT.
    public mutating func transportOpened(now: UInt64) {
        precondition(state == .offline, "a client has one connection at a time")
        state = .connecting
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
        if state == .online { send(.disconnect(DisconnectPacket(reasonCode: reason, properties: properties)), now: now) }
        state = .ending  // [MQTT-3.14.4-1 v5]
        answerDeadline = nil
    }

    /// Takes the next step of an extended authentication.
    public mutating func authenticate(_ packet: AuthPacket, now: UInt64) throws(RequestRefusal) {
        guard options.version == .v5, state == .connecting || state == .online else { throw .notConnected }
        send(.auth(packet), now: now)
    }

    var connectPacket: ConnectPacket {
        var properties = options.connectProperties
        properties.sessionExpiryInterval = options.sessionExpiryInterval
        properties.receiveMaximum = options.receiveMaximum
        properties.maximumPacketSize = options.maximumPacketSize
        if options.topicAliasMaximum > 0 { properties.topicAliasMaximum = options.topicAliasMaximum }
        return ConnectPacket(
            version: options.version, cleanStart: options.cleanStart, keepAliveSeconds: options.keepAliveSeconds,
            properties: properties, clientIdentifier: options.clientIdentifier, will: options.will, userName: options.userName,
            password: options.password, isBridge: options.isBridge)
    }

    mutating func receivedConnack(_ packet: ConnackPacket, now: UInt64) {
        guard state == .connecting else { return fail(.protocolError(.protocolError), now: now) }  // [MQTT-3.2.0-2 v5]
        answerDeadline = nil
        guard packet.isAccepted else {
            state = .ending
            return tell(.refused(packet))
        }
        // [MQTT-3.2.2-4 v5]
        if packet.sessionPresent, options.cleanStart { return fail(.protocolError(.protocolError), now: now) }
        state = .online
        serverProperties = packet.properties
        sentAliases.allow(options.setsTopicAliases ? packet.properties.topicAliasMaximum ?? 0 : 0)
        outgoing.window = min(options.inFlightMessagesMax, Int(packet.properties.receiveMaximum ?? .max))
        tell(.connected(packet))
        // MQTT 3.1 cannot tell whether the session is there: sending again does no harm, starting over would repeat messages of QoS 2.
        if packet.sessionPresent || (options.version == .v31 && !options.cleanStart) {
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
                case .connectTimeout, .pingTimeout: nil
                }
            if let reason { send(.disconnect(DisconnectPacket(reasonCode: reason)), now: now) }
        }
        state = .ending
        answerDeadline = nil
        tell(.failed(failure))
    }
}
