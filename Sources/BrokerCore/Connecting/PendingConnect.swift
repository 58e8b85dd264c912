import BrokerModel
import MQTTCodec

/// A CONNECT that is not answered yet: how far it has come, and what it waits for.
///
///     read ──► identified ──► verified ──► claimed ──► (connected)
///                  └──────────────┴──► the client's own shard, where it goes on from the state that it had
///
/// Owned by its connection's `ConnectionExtras`, from the packet to CONNACK. It is one object that the steps hand on:
/// the packet, which is large, is copied by none of them. All that happens to it comes in by
/// `BrokerShard.advance(_:_:)`.
final class PendingConnect {
    /// What is known of the client. Each state has a step that leads to the next one; a step that finds something wrong
    /// throws a `ConnectRefusal`.
    enum State {
        /// The packet is well-formed, and was compared with nothing. `identify` goes to `identified`.
        case read
        /// The packet keeps to the limits and its listener's rules, and has the Client Identifier that its client has
        /// from now on, unless that is the user name that the login will prove. `verify` goes to `verified`.
        case identified
        /// It is known who the user is, and the Client Identifier is final. `claim` goes to `claimed`.
        case verified(VerifiedLogin)
        /// The session is this node's, and nothing stands in the way of the client. `admit` sends CONNACK: the
        /// connection is `connected`, and forgets this.
        case claimed(VerifiedLogin, ExistingSession)
    }

    /// The party whose answer the next step waits for.
    enum Awaited {
        /// Nobody's: the step is made at once.
        case nothing
        /// The cluster is to be found, by a node that has just started (`ClusterStart`). `Event.clusterFound` follows.
        case cluster
        /// Others that have waited for the cluster go before it (`ClusterArrivals`). `Event.turnCame` follows.
        case turn
        /// The shell is to decide about the login, or the client to go on with it by AUTH. `Event.authenticated` and
        /// `Event.auth` follow.
        case authentication
        /// The client lives on another shard, where its connection goes when the turn ends and its output is sent.
        case otherShard
        /// The cluster is to say that this node keeps the session. `Event.claimed` or `Event.claimFailed` follows.
        case claim
    }

    /// What can happen to a CONNECT.
    enum Event {
        /// It has come here: from the client, from another shard, or from inside the process.
        case begun
        /// The node has found its cluster.
        case clusterFound
        /// Nobody goes before it any more.
        case turnCame
        /// The shell has answered an `AuthenticationRequest`.
        case authenticated(AuthenticationOutcome)
        /// The client has sent AUTH.
        case auth(AuthPacket)
        /// This node keeps the session, by the claim of this number.
        case claimed(epoch: UInt64)
        /// Nobody says that this node keeps the session, or another connection has come for it.
        case claimFailed(ConnectRefusal)
        /// The timer of the connection has fired.
        case timedOut
    }

    /// Changed by `identify`, and by the login that tells who the user is.
    var packet: ConnectPacket
    var state: State
    var awaited = Awaited.nothing
    /// Whether the packet has the identifier that its client has from now on.
    var isNamed: Bool
    /// Whether the broker chose it, so that CONNACK tells it.
    var hasAssignedIdentifier = false
    /// What the client's topics begin with inside the broker; known when its login is.
    var mountPoint: [UInt8] = []
    /// Whether it has waited for others: it does so once.
    var hadTurn = false
    /// By which claim this node keeps the session; nil before the cluster has said so, and where sessions are not the
    /// cluster's.
    var epoch: UInt64?
    /// The bytes of memory that the packet took when it came.
    let heldBytes: Int

    /// - Parameter state: what is known already; from `identified` on the packet has its client's identifier.
    init(_ packet: consuming ConnectPacket, _ state: State = .read) {
        heldBytes = packet.heldBytes
        self.packet = packet
        self.state = state
        isNamed = if case .read = state { false } else { true }
    }

