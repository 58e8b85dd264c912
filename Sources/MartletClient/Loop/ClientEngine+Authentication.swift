internal import ClientCore
internal import MQTTCodec
internal import Synchronization

/// A client that shows once more who it is, on a connection that stands.
struct Reauthentication {
    /// The calls that wait for its end.
    var calls: [AwaitedOutcome<Void>]
    /// When the server, or our own next step, has taken too long.
    let deadline: UInt64
    /// Whether the server has heard of it: then it cannot be left half done. [MQTT-4.12.1-2 v5]
    var isSent = false
}

/// Extended authentication: each step is a task of its own, for it may take long.
///
/// ```
///   beginAttempt ──► step ──► CONNECT ──► AUTH ──► step ──► AUTH … ──► CONNACK ──► finish
///   reauthenticate ──► step ──► AUTH (Re-authenticate) ──► AUTH ──► step ──► AUTH … ──► AUTH (Success) ──► finish
/// ```
extension ClientEngine {
    func beginExchange(_ authenticator: any Authenticator) {
        session.options.connectProperties.authenticationMethod = EncodedString(authenticator.method)
        step(authenticator.makeExchange()) { try await $0.begin() }
    }

    func reauthenticate(_ call: AwaitedOutcome<Void>) {
        guard session.options.version == .v5 else {
            call.complete(.failure(.unsupported("re-authentication needs MQTT 5.0, which the settings' version is not")))
            return
        }
        guard case .authenticator(let authenticator) = login else {
            call.complete(
                .failure(.settings("login: only an authenticator can authenticate again; others show who they are in CONNECT")))
            return
        }
        switch phase {
        case .online where reauthentication != nil: reauthentication?.calls.append(call)
        case .online:
            reauthentication = Reauthentication(calls: [call], deadline: loop.now + settings.connectTimeout.milliseconds)
            step(authenticator.makeExchange()) { try await $0.begin() }
        case .refused(let error): call.complete(.failure(error))
        case .ended: call.complete(.failure(.ended))
        case .idle, .preparing, .dialing, .opening, .closing, .pausing: call.complete(.failure(.notConnected))
        }
    }

    /// AUTH from the server.
    func receivedChallenge(_ packet: AuthPacket) {
        switch phase {
        case .opening(let connection):
            guard let exchange else { return }
            // What the session lets through here goes on.
            guard packet.reasonCode == .continueAuthentication else {
                return beginClosing(
                    connection, next(after: .refused(packet.reasonCode, packet.properties.reasonString?.description)))
            }
            answer(packet, exchange)
        case .online(let connection): receivedChallenge(packet, on: connection)
        default: break
        }
    }

    private func receivedChallenge(_ packet: AuthPacket, on connection: ServerConnection) {
        guard reauthentication?.isSent == true, let exchange else {
            // A server does not begin it. [MQTT-4.12.1-1 v5]
            return leaveFor(
                .protocolError, connection, .tryAgain(connecting.unreachable("it broke the protocol: AUTH that was not asked for")))
        }
        switch packet.reasonCode {
        case .continueAuthentication: answer(packet, exchange)
        case .success:
            if let error = finish(exchange, packet.properties.authenticationData) {
                endReauthentication(.failure(error))
                leaveFor(.notAuthorized, connection, next(after: error))
            } else {
                endReauthentication(.success(()))
            }
        default:
            leaveFor(
                .protocolError, connection, .tryAgain(connecting.unreachable("it broke the protocol: AUTH \(packet.reasonCode)")))
        }
    }

    private func answer(_ packet: AuthPacket, _ exchange: any AuthenticationExchange) {
        let data = packet.properties.authenticationData ?? []
        step(exchange) { try await $0.answer(data) }
    }

    private func step(
        _ exchange: any AuthenticationExchange,
        _ body: @escaping @Sendable (inout any AuthenticationExchange) async throws -> [UInt8]?
    ) {
        lastStep += 1
        let (number, server) = (lastStep, connecting.server)
        Task(executorPreference: loop.taskExecutor) { [self] in
            var exchange = exchange
            do {
                let data = try await body(&exchange)
                post(.authenticated(step: number, .success((exchange, data))))
            } catch {
                post(.authenticated(step: number, .failure(Self.failure(error, server))))
            }
        }
    }

