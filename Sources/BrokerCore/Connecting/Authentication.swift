public import BrokerModel
public import MQTTCodec

/// The login: who the user is. While CONNECT is not answered, and again while connected.
///
///     CONNECT ─► verify ─► Effect.authenticate ─► authenticated(_:_:) ─► decide ─► the client's own shard, or `claim`
///                               ▲                        │ challenge
///                               └── AUTH from the client ┘
struct Authentication {
    let shard: BrokerShard

    /// Asks who the user is, if anybody has to be asked, when the client need not wait for the cluster and is not
    /// banned.
    func verify(_ connect: PendingConnect, _ connection: Connection) throws(ConnectRefusal) {
        guard !mustWait(connect, connection) else { return }
        try checkIsWelcome(connect, connection)
        let policy = shard.settings.listeners[connection.info.listener]
        if let method = connect.packet.properties.authenticationMethod {
            try checkMethod(method)
            connection.makeExtras().authenticationMethod = method
            ask(connect, .begin(method: method, data: connect.packet.properties.authenticationData), connection)
        } else if asksForLogin(connect, policy) {
            ask(connect, .password(userName: connect.packet.userName, password: connect.packet.password), connection)
        } else if policy.userNameSource == .login ? policy.allowsAnonymous : !policy.requiresPasswordToo {
            shard.figures.count(.accepted, connection)
            connect.state = .verified(
                VerifiedLogin(
                    userName: connect.userName, authenticationData: nil,
                    grant: .adding(connection.info.certificateClaims, to: nil)))
        } else {
            throw ConnectRefusal(
                .notAuthorized, "a login is needed.", failure: connect.packet.userName == nil ? .noUserName : .noUsersKnown)
        }
    }

    /// Has the client wait for the cluster, or behind those who have waited for it.
    private func mustWait(_ connect: PendingConnect, _ connection: Connection) -> Bool {
        if shard.clusterMessaging.awaitsCluster(connection) {
            connect.awaited = .cluster
        } else if !connect.hadTurn, shard.clusterMessaging.hasToQueue(connection) {
            connect.awaited = .turn
            shard.clusterMessaging.lineUp(connection)
        }
        return connect.awaited != .nothing
    }

    /// Whether the client may come at all, as far as is known of it: it is asked again when its user is known, and when
    /// time has passed.
    func checkIsWelcome(_ connect: PendingConnect, _ connection: Connection) throws(ConnectRefusal) {
        try shard.clusterMessaging.checkCluster(connection)
        try shard.draining.checkDraining(connection)
        try shard.banEnforcement.checkBan(connect, connection)
    }

    /// [MQTT-4.12.0-1 v5]
    private func checkMethod(_ method: EncodedString) throws(ConnectRefusal) {
        if shard.settings.authenticationMethods.contains(method) { return }
        throw ConnectRefusal(
            .badAuthenticationMethod, "the Authentication Method \(method) is not known here.", failure: .unknownMethod)
    }

    /// Whether somebody outside has to decide who the client is.
    func asksForLogin(_ connect: PendingConnect, _ policy: ListenerPolicy) -> Bool {
        if connect.packet.properties.authenticationMethod != nil { return true }
        return (policy.userNameSource == .login || policy.requiresPasswordToo) && policy.checksPasswords
            && (connect.packet.userName != nil || !policy.allowsAnonymous)
    }

    /// Asks the shell for the next step of the login.
    func ask(_ connect: PendingConnect, _ step: AuthenticationRequest.Step, _ connection: Connection) {
        connect.awaited = .authentication
        request(step, of: countedIdentifier(of: connect, connection), connection)
    }

    /// Failures are counted by what the client would be called.
    private func countedIdentifier(of connect: PendingConnect, _ connection: Connection) -> EncodedString {
        let isNamedByUser = shard.settings.listeners[connection.info.listener].usesUserNameAsClientIdentifier
        return isNamedByUser ? connect.userName ?? connect.packet.clientIdentifier : connect.packet.clientIdentifier
    }