    var clientIdentifier: EncodedString { packet.clientIdentifier }
    /// Whether the name that CONNECT gives may be a token that looks like nothing: until the login says who the user
    /// is.
    var hidesUserName = false
    /// The one that CONNECT names, without a token that it may be; from `verified` on the one that was proved.
    var userName: EncodedString? { hidesUserName ? packet.userName?.tokenFingerprint : packet.userName?.withoutToken }
    /// The login that was accepted; nil before.
    var login: VerifiedLogin? {
        switch state {
        case .read, .identified: nil
        case .verified(let login), .claimed(let login, _): login
        }
    }
}

/// Why a client is not let in.
struct ConnectRefusal: Error {
    let reason: ReasonCode
    /// For the log, and for a 5.0 client that wants to hear it.
    let explanation: String
    /// What the log says instead; nil if it may say what the client is told.
    let failure: LoginFailure?
    /// Where the client is to go instead.
    let reference: EncodedString?
    /// Whether the log tells of it.
    let isTold: Bool

    init(
        _ reason: ReasonCode, _ explanation: String, failure: LoginFailure? = nil, reference: EncodedString? = nil,
        isTold: Bool = true
    ) {
        (self.reason, self.explanation, self.failure) = (reason, explanation, failure)
        (self.reference, self.isTold) = (reference, isTold)
    }
}

/// CONNECT, from its packet to CONNACK.
extension Connecting {
    /// CONNECT has arrived.
    func handleConnect(_ packet: consuming ConnectPacket, _ connection: Connection) {
        begin(PendingConnect(packet), connection)
        advance(connection, .begun)
    }

    /// Gives a connection its CONNECT, and what all that is sent on it goes by.
    func begin(_ connect: PendingConnect, _ connection: Connection) {
        connection.version = connect.packet.version
        connection.client.isBridge = connect.packet.isBridge
        connection.client.requestsProblemInformation = connect.packet.properties.requestProblemInformation ?? true
        connection.setMaximumPacketSize(asked: connect.packet.properties.maximumPacketSize)
        if connect.login == nil { connect.hidesUserName = shard.settings.policy(of: connection.info.listener).hidesUserNames }
        connection.makeExtras().pendingConnect = connect
        connection.state = .authenticating
    }

    /// Something has happened to a CONNECT: it goes on as far as it can. Nothing happens to a connection that has none.
    func advance(_ connection: Connection, _ event: PendingConnect.Event) {
        guard connection.state == .authenticating, let connect = connection.extras?.pendingConnect else { return }
        do throws(ConnectRefusal) {
            try handle(event, connect, connection)
            while connect.awaited == .nothing, connection.state == .authenticating {
                switch connect.state {
                case .read: try identify(connect, connection)
                case .identified: try shard.authentication.verify(connect, connection)
                case .verified(let login): try claim(connect, login, connection)
                case .claimed(let login, let existing): admit(connect, login, existing, connection)
                }
            }
        } catch {
            refuseConnect(connection, error)
        }
    }

    /// What an event means to a CONNECT that waits, or does not. An answer to what is not asked any more says nothing.
    private func handle(
        _ event: PendingConnect.Event, _ connect: PendingConnect, _ connection: Connection
    ) throws(ConnectRefusal) {
        switch event {
        case .begun:
            try checkIsOpen(connection)
        case .clusterFound:
            guard connect.awaited == .cluster else { return }
            connect.awaited = .turn
            shard.clusterMessaging.lineUp(connection)
        case .turnCame:
            guard connect.awaited == .turn else { return }
            (connect.awaited, connect.hadTurn) = (.nothing, true)
        case .authenticated(let outcome):
            guard connect.awaited == .authentication else { return }
            try shard.authentication.decide(outcome, connect, connection)
        case .auth(let auth):
            try shard.authentication.continueAuthentication(auth, connect, connection)
        case .claimed(let epoch):
            guard connect.awaited == .claim else { return }
            (connect.awaited, connect.epoch) = (.nothing, epoch)
        case .claimFailed(let refusal):
            guard connect.awaited == .claim else { return }
            throw refusal
        case .timedOut:
            try endWait(connect, connection)
        }
    }

