internal import EpollLoop
internal import Platform
internal import Synchronization
internal import Transports

/// What follows when a connection has said its last word.
enum AfterClosing {
    /// It was asked for.
    case stay
    /// It is of no use to go on.
    case refuse(ClientError)
    /// The next attempt, after a pause.
    case tryAgain(ClientError)
    /// The next attempt at once, at another server or with another login.
    case tryAtOnce
    /// For good.
    case end
}

/// From the wish to be connected to the server's word, and back.
extension ClientEngine {
    func start(_ call: AwaitedOutcome<Void>?) {
        if let call { startCalls.append(call) } else { staysForEver = true }
        switch phase {
        case .idle, .refused:
            connecting.start()
            beginAttempt()
        case .online: completeStart(.success(()))
        case .ended: completeStart(.failure(.ended))
        case .closing:
            if case .stay? = afterClosing { afterClosing = .tryAtOnce }
        case .preparing, .dialing, .opening, .pausing: break
        }
    }

    func reconnectNow() {
        if case .pausing = phase { beginAttempt() }
    }

    /// Nothing is tried until `start`.
    func disconnect(_ reason: ReasonCode, _ properties: Properties, _ call: AwaitedOutcome<Void>?) {
        if let call { endCalls.append(call) }
        staysForEver = false
        completeStart(.failure(.cancelled))
        leave(.stay, reason, properties)
    }

    func end() {
        completeStart(.failure(.ended))
        for call in publishing.removeAll() { call.call.complete(.failure(.ended)) }
        for pipe in pipes.values { pipe.end(nil) }
        endRecords()
        (pipes, numbers, gathering, fullPipes) = ([:], [:], [], [])
        subscriptions = SubscriptionTable(chance: loop.random())
        leave(.end, .normalDisconnection)
    }

    private func leave(_ next: AfterClosing, _ reason: ReasonCode, _ properties: Properties = Properties()) {
        switch phase {
        case .online(let connection):
            isOnline.store(false, ordering: .relaxed)
            session.disconnect(reason, properties: properties, now: loop.now)
            beginClosing(connection, next)
        case .closing: afterClosing = next
        case .opening(let connection):
            lose(connection)
            arrive(next)
        case .dialing(let dialer):
            dialer.cancel()
            arrive(next)
        case .idle, .preparing, .pausing, .refused: arrive(next)
        case .ended:
            for call in endCalls { call.complete(.success(())) }
            endCalls = []
        }
    }

    func beginClosing(_ connection: ServerConnection, _ next: AfterClosing) {
        afterClosing = next
        phase = .closing(connection, deadline: loop.now + Limits.goodbyeMillisecondsMax)
        loop.touch(self)
    }

    /// The connection of `closing` is over.
    func closed(_ connection: ServerConnection) {
        lose(connection)
        let next = afterClosing ?? .stay
        afterClosing = nil
        arrive(next)
    }

    /// Nothing is left of a connection but what its session knows.
    private func lose(_ connection: ServerConnection) {
        if case .opening = phase { connecting.abandoned(now: loop.now) }
        isOnline.store(false, ordering: .relaxed)
        outputByteCount.store(0, ordering: .relaxed)
        connection.close()
        session.transportClosed()
        records?.gate.connectionEnded()
        for case .forget(let call) in serverRequests.values { call.complete(.failure(.notConnected)) }
        serverRequests = [:]
        publishing.releaseWaitingForRoom { $0.call.complete(.failure(.notConnected)) }
    }

    private func arrive(_ next: AfterClosing) {
        switch next {
        case .stay:
            phase = .idle
            state.set(.offline)
        case .end:
            phase = .ended
            state.set(.ended)
            state.finish()
        case .refuse(let error): giveUp(error)
        case .tryAgain(let error): attemptFailed(error)
        case .tryAtOnce: beginAttempt()
        }
        for call in endCalls { call.complete(.success(())) }
        endCalls = []
    }

    private func completeStart(_ outcome: Result<Void, ClientError>) {
        for call in startCalls { call.complete(outcome) }
        startCalls = []
    }

    /// The store takes nothing any more, so nothing can be promised.
    func giveUpForStore(_ error: ClientError) {
        switch phase {
        case .online(let connection), .opening(let connection):
            isOnline.store(false, ordering: .relaxed)
            beginClosing(connection, .refuse(error))
        case .closing: afterClosing = .refuse(error)
        case .dialing(let dialer):
            dialer.cancel()
            giveUp(error)
        case .idle, .preparing, .pausing, .refused: giveUp(error)
        case .ended: break
        }
    }

