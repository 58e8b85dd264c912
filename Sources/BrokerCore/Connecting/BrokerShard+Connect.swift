public import BrokerModel
import MQTTCodec

/// CONNECT: who the client is, where it lives, whether it may come in, and what it comes back to.
extension BrokerShard {
    /// CONNECT has arrived: checks it, hands the connection to the client's own shard if that is another, asks for a decision on the
    /// login if there is one to make, and lets the client in.
    func handleConnect(_ received: ConnectPacket, _ connection: Connection) {
        var packet = received
        // Nobody asks for them, save that a bridge that says who it is wants to know who this is.
        let asksName = packet.properties.userProperties.contains { $0.name == UserProperty.brokerName }
        packet.properties.userProperties = asksName ? [UserProperty(name: UserProperty.brokerName, value: "")] : []
        connection.version = packet.version
        connection.isBridge = packet.isBridge
        connection.requestsProblemInformation = packet.properties.requestProblemInformation ?? true
        connection.setMaximumPacketSize(asked: packet.properties.maximumPacketSize)
        if packet.version == .v5, connection.hasOverlongLength {
            refuseConnect(connection, .malformedPacket, "\(WireError.nonMinimalVariableByteInteger.explanation)")
            return
        }
        let policy = settings.listeners[connection.info.listener]
        if policy.userNameSource != .login {
            guard let name = verifiedName(of: connection.info, policy.userNameSource) else {
                refuseConnect(
                    connection, .badUserNameOrPassword, "this listener takes user names from certificates only.",
                    failure: .noCertificateName)
                return
            }
            packet.userName = name
            packet.password = nil
        }
        connection.makeExtras().pendingConnect = packet
        if tracer != nil { markIfTraced(connection, connect: received) }
        if let refusal = objection(to: packet, policy) {
            refuseConnect(connection, refusal.reason, refusal.explanation)
            return
        }
        // Who the client is comes first, where its identifier follows from that.
        let isNamed = !policy.usesUserNameAsClientIdentifier || !asksForLogin(packet, policy)
        if isNamed {
            guard named(&packet, connection, policy) else { return }
        }
        connection.state = .authenticating
        if isNamed, placement.shard(of: packet.clientIdentifier) != index {
            leave(connection)
        } else {
            decide(connection, packet, policy)
        }
    }

    /// Gives the CONNECT the identifier that its client has from now on; false if that is not accepted, and the connection refused.
    private func named(_ packet: inout ConnectPacket, _ connection: Connection, _ policy: ListenerPolicy) -> Bool {
        let extras = connection.makeExtras()
        if policy.usesUserNameAsClientIdentifier {
            guard let userName = packet.userName else {
                refuseConnect(
                    connection, .badUserNameOrPassword, "this listener takes the user name as Client Identifier.",
                    failure: .noUserName)
                return false
            }
            packet.clientIdentifier = userName
            extras.pendingConnect = packet
        }
        if let refusal = identifierObjection(to: packet, policy) {
            refuseConnect(connection, refusal.reason, refusal.explanation)
            return false
        }
        if packet.clientIdentifier.isEmpty {
            packet.clientIdentifier = assignedIdentifier(prefix: policy.assignedIdentifierPrefix)
            extras.hasAssignedIdentifier = true
            extras.pendingConnect = packet
        }
        return true
    }

    /// Takes over a connection whose CONNECT another shard has read.
    public func adopt(_ handOver: HandOver) -> ConnectionID {
        let connection = connections.make(handOver.info, now: now)
        let packet = handOver.connect
        connection.version = packet.version
        connection.isBridge = packet.isBridge
        connection.requestsProblemInformation = packet.properties.requestProblemInformation ?? true
        connection.setMaximumPacketSize(asked: packet.properties.maximumPacketSize)
        connection.makeExtras().pendingConnect = packet
        connection.state = .authenticating
        markIfTraced(connection)
        connection.timer = wheel.arm(
            TimerSubject(kind: .connection, index: connection.id.slot, generation: connection.id.generation),
            at: now + settings.connectTimeoutMilliseconds)
        guard !isStopping else {
            // It was on its way when the broker was told to stop.
            refuseConnect(connection, .serverUnavailable, "the broker is shutting down.")
            return connection.id
        }
        guard !settings.listeners[connection.info.listener].isClosed else {
            // It was on its way when its listener was closed.
            refuseConnect(connection, .serverUnavailable, "its listener was closed.")
            return connection.id
        }
        handOver.unread.withUnsafeBytes { connection.inbound.append($0) }
        if let login = handOver.login {
            connection.extras?.authenticationMethod = packet.properties.authenticationMethod
            admit(connection, packet, userName: login.userName, authenticationData: login.authenticationData)
        } else {
            decide(connection, packet, settings.listeners[connection.info.listener])
        }
        recount(connection)
        return connection.id
    }

