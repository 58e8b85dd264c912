public import BrokerModel
public import MQTTCodec

/// Before CONNECT, and its first step: what its client may ask for, what it is called, and on which shard it lives.
struct Connecting {
    let shard: BrokerShard

    /// Compares a CONNECT with the limits and its listener's rules, and gives it its client's identifier.
    func identify(_ connect: PendingConnect, _ connection: Connection) throws(ConnectRefusal) {
        if shard.inspection.tracer != nil { shard.tracing.markIfTraced(connection, connect: connect.packet) }
        if connection.version == .v5, connection.client.hasOverlongLength {
            throw ConnectRefusal(.malformedPacket, "\(WireError.nonMinimalVariableByteInteger.explanation)")
        }
        let policy = shard.settings.listeners[connection.info.listener]
        try useVerifiedName(connect, connection, policy)
        try useVerifiedIdentifier(connect, connection, policy)
        forgetUserProperties(connect)
        try checkVersion(connect, policy)
        try checkKeepAlive(connect)
        if let will = connect.packet.will { try checkWill(will, policy) }
        // Who the client is comes first, where its identifier follows from that.
        if !policy.usesUserNameAsClientIdentifier || !shard.authentication.asksForLogin(connect, policy) {
            try giveIdentifier(connect, policy)
        }
        connect.state = .identified
        if connect.isNamed { leaveIfElsewhere(connect, connection) }
    }

    /// The user name is the transport's to say, where the listener wants it so.
    private func useVerifiedName(
        _ connect: PendingConnect, _ connection: Connection, _ policy: ListenerPolicy
    ) throws(ConnectRefusal) {
        guard policy.userNameSource != .login else { return }
        guard let name = policy.userNameSource.name(in: connection.info) else {
            let objection = connection.info.certificateClaims.objection
            throw ConnectRefusal(
                .badUserNameOrPassword, "this listener takes user names from certificates only.",
                failure: objection.map { .certificate($0) } ?? .noCertificateName)
        }
        if policy.requiresPasswordToo {
            // Who says another name than the certificate has mixed two devices up, or tries.
            guard connect.packet.userName == nil || connect.packet.userName == name else {
                throw ConnectRefusal(.notAuthorized, "the user name is another one than the certificate's.", failure: .otherUser)
            }
        } else {
            connect.packet.password = nil
        }
        connect.packet.userName = name
        if let users = policy.knownUsers, !users.isKnown(name) {
            throw ConnectRefusal(.notAuthorized, "the login was not accepted.", failure: .unknownUser)
        }
    }

    /// The Client Identifier is the certificate's to say, where the listener wants it so: who gives none gets it.
    private func useVerifiedIdentifier(
        _ connect: PendingConnect, _ connection: Connection, _ policy: ListenerPolicy
    ) throws(ConnectRefusal) {
        guard policy.takesIdentifierFromCertificate else { return }
        let claims = connection.info.certificateClaims
        guard let name = claims.clientIdentifier.flatMap({ EncodedString($0) }) else {
            throw ConnectRefusal(
                .clientIdentifierNotValid, "this listener takes Client Identifiers from certificates.",
                failure: .certificate(claims.objection ?? "it has no name that can be a Client Identifier"))
        }
        if connect.packet.clientIdentifier.isEmpty {
            connect.packet.clientIdentifier = name
            connect.hasAssignedIdentifier = true
        } else if connect.packet.clientIdentifier != name {
            throw ConnectRefusal(
                .clientIdentifierNotValid, "the certificate is for the Client Identifier \(name).", failure: .otherUser)
        }
    }

    /// Nobody asks for them, save that a bridge that says who it is wants to know who this is.
    private func forgetUserProperties(_ connect: PendingConnect) {
        guard !connect.packet.properties.userProperties.isEmpty else { return }
        let asksName = connect.packet.properties.userProperties.contains { $0.name == UserProperty.brokerName }
        connect.packet.properties.userProperties = asksName ? [UserProperty(name: UserProperty.brokerName, value: "")] : []
    }