    private func request(_ step: AuthenticationRequest.Step, of identifier: EncodedString, _ connection: Connection) {
        shard.effects.append(
            .authenticate(
                connection.id, AuthenticationRequest(clientIdentifier: identifier, info: connection.info, step: step)))
    }

    /// The shell has decided on a step of the login.
    func decide(
        _ outcome: AuthenticationOutcome, _ connect: PendingConnect, _ connection: Connection
    ) throws(ConnectRefusal) {
        switch outcome {
        case .accepted(let userName, let data, let grant):
            let policy = shard.settings.listeners[connection.info.listener]
            // A source that takes the name as it stands has known it: it is no token.
            connect.hidesUserName = false
            try useLogin(userName, connect, policy)
            if let name = grant?.clientIdentifier { try useIdentifier(name, connect) }
            shard.figures.count(.accepted, connection)
            // The client has its identifier by that, if its listener wants it so.
            if policy.usesUserNameAsClientIdentifier || !connect.isNamed { try shard.connecting.giveIdentifier(connect, policy) }
            connect.awaited = .nothing
            connect.state = .verified(
                VerifiedLogin(
                    userName: connect.userName, authenticationData: data,
                    grant: .adding(connection.info.certificateClaims, to: grant)))
            shard.connecting.leaveIfElsewhere(connect, connection)
        case .challenge(let data):
            if !shard.sending.sendAuth(.continueAuthentication, data: data, to: connection) {
                throw ConnectRefusal(.packetTooLarge, "AUTH is larger than the client's Maximum Packet Size.")
            }
        case .refused(let reason, let failure):
            if [.serverBusy, .serverUnavailable].contains(reason) { shard.figures.count(.unavailable, connection) }
            // [MQTT-3.2.2-8 v5]
            let isKnown = reason.isError && reason.isAllowed(in: .connack, from: .server)
            throw ConnectRefusal(isKnown ? reason : .notAuthorized, "the login was not accepted.", failure: failure)
        }
    }

    /// The client is who the login says.
    private func useLogin(
        _ userName: EncodedString?, _ connect: PendingConnect, _ policy: ListenerPolicy
    ) throws(ConnectRefusal) {
        if connect.packet.properties.authenticationMethod == nil {
            if let userName { connect.packet.userName = userName }
        } else if policy.userNameSource == .login {
            // What CONNECT says beside the method, nobody has looked at.
            connect.packet.userName = userName
        } else if userName != nil, userName != connect.packet.userName {
            throw ConnectRefusal(.notAuthorized, "the login is another user's than the certificate.", failure: .otherUser)
        }
    }

    /// The client is called what its login says: one that has no identifier of its own gets that.
    private func useIdentifier(_ name: EncodedString, _ connect: PendingConnect) throws(ConnectRefusal) {
        if connect.hasAssignedIdentifier { connect.packet.clientIdentifier = name }
        guard connect.packet.clientIdentifier == name else {
            throw ConnectRefusal(.clientIdentifierNotValid, "the login is for the Client Identifier \(name).")
        }
    }

    // MARK: AUTH before CONNACK

    /// A packet while CONNECT is not answered: only AUTH and DISCONNECT may come. [MQTT-3.1.2-30 v5]
    func handleUnanswered(_ type: PacketType, _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        do throws(WireError) {
            switch try ControlPacket.decode(firstByte: firstByte, body: body, version: connection.version, from: .client) {
            case .auth(let auth): shard.connecting.advance(connection, .auth(auth))
            case .disconnect: shard.disconnecting.end(connection)
            default: shard.connecting.refuseConnect(connection, .protocolError, "\(type.name) was sent before CONNACK.")
            }
        } catch {
            shard.connecting.refuseConnect(connection, error.reasonCode, "\(error.explanation)")
        }
    }