    /// Gives the connection to the shard that its client lives on, unless it has been refused meanwhile, or has an answer to send before.
    ///
    /// - Returns: whether it goes there.
    private func handOver(_ connection: Connection) -> Bool {
        guard let packet = connection.extras?.pendingConnect, connection.state == .authenticating, connection.output.isEmpty else {
            return false
        }
        if connection.isTraced { giveTracesNow() }
        effects.append(
            .handOver(
                connection.id,
                HandOver(
                    shard: placement.shard(of: packet.clientIdentifier), info: connection.info, connect: packet,
                    login: connection.extras?.login, unread: Array(connection.inbound.bytes))))
        connection.extras?.authenticationMethod = nil
        release(connection)
        connection.state = .closing
        return true
    }

    /// Hands over the connections whose clients turned out to live on other shards, with all that they have sent so far.
    func handOverLeaving() {
        guard !leaving.isEmpty else { return }
        leaving.removeAll { id in
            guard let connection = connections.find(id), connection.state == .authenticating else { return true }
            return handOver(connection)
        }
    }

    /// The shell's answer to an `AuthenticationRequest`.
    public func authenticated(_ id: ConnectionID, _ outcome: AuthenticationOutcome) {
        guard let connection = connections.find(id) else { return }
        switch connection.state {
        case .authenticating:
            guard let packet = connection.extras?.pendingConnect else { return }
            finishAuthentication(connection, packet, outcome)
        case .connected:
            finishReauthentication(connection, outcome)
        case .awaitingConnect, .closing:
            return
        }
    }

    /// Answers a CONNECT that could not be read: 3.1.1 demands a return code for an unknown level, and otherwise silence.
    func refuseConnect(_ connection: Connection, _ error: WireError, _ body: UnsafeRawBufferPointer, firstByte: UInt8) {
        let announced = ConnectPacket.announcedLevel(body)
        if error == .unsupportedProtocolVersion {
            // [MQTT-3.1.2-2 v3.1.1] A 5.0 server may answer too: [MQTT-3.1.2-2 v5]
            connection.version = .v311
            sendConnack(ConnackPacket(returnCode: .unacceptableProtocolVersion), to: connection)
        } else if announced == ProtocolVersion.v5.rawValue, error != .protocolName {
            connection.version = .v5
            sendConnack(ConnackPacket(reasonCode: error.reasonCode), to: connection)
        }
        let stranger = strangerWords(firstByte, body, connection)
        logRefusal(of: connection, error.reasonCode, because: stranger ?? "\(error.explanation)")
        close(connection)
    }

    /// What to say of a client that speaks another protocol than MQTT, which nothing else would tell its operator; nil for one that does.
    func strangerWords(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) -> String? {
        let port = settings.listeners[connection.info.listener].port
        // The record of a handshake, version 3.x.
        if firstByte == 0x16, body.first == 1 || body.first == 3 {
            return
                "the client speaks TLS, and port \(port) does not: let it connect without, or give this listener certfile and keyfile."
        }
        // The second byte of the word was taken for the length of the packet.
        let methods = ["GET /", "HEAD /", "POST /", "PUT /", "OPTIONS ", "DELETE /", "PATCH /"]
        if methods.contains(where: { firstByte == $0.utf8.first && body.starts(with: $0.utf8.dropFirst(2)) }) {
            return "the client speaks HTTP, and port \(port) MQTT: for WebSockets a listener needs protocol websockets."
        }
        if firstByte == UInt8(ascii: "P") && body.starts(with: "OXY ".utf8)
            || firstByte == 0x0D && body.starts(with: "\r\n\0\r\nQUIT".utf8)
        {
            return "a proxy begins with its PROXY header, and port \(port) with MQTT: this listener needs enable_proxy_protocol."
        }
        return nil
    }

    /// Answers CONNECT with an error and closes. [MQTT-3.2.2-7 v5] [MQTT-3.2.2-5 v3.1.1]
    func refuseConnect(
        _ connection: Connection, _ reason: ReasonCode, _ explanation: String, failure: LoginFailure? = nil,
        reference: EncodedString? = nil, isTold: Bool = true
    ) {
        logRefusal(of: connection, reason, because: explanation, failure: failure, isTold: isTold)
        var answer = ConnackPacket(reasonCode: reason)
        answer.returnCode = Self.returnCode(for: reason)
        answer.properties.reasonString = EncodedString(explanation)
        answer.properties.serverReference = reference
        sendConnack(answer, to: connection)
        if connection.state == .authenticating { connection.state = .awaitingConnect }
        close(connection)
    }