    /// The time for a CONNECT is over: for the packet, or for what it waits for.
    func connectTimedOut(_ connection: Connection) {
        if connection.extras?.pendingConnect == nil { endUnanswered(connection) } else { advance(connection, .timedOut) }
    }

    private func endWait(_ connect: PendingConnect, _ connection: Connection) throws(ConnectRefusal) {
        switch connect.awaited {
        case .cluster:
            _ = shard.cluster?.start?.remove(connection.id)
            throw ClusterMessaging.withoutCluster
        case .claim:
            forgetClaim(of: connect, connection)
            throw ConnectRefusal(
                .serverUnavailable, "the cluster has not answered in time which node has the session.")
        case .nothing, .turn, .authentication, .otherShard:
            endUnanswered(connection)
        }
    }

    private func endUnanswered(_ connection: Connection) {
        shard.logConnection(.notice) {
            "Client \(connection.logName) \(connection.logPosition) sent no CONNECT in time, disconnecting."
        }
        shard.presence.reportRefusal(of: connection, .unspecifiedError, "no CONNECT in time", isSilent: true)
        shard.disconnecting.end(connection)
    }

    /// CONNECT may have been on its way when the broker was told to stop, or its listener was closed.
    private func checkIsOpen(_ connection: Connection) throws(ConnectRefusal) {
        if shard.policy.isStopping { throw ConnectRefusal(.serverUnavailable, "the broker is shutting down.") }
        if shard.settings.policy(of: connection.info.listener).isClosed {
            throw ConnectRefusal(.serverUnavailable, "its listener was closed.")
        }
    }

    // MARK: Refusing

    /// Answers CONNECT with an error and closes. [MQTT-3.2.2-7 v5] [MQTT-3.2.2-5 v3.1.1]
    func refuseConnect(_ connection: Connection, _ refusal: ConnectRefusal) {
        shard.logRefusal(
            of: connection, refusal.reason, because: refusal.explanation, failure: refusal.failure, isTold: refusal.isTold)
        var answer = ConnackPacket(reasonCode: refusal.reason)
        answer.returnCode = Self.returnCode(for: refusal.reason)
        answer.properties.reasonString = EncodedString(refusal.explanation)
        answer.properties.serverReference = refusal.reference
        shard.sending.sendConnack(answer, to: connection)
        // The decision that somebody may still be asked for is made.
        if connection.state == .authenticating { connection.state = .awaitingConnect }
        shard.disconnecting.close(connection)
    }

    func refuseConnect(_ connection: Connection, _ reason: ReasonCode, _ explanation: String) {
        refuseConnect(connection, ConnectRefusal(reason, explanation))
    }

    /// Answers a CONNECT that could not be read: 3.1.1 demands a return code for an unknown level, and otherwise
    /// silence.
    func refuseConnect(_ connection: Connection, _ error: WireError, _ body: UnsafeRawBufferPointer, firstByte: UInt8) {
        let announced = ConnectPacket.announcedLevel(body)
        if error == .unsupportedProtocolVersion {
            // [MQTT-3.1.2-2 v3.1.1] A 5.0 server may answer too: [MQTT-3.1.2-2 v5]
            connection.version = .v311
            shard.sending.sendConnack(ConnackPacket(returnCode: .unacceptableProtocolVersion), to: connection)
        } else if announced == ProtocolVersion.v5.rawValue, error != .protocolName {
            connection.version = .v5
            shard.sending.sendConnack(ConnackPacket(reasonCode: error.reasonCode), to: connection)
        }
        let stranger = strangerWords(firstByte, body, connection)
        shard.logRefusal(of: connection, error.reasonCode, because: stranger ?? "\(error.explanation)")
        shard.disconnecting.close(connection)
    }

    /// What to say of a client that speaks another protocol than MQTT, which nothing else would tell its operator; nil
    /// for one that does.
    func strangerWords(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) -> String? {
        let port = shard.settings.listeners[connection.info.listener].port
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