    /// The client goes on with the login.
    func continueAuthentication(
        _ auth: AuthPacket, _ connect: PendingConnect, _ connection: Connection
    ) throws(ConnectRefusal) {
        guard connect.awaited == .authentication, auth.reasonCode == .continueAuthentication,
            let method = matchingMethod(auth, connection)
        else {
            throw ConnectRefusal(.protocolError, "AUTH does not go on with the authentication that CONNECT began.")
        }
        ask(connect, .proceed(method: method, data: auth.properties.authenticationData), connection)
    }

    /// The connection ends while a decision is awaited: whoever decides need not go on.
    func abandonAuthentication(of connection: Connection) {
        guard connection.extras?.authenticationMethod != nil, let connect = connection.extras?.pendingConnect else { return }
        request(.abandon, of: countedIdentifier(of: connect, connection), connection)
    }

    // MARK: Re-authentication

    /// AUTH on a connected client: the beginning or the middle of a re-authentication. [MQTT-4.12.1-1 v5]
    func handleAuth(_ auth: AuthPacket, _ connection: Connection) {
        guard let extras = connection.extras, let session = connection.session, extras.authenticationMethod != nil else {
            // [MQTT-4.12.0-7 v5]
            shard.disconnecting.refuse(
                connection, .protocolError, because: "AUTH was sent without an Authentication Method in CONNECT.")
            return
        }
        guard let method = matchingMethod(auth, connection) else {
            shard.disconnecting.refuse(
                connection, .protocolError, because: "AUTH names another Authentication Method than CONNECT.")
            return
        }
        let data = auth.properties.authenticationData
        switch (auth.reasonCode, extras.isReauthenticating) {
        case (.reauthenticate, false): request(.begin(method: method, data: data), of: session.clientIdentifier, connection)
        case (.continueAuthentication, true):
            request(.proceed(method: method, data: data), of: session.clientIdentifier, connection)
        default:
            shard.disconnecting.refuse(
                connection, .protocolError, because: "AUTH with reason \(auth.reasonCode) does not fit here.")
            return
        }
        extras.isReauthenticating = true
    }

    /// The shell has decided on a step of a re-authentication.
    fileprivate func finishReauthentication(_ connection: Connection, _ outcome: AuthenticationOutcome) {
        guard let extras = connection.extras, extras.isReauthenticating else { return }
        switch outcome {
        case .accepted(let userName, let data, let grant):
            // The session is the first user's, with all that waits in it.
            guard userName == nil || userName == connection.client.userName else {
                shard.disconnecting.refuse(
                    connection, .notAuthorized, because: "the re-authentication was another user's.", failure: .otherUser)
                return
            }
            extras.isReauthenticating = false
            if let grant, let whole = LoginGrant.adding(connection.info.certificateClaims, to: grant) {
                shard.accessChecks.renewGrant(whole, connection)
            }
            shard.figures.count(.accepted, connection)
            answerAuth(.success, data, connection)
        case .challenge(let data):
            answerAuth(.continueAuthentication, data, connection)
        case .refused(let reason, let failure):
            // [MQTT-4.12.1-2 v5] [MQTT-3.14.2-1 v5]
            let isKnown = reason.isError && reason.isAllowed(in: .disconnect, from: .server)
            shard.disconnecting.refuse(
                connection, isKnown ? reason : .notAuthorized, because: "the re-authentication was not accepted.", failure: failure)
        }
    }

    /// Sends AUTH on a connected client, which cannot go on without it.
    private func answerAuth(_ reason: ReasonCode, _ data: [UInt8]?, _ connection: Connection) {
        guard !shard.sending.sendAuth(reason, data: data, to: connection) else { return }
        shard.disconnecting.refuse(connection, .packetTooLarge, because: "AUTH is larger than the client's Maximum Packet Size.")
    }