    /// Returns why a CONNECT is refused by the broker's limits or the listener's policy; nil when nothing is wrong with
    /// it.
    private func objection(to packet: ConnectPacket, _ policy: ListenerPolicy) -> (reason: ReasonCode, explanation: String)? {
        guard policy.versions.contains(packet.version) else {
            return (.unsupportedProtocolVersion, "this listener does not accept \(packet.version).")
        }
        if settings.keepAliveSecondsMax > 0, settings.boundsEarlierKeepAlives, packet.version != .v5,
            packet.keepAliveSeconds == 0 || packet.keepAliveSeconds > settings.keepAliveSecondsMax
        {
            return (.clientIdentifierNotValid, "the Keep Alive exceeds \(settings.keepAliveSecondsMax) seconds.")
        }
        if let will = packet.will {
            // [MQTT-3.2.2-12 v5]
            if will.qos > policy.maximumQoS { return (.qosNotSupported, "the Will QoS exceeds \(policy.maximumQoS.rawValue).") }
            // [MQTT-3.2.2-13 v5]
            if will.retain, !settings.retainAvailable { return (.retainNotSupported, "retained messages are switched off.") }
            // As it is called inside the broker, where it must hold what any topic does.
            guard let topic = will.topic.mounted(policy.mountPoint), !isTooLong(topic.bytes) else {
                return (.topicNameInvalid, "the Will Topic is too long.")
            }
            if isTooDeep(topic.bytes) {
                return (.malformedPacket, "the Will Topic has more than \(settings.topicLevelsMax) levels.")
            }
            if topic.bytes.starts(with: "$CONTROL/".utf8) || !topic.bytes.withUnsafeBytes(Self.isOpenToClients) {
                return (.notAuthorized, "the Will Topic is the broker's own.")
            }
            if settings.validatesPayloadFormat, will.properties.payloadFormatIndicator == 1,
                will.payload.withUnsafeBytes(UTF8Validation.validate) != nil
            {
                return (.payloadFormatInvalid, "the Will Payload is not valid UTF-8.")
            }
            if settings.payloadBytesMax > 0, will.payload.count > settings.payloadBytesMax {
                return (.packetTooLarge, "the Will Payload is larger than \(settings.payloadBytesMax) bytes.")
            }
        }
        return nil
    }

    /// Returns why a Client Identifier is refused.
    private func identifierObjection(
        to packet: ConnectPacket, _ policy: ListenerPolicy
    ) -> (reason: ReasonCode, explanation: String)? {
        if packet.clientIdentifier.isEmpty {
            // 3.1 has no empty identifier; 3.1.1 only with Clean Session. [MQTT-3.1.3-8 v3.1.1] [MQTT-3.1.3-9 v3.1.1]
            if packet.version == .v31 || (packet.version == .v311 && !packet.cleanStart) || !policy.allowsEmptyClientIdentifier {
                return (.clientIdentifierNotValid, "an empty Client Identifier is not accepted here.")
            }
        }
        if let prefix = policy.clientIdentifierPrefix, !packet.clientIdentifier.isEmpty,
            !packet.clientIdentifier.bytes.starts(with: prefix.utf8)
        {
            return (.clientIdentifierNotValid, "Client Identifiers must begin with \"\(prefix)\" here.")
        }
        return nil
    }

    /// The user name that the transport vouches for.
    func verifiedName(of info: ConnectionInfo, _ source: UserNameSource) -> EncodedString? {
        switch source {
        case .login: nil
        case .identity: (info.certificateCommonName ?? info.preSharedKeyIdentity).flatMap { EncodedString($0) }
        case .subject: info.certificateSubject.flatMap { EncodedString($0) }
        }
    }

    /// Whether somebody outside has to decide who the client is.
    private func asksForLogin(_ packet: ConnectPacket, _ policy: ListenerPolicy) -> Bool {
        if packet.properties.authenticationMethod != nil { return true }
        return policy.userNameSource == .login && policy.checksPasswords && (packet.userName != nil || !policy.allowsAnonymous)
    }

    /// Decides what becomes of a CONNECT that is valid.
    private func decide(_ connection: Connection, _ packet: ConnectPacket, _ policy: ListenerPolicy) {
        if !awaitsCluster(connection), !standsBehindOthers(connection) { decideAtOnce(connection, packet, policy) }
    }

