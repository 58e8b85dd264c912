internal import ClientCore
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
            if case .stay? = afterClosing {
                connecting.start()
                afterClosing = .tryAtOnce
            }
        case .preparing, .dialing, .opening, .pausing: break
        }
    }

    /// Who waited for the first success does not any longer. Without anybody else who wants it there is no connection.
    func withdrawStart(_ call: AwaitedOutcome<Void>) {
        startCalls.removeAll { $0 === call }
        if !isWanted, !staysForEver, startCalls.isEmpty { disconnect(.normalDisconnection, Properties(), nil) }
    }

    func reconnectNow() {
        if case .pausing = phase { beginAttempt() }
    }

    /// Nothing is tried until `start`.
    func disconnect(_ reason: ReasonCode, _ properties: Properties, _ call: AwaitedOutcome<Void>?) {
        if let call { endCalls.append(call) }
        (staysForEver, isWanted) = (false, false)
        completeStart(.failure(.cancelled))
        leave(.stay, reason, properties)
    }

    func end() {
        completeStart(.failure(.ended))
        for call in publishing.removeAll() { call.call.complete(.failure(.ended)) }
        for (_, pipe) in pipes.sorted(by: { $0.key < $1.key }) {
            pipe.end(nil)
            pipe.sink.take()?.end(self)
        }
        endRecords()
        (pipes, numbers, gathering, pipesBehind, holding) = ([:], [:], [], [], HoldingSubscriptions())
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
    func lose(_ connection: ServerConnection) {
        if case .opening = phase { connecting.abandoned(now: loop.now) }
        isOnline.store(false, ordering: .relaxed)
        outputByteCount.store(0, ordering: .relaxed)
        connection.close()
        session.transportClosed()
        endReauthentication(.failure(.notConnected))
        endFirstServerCheck()
        records?.gate.connectionEnded()
        for case (_, .forget(let call)) in serverRequests.sorted(by: { $0.key < $1.key }) {
            call.complete(.failure(.notConnected))
        }
        serverRequests = [:]
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
        for call in endCalls { call.complete(.success(())) }
        endCalls = []
    }

    func completeStart(_ outcome: Result<Void, ClientError>) {
        for call in startCalls where call.complete(outcome) {
            if case .success = outcome { isWanted = true }
        }
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
