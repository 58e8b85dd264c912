internal import ClientCore
internal import MQTTCodec
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

/// Who wants the client to be connected, and who waits for it not to be.
struct ConnectionWish {
    /// Calls of `connect` that wait for the first success.
    var startCalls: [AwaitedOutcome<Void>] = []
    /// Calls of `disconnect` that wait for the end.
    var endCalls: [AwaitedOutcome<Void>] = []
    /// Whether it is to be connected until somebody says otherwise, whatever fails.
    var staysForEver = false
    /// Whether somebody was told that it is connected, and has not said since that it need not be.
    var isGranted = false

    /// Whether anybody wants it.
    var isThere: Bool { isGranted || staysForEver || !startCalls.isEmpty }

    mutating func completeStart(_ outcome: Result<Void, ClientError>) {
        for call in startCalls where call.complete(outcome) {
            if case .success = outcome { isGranted = true }
        }
        startCalls = []
    }

    mutating func completeEnd() {
        for call in endCalls { call.complete(.success(())) }
        endCalls = []
    }
}

/// From the wish to be connected to the server's word, and back.
extension ClientEngine {
    func start(_ call: AwaitedOutcome<Void>?) {
        if let call { wish.startCalls.append(call) } else { wish.staysForEver = true }
        switch phase {
        case .idle, .refused:
            connecting.start()
            beginAttempt()
        case .online: wish.completeStart(.success(()))
        case .ended: wish.completeStart(.failure(.ended))
        case .closing:
            if case .stay? = afterClosing {
                connecting.start()
                afterClosing = .tryAtOnce
            }
        case .preparing, .dialing, .opening, .pausing: break
        }
    }

    /// A call no longer waits for the first success. If nothing else wants the connection either, it is given up.
    func withdrawStart(_ call: AwaitedOutcome<Void>) {
        wish.startCalls.removeAll { $0 === call }
        if !wish.isThere { disconnect(.normalDisconnection, Properties(), nil) }
    }

    func reconnectNow() {
        if case .pausing = phase { beginAttempt() }
    }

    /// Nothing is tried until `start`.
    func disconnect(_ reason: ReasonCode, _ properties: Properties, _ call: AwaitedOutcome<Void>?) {
        if let call { wish.endCalls.append(call) }
        (wish.staysForEver, wish.isGranted) = (false, false)
        wish.completeStart(.failure(.cancelled))
        leave(.stay, reason, properties)
    }

    func end() {
        wish.completeStart(.failure(.ended))
        for call in publishing.removeAll() { call.call.complete(.failure(.ended)) }
        subscriptions.endAll(self)
        records?.end(self)
        subscriptions.removeAll(chance: loop.random())
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
            wish.completeEnd()
        }
    }

    func beginClosing(_ connection: ServerConnection, _ next: AfterClosing) {
        afterClosing = next
        phase = .closing(connection, deadline: loop.now + Limits.goodbyeMillisecondsMax)
        loop.touch(self)
    }

    /// Ends a connection that stands, for a reason that the server is told.
    func leaveFor(_ reason: ReasonCode, _ connection: ServerConnection, _ next: AfterClosing) {
        isOnline.store(false, ordering: .relaxed)
        session.disconnect(reason, now: loop.now)
        beginClosing(connection, next)
    }

    /// The connection of `closing` is over.
    func closed(_ connection: ServerConnection) {
        lose(connection)
        let next = afterClosing ?? .stay
        afterClosing = nil
        arrive(next)
    }

    /// Nothing is left of a connection but what its session knows.
    func lose(_ connection: ServerConnection) {
        if case .opening = phase { connecting.abandoned(now: loop.now) }
        isOnline.store(false, ordering: .relaxed)
        outputByteCount.store(0, ordering: .relaxed)
        connection.close()
        session.transportClosed()
        authentication.end(.failure(.notConnected))
        endFirstServerCheck()
        records?.gate.connectionEnded()
        subscriptions.connectionEnded()
        publishing.releaseWaitingForRoom { $0.call.complete(.failure(.notConnected)) }
    }

    func arrive(_ next: AfterClosing) {
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
        wish.completeEnd()
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
        wish.staysForEver = false
        state.set(.refused(error))
        wish.completeStart(.failure(error))
        for call in publishing.removeAll() {
            if let ticket = call.ticket { _ = session.withdraw(ticket) }
            call.call.complete(.failure(error))
        }
    }
}