    /// Decides what becomes of a valid CONNECT that waits neither for the cluster nor for other clients.
    func decideAtOnce(_ connection: Connection, _ packet: ConnectPacket, _ policy: ListenerPolicy) {
        guard !turnsAway(connection, packet, userName: packet.userName) else { return }
        if let method = packet.properties.authenticationMethod {
            guard settings.authenticationMethods.contains(method) else {
                // [MQTT-4.12.0-1 v5]
                refuseConnect(
                    connection, .badAuthenticationMethod, "the Authentication Method \(method) is not known here.",
                    failure: .unknownMethod)
                return
            }
            connection.makeExtras().authenticationMethod = method
            ask(connection, packet, .begin(method: method, data: packet.properties.authenticationData))
        } else if policy.userNameSource != .login {
            note(.accepted, connection)
            admit(connection, packet, userName: packet.userName, authenticationData: nil)
        } else if asksForLogin(packet, policy) {
            ask(connection, packet, .password(userName: packet.userName, password: packet.password))
        } else if policy.allowsAnonymous {
            note(.accepted, connection)
            admit(connection, packet, userName: packet.userName, authenticationData: nil)
        } else {
            refuseConnect(
                connection, .notAuthorized, "a login is needed.", failure: packet.userName == nil ? .noUserName : .noUsersKnown)
        }
    }

    func ask(_ connection: Connection, _ packet: ConnectPacket, _ step: AuthenticationRequest.Step) {
        // Failures are counted by what the client would be called.
        let isNamedByUser = settings.listeners[connection.info.listener].usesUserNameAsClientIdentifier
        let identifier = isNamedByUser ? packet.userName ?? packet.clientIdentifier : packet.clientIdentifier
        effects.append(
            .authenticate(
                connection.id, AuthenticationRequest(clientIdentifier: identifier, info: connection.info, step: step)))
    }

    private func finishAuthentication(_ connection: Connection, _ packet: ConnectPacket, _ outcome: AuthenticationOutcome) {
        switch outcome {
        case .accepted(let userName, let data):
            handleAccepted(connection, packet, userName: userName, authenticationData: data)
        case .challenge(let data):
            if !sendAuth(.continueAuthentication, data: data, to: connection) {
                refuseConnect(connection, .packetTooLarge, "AUTH is larger than the client's Maximum Packet Size.")
            }
        case .refused(let reason, let failure):
            if reason == .serverBusy { note(.unavailable, connection) }
            // [MQTT-3.2.2-8 v5]
            let isKnown = reason.isError && reason.isAllowed(in: .connack, from: .server)
            refuseConnect(connection, isKnown ? reason : .notAuthorized, "the login was not accepted.", failure: failure)
        }
    }

    /// The login is accepted: the client is who it says, and has its identifier by that if its listener wants it so.
    private func handleAccepted(
        _ connection: Connection, _ received: ConnectPacket, userName: EncodedString?, authenticationData: [UInt8]?
    ) {
        let policy = settings.listeners[connection.info.listener]
        var packet = received
        if packet.properties.authenticationMethod == nil {
            packet.userName = userName ?? packet.userName
        } else if policy.userNameSource == .login {
            // What CONNECT says beside the method, nobody has looked at.
            packet.userName = userName
        } else if userName != nil, userName != packet.userName {
            refuseConnect(connection, .notAuthorized, "the login is another user's than the certificate.", failure: .otherUser)
            return
        }
        note(.accepted, connection)
        if policy.usesUserNameAsClientIdentifier {
            guard named(&packet, connection, policy) else { return }
        }
        guard placement.shard(of: packet.clientIdentifier) != index else {
            admit(connection, packet, userName: packet.userName, authenticationData: authenticationData)
            return
        }
        connection.extras?.login = VerifiedLogin(userName: packet.userName, authenticationData: authenticationData)
        leave(connection)
    }

    /// The client lives on another shard: its connection goes there when the turn ends.
    private func leave(_ connection: Connection) {
        connection.isLeaving = true
        leaving.append(connection.id)
    }

    /// An identifier that no session has, and that lives on this shard. Whoever knows it may take the session over: its 128 bits are
    /// random. [MQTT-3.2.2-16 v5] [MQTT-3.1.3-6 v3.1.1]
    private func assignedIdentifier(prefix: String) -> EncodedString {
        let digits = Array("0123456789ABCDEF".utf8)
        while true {
            var text = Array(prefix.utf8)
            var bits: UInt64 = 0
            for position in 0..<32 {
                if position % 16 == 0 { bits = nextRandom() }
                if [8, 12, 16, 20].contains(position) { text.append(UInt8(ascii: "-")) }
                text.append(digits[Int(bits & 15)])
                bits >>= 4
            }
            guard let identifier = EncodedString(text) else { continue }
            if placement.shard(of: identifier) == index, sessions.find(identifier) == nil { return identifier }
        }
    }

    /// What 3.1 and 3.1.1 say for a reason.
    private static func returnCode(for reason: ReasonCode) -> ConnectReturnCode {
        switch reason {
        case .success: .accepted
        case .unsupportedProtocolVersion: .unacceptableProtocolVersion
        case .clientIdentifierNotValid: .identifierRejected
        case .badUserNameOrPassword: .badUserNameOrPassword
        case .serverBusy, .serverUnavailable, .connectionRateExceeded, .quotaExceeded, .useAnotherServer: .serverUnavailable
        default: .notAuthorized
        }
    }
}
