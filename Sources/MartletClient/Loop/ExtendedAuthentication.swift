internal import ClientCore
internal import MQTTCodec

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
final class ExtendedAuthentication {
    /// The exchange under way.
    private var exchange: (any AuthenticationExchange)?
    /// The step of it that is awaited: what an earlier one says is nothing.
    private var lastStep = 0
    /// On the connection that stands.
    private var reauthentication: Reauthentication?

    /// Whether the client shows once more who it is.
    var isReauthenticating: Bool { reauthentication != nil }

    /// When the server, or our own next step, has taken too long; nil unless the client shows once more who it is.
    var deadline: UInt64? { reauthentication?.deadline }

    /// An attempt begins: what an earlier exchange still says is nothing.
    func forget() {
        exchange = nil
        lastStep += 1
    }

    func begin(_ authenticator: any Authenticator, _ engine: ClientEngine) {
        engine.session.options.connectProperties.authenticationMethod = EncodedString(authenticator.method)
        step(authenticator.makeExchange(), engine) { try await $0.begin() }
    }

    func reauthenticate(_ call: AwaitedOutcome<Void>, _ engine: ClientEngine) {
        guard engine.session.options.version == .v5 else {
            call.complete(.failure(.unsupported("re-authentication needs MQTT 5.0, which the settings' version is not")))
            return
        }
        guard case .authenticator(let authenticator) = engine.login else {
            call.complete(
                .failure(.settings("login: only an authenticator can authenticate again; others show who they are in CONNECT")))
            return
        }
        switch engine.phase {
        case .online where reauthentication != nil: reauthentication?.calls.append(call)
        case .online:
            reauthentication = Reauthentication(
                calls: [call], deadline: engine.loop.now + engine.settings.connectTimeout.milliseconds)
            step(authenticator.makeExchange(), engine) { try await $0.begin() }
        case .refused(let error): call.complete(.failure(error))
        case .ended: call.complete(.failure(.ended))
        case .idle, .preparing, .dialing, .opening, .closing, .pausing: call.complete(.failure(.notConnected))
        }
    }

    /// AUTH from the server.
    func received(_ packet: AuthPacket, _ engine: ClientEngine) {
        switch engine.phase {
        case .opening(let connection):
            guard let exchange else { return }
            // What the session lets through here goes on.
            guard packet.reasonCode == .continueAuthentication else {
                return engine.beginClosing(
                    connection, engine.next(after: .refused(packet.reasonCode, packet.properties.reasonString?.description)))
            }
            answer(packet, exchange, engine)
        case .online(let connection): received(packet, on: connection, engine)
        default: break
        }
    }

    private func received(_ packet: AuthPacket, on connection: ServerConnection, _ engine: ClientEngine) {
        guard reauthentication?.isSent == true, let exchange else {
            // A server does not begin it. [MQTT-4.12.1-1 v5]
            return engine.leaveFor(
                .protocolError, connection,
                .tryAgain(engine.connecting.unreachable("it broke the protocol: AUTH that was not asked for")))
        }
        switch packet.reasonCode {
        case .continueAuthentication: answer(packet, exchange, engine)
        case .success:
            if let error = finish(exchange, packet.properties.authenticationData, engine) {
                end(.failure(error))
                engine.leaveFor(.notAuthorized, connection, engine.next(after: error))
            } else {
                end(.success(()))
            }
        default:
            engine.leaveFor(
                .protocolError, connection,
                .tryAgain(engine.connecting.unreachable("it broke the protocol: AUTH \(packet.reasonCode)")))
        }
    }

    private func answer(_ packet: AuthPacket, _ exchange: any AuthenticationExchange, _ engine: ClientEngine) {
        let data = packet.properties.authenticationData ?? []
        step(exchange, engine) { try await $0.answer(data) }
    }

    private func step(
        _ exchange: any AuthenticationExchange, _ engine: ClientEngine,
        _ body: @escaping @Sendable (inout any AuthenticationExchange) async throws -> [UInt8]?
    ) {
        lastStep += 1
        engine.take(step: lastStep, of: exchange, body)
    }