    private func matchingMethod(_ auth: AuthPacket, _ connection: Connection) -> EncodedString? {
        guard let method = auth.properties.authenticationMethod, method == connection.extras?.authenticationMethod else {
            return nil
        }
        return method
    }
}

/// Logins that do not hold any more: as in mosquitto, who would not be let in any more after a reload has to go.
extension Authentication {
    /// Ends the connections that came by a listener which is closed in these settings. A 5.0 client is told with 0x98.
    /// O(connections).
    func dismissClients(ofClosedIn settings: BrokerSettings) {
        for connection in Array(shard.connections.all) where connection.info.listener >= 0 && connection.state != .closing {
            guard settings.listeners[connection.info.listener].isClosed else { continue }
            shard.disconnecting.refuse(connection, .administrativeAction, because: "its listener was closed.")
        }
    }

    /// Ends the connections of clients without a user name at listeners that let none in. A 5.0 client is told with
    /// 0x87.
    func dismissUnknownUsers() {
        guard shard.settings.listeners.contains(where: { !$0.allowsAnonymous }) else { return }
        for connection in Array(shard.connections.all) where connection.state == .connected && connection.client.userName == nil {
            // Who logged in by an Authentication Method has no user name, but is known.
            guard !shard.settings.policy(of: connection.info.listener).allowsAnonymous,
                connection.extras?.authenticationMethod == nil
            else { continue }
            shard.disconnecting.refuse(connection, .notAuthorized, because: "clients without a user name are no longer allowed.")
        }
    }
}

/// How a client that is connected has come in.
public struct ConnectedLogin: Sendable {
    public let info: ConnectionInfo
    /// Nil for a client without one.
    public let userName: EncodedString?
    /// The Authentication Method that proved it; nil for a password, or where nobody asked.
    public let method: EncodedString?
    /// Which source of logins let it in, see `LoginGrant.source`; nil where the login brought nothing along.
    public let source: String?

    public init(info: ConnectionInfo, userName: EncodedString?, method: EncodedString?, source: String? = nil) {
        self.info = info
        self.userName = userName
        self.method = method
        self.source = source
    }
}

extension BrokerShard {
    /// The shell's answer to an `AuthenticationRequest`.
    public func authenticated(_ id: ConnectionID, _ outcome: AuthenticationOutcome) {
        guard let connection = connections.find(id) else { return }
        switch connection.state {
        case .authenticating: connecting.advance(connection, .authenticated(outcome))
        case .connected: authentication.finishReauthentication(connection, outcome)
        case .awaitingConnect, .closing: return
        }
    }

    /// Ends the connections of clients whose logins do not hold any more: 5.0 clients are told with 0x87. The shell
    /// knows the users; who has a name from a certificate or a pre-shared key is judged here first. Whoever is about to
    /// be handed over with such a login is asked again where it goes. O(connections).
    public func dismissClients(unless holds: (ConnectedLogin) -> Bool) {
        for id in connections.leaving {
            guard let connection = connections.find(id), let connect = connection.extras?.pendingConnect, let login = connect.login
            else { continue }
            let method = connection.extras?.authenticationMethod
            let way = ConnectedLogin(
                info: connection.info, userName: login.userName, method: method, source: login.grant?.loginSource)
            guard !holds(way) else { continue }
            connect.state = .identified
        }
        for connection in Array(connections.all)
        where connection.state == .connected && !connection.client.isLocal {
            let login = ConnectedLogin(
                info: connection.info, userName: connection.client.userName, method: connection.extras?.authenticationMethod,
                source: connection.session?.grant?.loginSource)
            let source = settings.listeners[connection.info.listener].userNameSource
            let isVouchedFor =
                source == .login || login.method != nil
                || source.name(in: connection.info) == connection.client.userName
            guard !isVouchedFor || !holds(login) else { continue }
            disconnecting.refuse(
                connection, .notAuthorized, because: "its login is no longer valid since the configuration was reloaded.")
        }
    }
}