    func giveUp(_ error: ClientError) {
        phase = .refused(error)
        staysForEver = false
        state.set(.refused(error))
        completeStart(.failure(error))
        for call in publishing.removeAll() {
            if let ticket = call.ticket { _ = session.withdraw(ticket) }
            call.call.complete(.failure(error))
        }
    }
}

// MARK: - Attempts

extension ClientEngine {
    /// Tries the server whose turn it is.
    func beginAttempt() {
        phase = .preparing
        connecting.begin(now: loop.now)
        state.set(.connecting(attempt: connecting.number))
        loop.touch(self)
        switch settings.login {
        case .none: dial(nil)
        case .password(let user, let password): dial(Credentials(user: user, password: password))
        case .provider(let provider): ask(provider)
        case .authenticator(let authenticator): beginExchange(authenticator)
        }
    }

    private func ask(_ provider: @escaping @Sendable () async throws -> Credentials) {
        let attempt = connecting.serial
        Task(executorPreference: loop.taskExecutor) { [self] in
            do {
                post(.credentials(attempt: attempt, .success(try await provider())))
            } catch {
                post(.credentials(attempt: attempt, .failure(.unreachable("the login is not known: \(error)"))))
            }
        }
    }

    func received(_ attempt: Int, _ result: Result<Credentials, ClientError>) {
        guard case .preparing = phase, attempt == connecting.serial else { return }
        switch result {
        case .success(let credentials): dial(credentials)
        case .failure(let error): attemptFailed(error)
        }
    }

    func dial(_ credentials: Credentials?) {
        session.options.userName = credentials.flatMap { EncodedString($0.user) }
        session.options.password = credentials?.password
        switch connecting.server.kind {
        case .network(let host, let port, _, _):
            let attempt = connecting.serial
            loop.resolver.resolve(host, port: port) { [self] in post(.resolved(attempt: attempt, $0)) }
        case .unix(let path):
            if let address = SocketAddress.unix(path: path) { race([address]) }
        case .custom(let name, let connect):
            do {
                open(try connect())
            } catch {
                attemptFailed(.unreachable("\(name): \(error)"))
            }
        case .invalid(let text, let reason): giveUp(.settings("server address \(text): \(reason)"))
        }
    }

    func resolved(_ attempt: Int, _ result: Result<[SocketAddress], ClientError>) {
        guard case .preparing = phase, attempt == connecting.serial else { return }
        switch result {
        case .success(let addresses): race(addresses)
        case .failure(let error): attemptFailed(error)
        }
    }

    private func race(_ addresses: [SocketAddress]) {
        let dialer = Dialer(addresses, from: localAddresses, loop: loop) { [unowned self] result in
            switch result {
            case .success(let channel): putLayers(on: channel)
            case .failure(let error): attemptFailed(error)
            }
        }
        phase = .dialing(dialer)
        dialer.advance(now: loop.now)
    }

    private func putLayers(on channel: SocketChannel) {
        do throws(ClientError) {
            let layers = try connecting.layers(settings)
            do throws(SystemError) {
                open(try layers.put(on: channel, workspace: loop.workspace))
            } catch {
                attemptFailed(.unreachable("\(error)"))
            }
        } catch {
            channel.close()
            giveUp(error)
        }
    }

    private func open(_ channel: any ByteChannel) {
        do throws(SystemError) {
            let connection = try ServerConnection(channel, loop: loop, engine: self)
            phase = .opening(connection)
            session.transportOpened(now: loop.now)
            loop.touch(self)
        } catch {
            channel.close()
            attemptFailed(.unreachable("\(error)"))
        }
    }

    /// The connection has ended, and not by our wish.
    func ended(_ connection: ServerConnection, _ end: ServerConnection.End) {
        handleEventsBeforeEnd()
        switch phase {
        case .opening(let current) where current === connection:
            attemptFailed(connecting.explain(end))
        case .online(let current) where current === connection:
            lose(connection)
            attemptFailed(connecting.explain(end))
        case .closing(let current, _) where current === connection: closed(connection)
        default: connection.close()
        }
    }

    /// The attempt came to nothing, or the connection was lost.
    func attemptFailed(_ error: ClientError) {
        let wasOnline = connecting.wasOnline
        switch phase {
        case .dialing(let dialer): dialer.cancel()
        case .opening(let connection), .closing(let connection, _): lose(connection)
        case .idle, .preparing, .online, .pausing, .refused, .ended: break
        }
        loop.touch(self)
        switch connecting.failed(now: loop.now, chance: loop.random()) {
        case .nextServer: beginAttempt()
        case .pause(let milliseconds):
            if !wasOnline, !staysForEver { return standStill(error) }
            phase = .pausing(until: loop.now + milliseconds)
            state.set(.waiting(milliseconds: milliseconds, error))
        case .stop:
            if !wasOnline { return standStill(error) }
            giveUp(error)
        }
    }