    private func checkVersion(_ connect: PendingConnect, _ policy: ListenerPolicy) throws(ConnectRefusal) {
        let version = connect.packet.version
        if !policy.versions.contains(version) {
            throw ConnectRefusal(.unsupportedProtocolVersion, "this listener does not accept \(version).")
        }
    }

    /// A 5.0 client is told another one in CONNACK.
    private func checkKeepAlive(_ connect: PendingConnect) throws(ConnectRefusal) {
        let (asked, longest) = (connect.packet.keepAliveSeconds, shard.settings.keepAliveSecondsMax)
        if longest > 0, shard.settings.boundsEarlierKeepAlives, connect.packet.version != .v5, asked == 0 || asked > longest {
            throw ConnectRefusal(.clientIdentifierNotValid, "the Keep Alive exceeds \(longest) seconds.")
        }
    }

    private func checkWill(_ will: Will, _ policy: ListenerPolicy) throws(ConnectRefusal) {
        // [MQTT-3.2.2-12 v5]
        if will.qos > policy.maximumQoS {
            throw ConnectRefusal(.qosNotSupported, "the Will QoS exceeds \(policy.maximumQoS.rawValue).")
        }
        // [MQTT-3.2.2-13 v5]
        if will.retain, !shard.settings.retainAvailable {
            throw ConnectRefusal(.retainNotSupported, "retained messages are switched off.")
        }
        // Where it depends on the client what its topics begin with, that is looked at when the client is known.
        if let mountPoint = policy.mountPoint.fixed { try checkWillTopic(will, mountPoint) }
        if shard.settings.validatesPayloadFormat, will.properties.payloadFormatIndicator == 1,
            will.payload.withUnsafeBytes(UTF8Validation.validate) != nil
        {
            throw ConnectRefusal(.payloadFormatInvalid, "the Will Payload is not valid UTF-8.")
        }
        if shard.settings.payloadBytesMax > 0, will.payload.count > shard.settings.payloadBytesMax {
            throw ConnectRefusal(.packetTooLarge, "the Will Payload is larger than \(shard.settings.payloadBytesMax) bytes.")
        }
    }

    func checkWillTopic(_ will: Will, _ mountPoint: [UInt8]) throws(ConnectRefusal) {
        // As it is called inside the broker, where it must hold what any topic does.
        guard let topic = will.topic.mounted(mountPoint), !shard.publishing.isTooLong(topic.bytes) else {
            throw ConnectRefusal(.topicNameInvalid, "the Will Topic is too long.")
        }
        if shard.publishing.isTooDeep(topic.bytes) {
            throw ConnectRefusal(.malformedPacket, "the Will Topic has more than \(shard.settings.topicLevelsMax) levels.")
        }
        if topic.bytes.starts(with: "$CONTROL/".utf8) || !topic.bytes.withUnsafeBytes(BridgeStateTopics.isOpenToClients) {
            throw ConnectRefusal(.notAuthorized, "the Will Topic is the broker's own.")
        }
    }

    // MARK: The Client Identifier

    /// Gives a CONNECT the identifier that its client has from now on.
    func giveIdentifier(_ connect: PendingConnect, _ policy: ListenerPolicy) throws(ConnectRefusal) {
        if policy.usesUserNameAsClientIdentifier {
            guard let userName = connect.userName else {
                throw ConnectRefusal(
                    .badUserNameOrPassword, "this listener takes the user name as Client Identifier.", failure: .noUserName)
            }
            connect.packet.clientIdentifier = userName
        }
        try checkIdentifier(connect, policy)
        if connect.packet.clientIdentifier.isEmpty {
            // The user that CONNECT names; who turns out to be another one is refused by `checkUserPrefix`.
            let prefix = Self.identifierPrefix(policy, connect.userName) ?? Array(policy.assignedIdentifierPrefix.utf8)
            connect.packet.clientIdentifier = assignedIdentifier(prefix: prefix)
            connect.hasAssignedIdentifier = true
        }
        connect.isNamed = true
    }