/// What the server answers to CONNECT, and why a connection ends.
extension ClientEngine {
    func connected(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        phase = .online(connection)
        let version = session.options.version
        if let refusal = authentication.finish(packet, self) {
            session.disconnect(now: loop.now)
            return beginClosing(connection, next(after: refusal))
        }
        if let assigned = packet.properties.assignedClientIdentifier { session.options.clientIdentifier = assigned }
        connecting.succeeded(now: loop.now)
        let facts = ServerFacts(
            connectionNumber: connecting.successCount, address: connecting.server.description, version: version,
            isSessionPresent: packet.sessionPresent,
            clientIdentifier: session.options.clientIdentifier.description, properties: packet.properties,
            heldBy: subscriptions.heldBy)
        planFirstServerCheck()
        subscriptions.connected(sessionPresent: packet.sessionPresent, self)
        publishing.releaseOffline {
            publishNow($0)
        }
        // The rest of the packet takes less, unless it has properties.
        let packetBytes = Int(packet.properties.maximumPacketSize ?? .max) - 32
        unaskedByteCount.store(packet.properties.retainAvailable == false ? 0 : packetBytes, ordering: .relaxed)
        isOnline.store(true, ordering: .relaxed)
        state.set(.online(facts))
        wish.completeStart(.success(()))
    }

    /// CONNACK with an error.
    func refused(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        let reason = packet.failureReason
        let error = ClientError(refused: reason, packet.properties)
        switch reason {
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(packet.properties.serverReference, isForGood: reason == .serverMoved, now: loop.now)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        case .badUserNameOrPassword, .notAuthorized:
            if case .provider = login, connecting.mayAskForFreshLogin() {
                beginClosing(connection, .tryAtOnce)
            } else {
                beginClosing(connection, next(after: error))
            }
        default: beginClosing(connection, next(after: error))
        }
        notifyInterceptors(of: error)
    }

    /// Whether a refusal, by the server or by our own authenticator, is final: the settings say it.
    func next(after error: ClientError, wasConnected: Bool = false) -> AfterClosing {
        switch error {
        case .refused(let reason, let words, _):
            let isFinal = settings.reconnect.isFinal(ServerRefusal(reason, words, wasConnected: wasConnected))
            return isFinal ? .refuse(error) : .tryAgain(error)
        case .settings: return .refuse(error)
        default: return .tryAgain(error)
        }
    }

    /// DISCONNECT from the server.
    func disconnected(_ packet: DisconnectPacket) {
        guard case .online(let connection) = phase else { return }
        isOnline.store(false, ordering: .relaxed)
        let error = ClientError(refused: packet.reasonCode, packet.properties)
        authentication.end(.failure(error))
        switch packet.reasonCode {
        // Our own CONNECT of an attempt that was given up, which the network has brought late.
        case .sessionTakenOver where connecting.takeAbandoned(now: loop.now): beginClosing(connection, .tryAgain(error))
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(
                packet.properties.serverReference, isForGood: packet.reasonCode == .serverMoved, now: loop.now)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        default: beginClosing(connection, next(after: error, wasConnected: true))
        }
        notifyInterceptors(of: error)
    }

    /// The session gives the connection up.
    func failed(_ failure: ClientFailure) {
        let error: ClientError =
            switch failure {
            case .connectTimeout: connecting.unreachable("no answer within \(settings.connectTimeout)")
            case .requestTimeout:
                connecting.unreachable("it answers no SUBSCRIBE or UNSUBSCRIBE within \(settings.subscribeTimeout)")
            case .pingTimeout: connecting.unreachable("it does not answer any more")
            case .malformed(let error): connecting.unreachable("it sent what is no MQTT: \(error)")
            case .protocolError(.packetTooLarge):
                .packetTooLarge(server: "\(connecting.server)", maximum: session.options.maximumPacketSize ?? .max)
            case .protocolError(let reason): connecting.unreachable("it broke the protocol: \(reason)")
            }
        switch phase {
        case .opening(let connection), .online(let connection):
            isOnline.store(false, ordering: .relaxed)
            beginClosing(connection, .tryAgain(error))
        default: break
        }
    }
}

extension ClientEngine {
    /// Tells the interceptors what the server refuses, and logs out if one of them says so.
    func notifyInterceptors(of refusal: Refusal) {
        guard isIntercepted, settings.interceptors.didRefuse(refusal) == .logOut else { return }
        disconnect(.normalDisconnection, Properties(), nil)
    }

    /// As above, of a connection that is about to close for it.
    private func notifyInterceptors(of error: ClientError) {
        guard isIntercepted, case .refused(let reason, let words, let userProperties) = error else { return }
        let refusal = Refusal(.connection, reason, words, userProperties: userProperties)
        if settings.interceptors.didRefuse(refusal) == .logOut { afterClosing = .refuse(error) }
    }
}

extension Limits {
    /// Milliseconds that a goodbye may take to be sent.
    static let goodbyeMillisecondsMax: UInt64 = 2000
}