    /// A step is done: the first goes with CONNECT or begins anew, the others go in AUTH. One of an exchange that is
    /// over is none.
    func authenticated(_ step: Int, _ result: Result<(any AuthenticationExchange, [UInt8]?), ClientError>) {
        guard step == lastStep else { return }
        switch (result, phase) {
        case (.success((let exchange, let data)), .preparing):
            self.exchange = exchange
            session.options.connectProperties.authenticationData = data
            loggedIn(nil)
        case (.success((let exchange, let data)), .opening(let connection)):
            self.exchange = exchange
            sendAuth(.continueAuthentication, data, connection)
        case (.success((let exchange, let data)), .online(let connection)):
            guard let isSent = reauthentication?.isSent else { return }
            self.exchange = exchange
            reauthentication?.isSent = true
            sendAuth(isSent ? .continueAuthentication : .reauthenticate, data, connection)
        case (.failure(let error), .preparing): arrive(next(after: error))
        case (.failure(let error), .opening(let connection)): beginClosing(connection, next(after: error))
        case (.failure(let error), .online(let connection)):
            guard let isSent = reauthentication?.isSent else { return }
            endReauthentication(.failure(error))
            if isSent { leaveFor(.notAuthorized, connection, next(after: error)) }
        default: break
        }
    }

    private func sendAuth(_ reason: ReasonCode, _ data: [UInt8]?, _ connection: ServerConnection) {
        var properties = Properties()
        properties.authenticationData = data
        do throws(RequestRefusal) {
            try session.authenticate(AuthPacket(reasonCode: reason, properties: properties), now: loop.now)
        } catch .packetTooLarge {
            let error = ClientError(.packetTooLarge)
            endReauthentication(.failure(error))
            leaveFor(.unspecifiedError, connection, .tryAgain(error))
        } catch {
            // The session has given the connection up, which its event tells.
        }
    }

    /// What a step has thrown. A refusal of its own and what is wrong with the settings stay what they are.
    private static func failure(
        _ error: any Error, _ server: ServerAddress, _ what: String = "the login is not known"
    ) -> ClientError {
        switch error as? ClientError {
        case .refused(let reason, let words, let userProperties)?: .refused(reason, words, userProperties)
        case .settings(let why)?: .settings(why)
        default: .unreachable(server: "\(server)", reason: "\(what): \(error)")
        }
    }

    /// CONNACK: returns why the server is not to be trusted, nil if it is.
    func finishExchange(_ packet: ConnackPacket) -> ClientError? {
        guard let finished = exchange else { return nil }
        exchange = nil
        return finish(finished, packet.properties.authenticationData)
    }

    private func finish(_ exchange: any AuthenticationExchange, _ data: [UInt8]?) -> ClientError? {
        var finished = exchange
        do {
            try finished.finish(data)
            return nil
        } catch {
            return Self.failure(error, connecting.server, "the server's proof was not accepted")
        }
    }

    /// It is over, well or not; what its steps still say is nothing.
    func endReauthentication(_ outcome: Result<Void, ClientError>) {
        guard let ended = reauthentication.take() else { return }
        exchange = nil
        lastStep += 1
        for call in ended.calls { call.complete(outcome) }
    }

    /// The server has not answered in time, or our own step has not come: nobody knows whether it still takes us for
    /// who we are.
    func reauthenticationTimedOut() {
        guard case .online(let connection) = phase, let isSent = reauthentication?.isSent else { return }
        endReauthentication(.failure(.timedOut))
        if isSent { leaveFor(.unspecifiedError, connection, .tryAgain(.timedOut)) }
    }

    private func leaveFor(_ reason: ReasonCode, _ connection: ServerConnection, _ next: AfterClosing) {
        isOnline.store(false, ordering: .relaxed)
        session.disconnect(reason, now: loop.now)
        beginClosing(connection, next)
    }
}