    private func checkIdentifier(_ connect: PendingConnect, _ policy: ListenerPolicy) throws(ConnectRefusal) {
        let (identifier, version) = (connect.packet.clientIdentifier, connect.packet.version)
        if identifier.isEmpty {
            // 3.1 has no empty identifier; 3.1.1 only with Clean Session. [MQTT-3.1.3-8 v3.1.1] [MQTT-3.1.3-9 v3.1.1]
            if version == .v31 || (version == .v311 && !connect.packet.cleanStart) || !policy.allowsEmptyClientIdentifier {
                throw ConnectRefusal(.clientIdentifierNotValid, "an empty Client Identifier is not accepted here.")
            }
        } else if let prefix = policy.clientIdentifierPrefix, !identifier.bytes.starts(with: prefix.utf8) {
            throw ConnectRefusal(.clientIdentifierNotValid, "Client Identifiers must begin with \"\(prefix)\" here.")
        }
    }

    /// Whether the identifier is one of those that the user may have, who is known by now.
    func checkUserPrefix(_ connect: PendingConnect, _ userName: EncodedString?, _ policy: ListenerPolicy) throws(ConnectRefusal) {
        guard !policy.userIdentifierPrefix.isEmpty else { return }
        guard let prefix = Self.identifierPrefix(policy, userName) else {
            throw ConnectRefusal(
                .clientIdentifierNotValid, "Client Identifiers begin with the user name here, and there is none.",
                failure: .noUserName)
        }
        guard connect.packet.clientIdentifier.bytes.starts(with: prefix) else {
            let text = String(decoding: prefix, as: UTF8.self)
            throw ConnectRefusal(
                .clientIdentifierNotValid, "Client Identifiers must begin with \"\(text)\" here.", failure: .otherUser)
        }
    }

    /// What a user's identifiers begin with; nil where nothing is asked for, or the user name that is asked for is not
    /// there.
    private static func identifierPrefix(_ policy: ListenerPolicy, _ userName: EncodedString?) -> [UInt8]? {
        guard !policy.userIdentifierPrefix.isEmpty else { return nil }
        var prefix: [UInt8] = []
        var rest = Array(policy.userIdentifierPrefix.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%"), rest.first == UInt8(ascii: "u") else {
                prefix.append(byte)
                continue
            }
            guard let userName else { return nil }
            rest = rest.dropFirst()
            prefix += userName.bytes
        }
        return prefix
    }

    /// An identifier that no session has, and that lives on this shard. Whoever knows it may take the session over: its
    /// 128 bits are random. [MQTT-3.2.2-16 v5] [MQTT-3.1.3-6 v3.1.1]
    private func assignedIdentifier(prefix: [UInt8]) -> EncodedString {
        let digits = Array("0123456789ABCDEF".utf8)
        while true {
            var text = prefix
            var bits: UInt64 = 0
            for position in 0..<32 {
                if position % 16 == 0 { bits = shard.nextRandom() }
                if [8, 12, 16, 20].contains(position) { text.append(UInt8(ascii: "-")) }
                text.append(digits[Int(bits & 15)])
                bits >>= 4
            }
            guard let identifier = EncodedString(text) else { continue }
            if shard.placement.shard(of: identifier) == shard.index, shard.sessions.find(identifier) == nil { return identifier }
        }
    }

    // MARK: The client's own shard

    /// Has the connection go to its client's shard when the turn ends, if that is another.
    func leaveIfElsewhere(_ connect: PendingConnect, _ connection: Connection) {
        guard shard.placement.shard(of: connect.packet.clientIdentifier) != shard.index else { return }
        connect.awaited = .otherShard
        shard.connections.leaving.append(connection.id)
    }

    /// Hands over the connections whose clients turned out to live on other shards, with all that they have sent so
    /// far.
    func handOverLeaving() {
        for id in shard.connections.takeLeaving() {
            guard let connection = shard.connections.find(id), connection.state == .authenticating, !handOver(connection) else {
                continue
            }
            shard.connections.leaving.append(id)
        }
    }

    /// Gives the connection to the shard that its client lives on, unless it has an answer to send before.
    ///
    /// - Returns: whether it goes there.
    private func handOver(_ connection: Connection) -> Bool {
        guard let connect = connection.extras?.pendingConnect, connection.output.isEmpty else { return false }
        if connection.isTraced { shard.tracing.giveTracesNow() }
        shard.effects.append(
            .handOver(
                connection.id,
                HandOver(
                    shard: shard.placement.shard(of: connect.packet.clientIdentifier), info: connection.info,
                    connect: connect.packet,
                    login: connect.login, hasAssignedIdentifier: connect.hasAssignedIdentifier,
                    unread: Array(connection.inbound.bytes))))
        shard.disconnecting.release(connection)
        connection.state = .closing
        return true
    }
}