    /// A step is done: the first goes with CONNECT or begins anew, the others go in AUTH. One of an exchange that is
    /// over is none.
    func stepped(_ step: Int, _ result: Result<(any AuthenticationExchange, [UInt8]?), ClientError>, _ engine: ClientEngine) {
        guard step == lastStep else { return }
        switch (result, engine.phase) {
        case (.success((let exchange, let data)), .preparing):
            self.exchange = exchange
            engine.session.options.connectProperties.authenticationData = data
            engine.loggedIn(nil)
        case (.success((let exchange, let data)), .opening(let connection)):
            self.exchange = exchange
            sendAuth(.continueAuthentication, data, connection, engine)
        case (.success((let exchange, let data)), .online(let connection)):
            guard let isSent = reauthentication?.isSent else { return }
            self.exchange = exchange
            reauthentication?.isSent = true
            sendAuth(isSent ? .continueAuthentication : .reauthenticate, data, connection, engine)
        case (.failure(let error), .preparing): engine.arrive(engine.next(after: error))
        case (.failure(let error), .opening(let connection)): engine.beginClosing(connection, engine.next(after: error))
        case (.failure(let error), .online(let connection)):
            guard let isSent = reauthentication?.isSent else { return }
            end(.failure(error))
            if isSent { engine.leaveFor(.notAuthorized, connection, engine.next(after: error)) }
        default: break
        }
    }

    private func sendAuth(
        _ reason: ReasonCode, _ data: [UInt8]?, _ connection: ServerConnection, _ engine: ClientEngine
    ) {
        var properties = Properties()
        properties.authenticationData = data
        do throws(RequestRefusal) {
            try engine.session.authenticate(AuthPacket(reasonCode: reason, properties: properties), now: engine.loop.now)
        } catch .packetTooLarge {
            let error = ClientError(.packetTooLarge)
            end(.failure(error))
            engine.leaveFor(.unspecifiedError, connection, .tryAgain(error))
        } catch {
            // The session has given the connection up, which its event tells.
        }
    }

    /// What a step has thrown. A refusal of its own and what is wrong with the settings stay what they are.
    fileprivate static func failure(
        _ error: any Error, _ server: ServerAddress, _ what: String = "the login is not known"
    ) -> ClientError {
        switch error as? ClientError {
        case .refused(let reason, let words, let userProperties)?: .refused(reason, words, userProperties)
        case .settings(let why)?: .settings(why)
        default: .unreachable(server: "\(server)", reason: "\(what): \(error)")
        }
    }

    /// CONNACK: returns why the server is not to be trusted, nil if it is.
    func finish(_ packet: ConnackPacket, _ engine: ClientEngine) -> ClientError? {
        guard let finished = exchange else { return nil }
        exchange = nil
        return finish(finished, packet.properties.authenticationData, engine)
    }

    private func finish(_ exchange: any AuthenticationExchange, _ data: [UInt8]?, _ engine: ClientEngine) -> ClientError? {
        var finished = exchange
        do {
            try finished.finish(data)
            return nil
        } catch {
            return Self.failure(error, engine.connecting.server, "the server's proof was not accepted")
        }
    }

    /// It is over, well or not; what its steps still say is nothing.
    func end(_ outcome: Result<Void, ClientError>) {
        guard let ended = reauthentication.take() else { return }
        exchange = nil
        lastStep += 1
        for call in ended.calls { call.complete(outcome) }
    }

    /// The server has not answered in time, or our own step has not come: nobody knows whether it still takes us for
    /// who we are.
    func timedOut(_ engine: ClientEngine) {
        guard case .online(let connection) = engine.phase, let isSent = reauthentication?.isSent else { return }
        end(.failure(.timedOut))
        if isSent { engine.leaveFor(.unspecifiedError, connection, .tryAgain(.timedOut)) }
    }
}

extension ClientEngine {
    /// Has a step taken on a task of its own; `authenticated` says what came of it.
    fileprivate func take(
        step number: Int, of exchange: any AuthenticationExchange,
        _ body: @escaping @Sendable (inout any AuthenticationExchange) async throws -> [UInt8]?
    ) {
        let server = connecting.server
        Task(executorPreference: loop.taskExecutor) { [self] in
            var exchange = exchange
            do {
                let data = try await body(&exchange)
                post(.authenticated(step: number, .success((exchange, data))))
            } catch {
                post(.authenticated(step: number, .failure(ExtendedAuthentication.failure(error, server))))
            }
        }
    }
}
