/// Extended authentication: each step is a task of its own, for it may take long.
extension ClientEngine {
    func beginExchange(_ authenticator: any Authenticator) {
        session.options.connectProperties.authenticationMethod = EncodedString(authenticator.method)
        step(authenticator.makeExchange()) { try await $0.begin() }
    }

    /// AUTH from the server.
    func receivedChallenge(_ packet: AuthPacket) {
        guard let exchange, case .opening(let connection) = phase else { return }
        guard packet.reasonCode == .continueAuthentication else {
            return beginClosing(connection, .refuse(.refused(packet.reasonCode, packet.properties.reasonString?.description)))
        }
        let data = packet.properties.authenticationData ?? []
        step(exchange) { try await $0.answer(data) }
    }

    private func step(
        _ exchange: any AuthenticationExchange,
        _ body: @escaping @Sendable (inout any AuthenticationExchange) async throws -> [UInt8]?
    ) {
        let attempt = connecting.serial
        Task(executorPreference: loop.taskExecutor) { [self] in
            var exchange = exchange
            do {
                let data = try await body(&exchange)
                post(.authenticated(attempt: attempt, .success((exchange, data))))
            } catch {
                post(
                    .authenticated(
                        attempt: attempt, .failure(error as? ClientError ?? .refused(.badAuthenticationMethod, "\(error)"))))
            }
        }
    }

    /// A step is done: the first goes with CONNECT, the others in AUTH.
    func authenticated(_ attempt: Int, _ result: Result<(any AuthenticationExchange, [UInt8]?), ClientError>) {
        guard attempt == connecting.serial else { return }
        switch (result, phase) {
        case (.success((let exchange, let data)), .preparing):
            self.exchange = exchange
            session.options.connectProperties.authenticationData = data
            dial(nil)
        case (.success((let exchange, let data)), .opening):
            self.exchange = exchange
            var properties = Properties()
            properties.authenticationMethod = session.options.connectProperties.authenticationMethod
            properties.authenticationData = data
            // The connection may have gone meanwhile; then the attempt has ended, too.
            try? session.authenticate(AuthPacket(reasonCode: .continueAuthentication, properties: properties), now: loop.now)
        case (.failure(let error), .preparing): giveUp(error)
        case (.failure(let error), .opening(let connection)): beginClosing(connection, .refuse(error))
        default: break
        }
    }

    /// CONNACK: returns why the server is not to be trusted, nil if it is.
    func finishExchange(_ packet: ConnackPacket) -> ClientError? {
        guard var finished = exchange else { return nil }
        exchange = nil
        do {
            try finished.finish(packet.properties.authenticationData)
            return nil
        } catch {
            return error as? ClientError ?? .refused(.badAuthenticationMethod, "\(error)")
        }
    }
}