/// What travels with a connection to the shard that its client lives on.
public struct HandOver: Sendable {
    /// The index of that shard.
    public let shard: Int
    public let info: ConnectionInfo
    /// The CONNECT that told who the client is.
    public let connect: ConnectPacket
    /// The login that the client has passed already, where that had to come first: its Client Identifier is its user
    /// name. Without it the new shard asks.
    public var login: VerifiedLogin?
    /// Whether the Client Identifier is not the client's own choice, so that CONNACK tells it.
    var hasAssignedIdentifier = false
    /// What the client sent after it and nobody has looked at yet.
    public let unread: [UInt8]

    /// The login, if it was decided.
    public var connectedLogin: ConnectedLogin? {
        login.map {
            ConnectedLogin(
                info: info, userName: $0.userName, method: connect.properties.authenticationMethod, source: $0.grant?.loginSource)
        }
    }
}

/// The connections whose clients live on other shards.
enum LeavingConnections: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.connections.leaving.isEmpty }
    static func step(_ shard: BrokerShard) { shard.connecting.handOverLeaving() }
    /// They leave when their output is written, which causes a turn by itself.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension BrokerShard {
    /// Takes in a connection that was accepted; its first packet must be CONNECT and come in time.
    public func connected(_ info: ConnectionInfo) -> ConnectionID {
        let connection = connections.make(info, now: now)
        statistics.socketsOpened += 1
        logConnection(.notice) {
            .line(room: 64 + info.address.utf8.count) { line in
                line.write("New connection from ")
                line.write(info.address)
                line.write(":")
                line.write(info.port)
                line.write(" on port ")
                line.write(self.settings.listeners[info.listener].port)
                line.write(".")
            }
        }
        rearm(connection, at: now + settings.connectTimeoutMilliseconds)
        if policy.isStopping { disconnecting.close(connection) }
        tracing.markIfTraced(connection)
        return connection.id
    }

    /// The transport has learned who is at the other end, which it did not know at `connected`. Before the first
    /// `received`.
    public func identified(_ id: ConnectionID, as info: ConnectionInfo) {
        guard let connection = connections.find(id) else { return }
        connection.info = info
        tracing.markIfTraced(connection)
    }

    /// Takes over a connection whose CONNECT another shard has read.
    public func adopt(_ handOver: HandOver) -> ConnectionID {
        let connection = connections.make(handOver.info, now: now)
        let connect = PendingConnect(handOver.connect, handOver.login.map { .verified($0) } ?? .identified)
        connect.hasAssignedIdentifier = handOver.hasAssignedIdentifier
        connecting.begin(connect, connection)
        if handOver.login != nil {
            connection.extras?.authenticationMethod = handOver.connect.properties.authenticationMethod
        }
        tracing.markIfTraced(connection)
        rearm(connection, at: now + settings.connectTimeoutMilliseconds)
        handOver.unread.withUnsafeBytes { connection.inbound.append($0) }
        connecting.advance(connection, .begun)
        memoryBound.recount(connection)
        return connection.id
    }
}