    /// Nobody could be reached, and nobody said that this is to be tried for ever.
    private func standStill(_ error: ClientError) {
        phase = .idle
        state.set(.offline)
        completeStart(.failure(error))
    }
}

// MARK: - The server's word

extension ClientEngine {
    func connected(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        phase = .online(connection)
        let version = session.options.version
        if let refusal = finishExchange(packet) {
            session.disconnect(now: loop.now)
            return beginClosing(connection, .refuse(refusal))
        }
        if let assigned = packet.properties.assignedClientIdentifier { session.options.clientIdentifier = assigned }
        connecting.succeeded(now: loop.now)
        let facts = ServerFacts(
            connectionNumber: connecting.successCount, address: connecting.server.description, version: version,
            isSessionPresent: packet.sessionPresent,
            clientIdentifier: session.options.clientIdentifier.description, properties: packet.properties)
        unmatched.begin(until: loop.now + settings.graceTime.milliseconds)
        let forgotten = subscriptions.connected(sessionPresent: packet.sessionPresent)
        unsubscribe(forgotten)
        sendSubscriptions()
        publishing.releaseOffline {
            publishAtMostOnce($0.publication); $0.call.complete(.success(PublishReceipt()))
        }
        // The rest of the packet takes less, unless it has properties.
        let packetBytes = Int(packet.properties.maximumPacketSize ?? .max) - 32
        unaskedByteCount.store(packet.properties.retainAvailable == false ? 0 : packetBytes, ordering: .relaxed)
        isOnline.store(true, ordering: .relaxed)
        state.set(.online(facts))
        completeStart(.success(()))
    }

    /// CONNACK with an error.
    func refused(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        let reason = packet.failureReason
        let error = ClientError.refused(reason, packet.properties.reasonString?.description)
        switch reason {
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(packet.properties.serverReference, isForGood: reason == .serverMoved)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        case .badUserNameOrPassword, .notAuthorized:
            if case .provider = settings.login, connecting.mayAskForFreshLogin() {
                beginClosing(connection, .tryAtOnce)
            } else {
                beginClosing(connection, .refuse(error))
            }
        case .unsupportedProtocolVersion, .clientIdentifierNotValid, .banned, .badAuthenticationMethod, .protocolError,
            .malformedPacket:
            beginClosing(connection, .refuse(error))
        default: beginClosing(connection, .tryAgain(error))
        }
        told(error)
    }

    /// DISCONNECT from the server.
    func disconnected(_ packet: DisconnectPacket) {
        guard case .online(let connection) = phase else { return }
        isOnline.store(false, ordering: .relaxed)
        let error = ClientError.refused(packet.reasonCode, packet.properties.reasonString?.description)
        switch packet.reasonCode {
        // Our own CONNECT of an attempt that was given up, which the network has brought late.
        case .sessionTakenOver where connecting.takeAbandoned(now: loop.now): beginClosing(connection, .tryAgain(error))
        // Two clients of one identifier would take it from each other for ever.
        case .sessionTakenOver, .banned, .administrativeAction, .notAuthorized: beginClosing(connection, .refuse(error))
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(packet.properties.serverReference, isForGood: packet.reasonCode == .serverMoved)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        default: beginClosing(connection, .tryAgain(error))
        }
        told(error)
    }

    /// The session gives the connection up.
    func failed(_ failure: ClientFailure) {
        let error: ClientError =
            switch failure {
            case .connectTimeout: .timedOut
            case .pingTimeout: .unreachable("the server does not answer any more")
            case .malformed(let error): .unreachable("the server sent what is no MQTT: \(error)")
            case .protocolError(let reason): .unreachable("the server broke the protocol: \(reason)")
            }
        switch phase {
        case .opening(let connection), .online(let connection):
            isOnline.store(false, ordering: .relaxed)
            beginClosing(connection, .tryAgain(error))
        default: break
        }
    }
}

// MARK: - Refusals

extension ClientEngine {
    /// Tells the interceptors what the server refuses, and logs out if one of them says so.
    func told(_ refusal: Refusal) {
        guard isIntercepted, settings.interceptors.didRefuse(refusal) == .logOut else { return }
        disconnect(.normalDisconnection, Properties(), nil)
    }

    /// As above, of a connection that is about to close for it.
    private func told(_ error: ClientError) {
        guard isIntercepted, case .refused(let reason, let words) = error else { return }
        if settings.interceptors.didRefuse(Refusal(.connection, reason, words)) == .logOut { afterClosing = .refuse(error) }
    }
}
