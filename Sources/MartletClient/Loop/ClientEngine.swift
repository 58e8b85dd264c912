package import ClientCore
internal import Platform
internal import Synchronization
internal import Transports

/// A client's side of the loop: its session, its connection, and whom its messages are for.
///
/// ```
///   idle ──start──► preparing ──login known──► dialing ──transport──► opening ──CONNACK──► online
///    ▲                  ▲                                                │                   │
///    │ disconnect       └───────────── pausing ◄── failed, lost ─────────┴───────────────────┤
///    └── closing ◄── disconnect, DISCONNECT or an error of the protocol: what is written leaves first
///   refused: it makes no sense to go on; `start` begins anew.    ended: for good.
/// ```
package final class ClientEngine: @unchecked Sendable {
    // Unchecked: what is not `let` belongs to the loop's thread.
    enum Phase {
        case idle
        /// Login or addresses are asked for.
        case preparing
        case dialing(Dialer)
        /// CONNECT is on its way.
        case opening(ServerConnection)
        case online(ServerConnection)
        /// Nothing more is read into the session; the connection ends when all is written, or at the deadline.
        case closing(ServerConnection, deadline: UInt64)
        case pausing(until: UInt64)
        case refused(ClientError)
        case ended
    }

    let settings: ClientSettings
    /// Whether there is an interceptor.
    let isIntercepted: Bool
    package let loop: ClientLoop
    let box = CommandBox()
    let state = LatestValue(ConnectionState.offline)
    /// Whether a message of QoS 0 may be posted.
    let isOnline = Atomic<Bool>(false)
    /// Bytes of topic and payload that the server surely takes, so that nobody has to ask the session.
    let unaskedByteCount = Atomic<Int>(0)
    /// Bytes that the transport has not taken yet.
    let outputByteCount = Atomic<Int>(0)

    /// The addresses that `settings.localAddress` stands for.
    let localAddresses: [SocketAddress]

    var isTouched = false
    /// Its index in the heap of the loop's deadlines; nil if it waits for nothing. The heap alone writes it.
    var deadlineIndex: Int?

    var session: ClientSession
    var phase = Phase.idle
    var connecting = ConnectionAttempts()
    var firstServer = FirstServerWatch()
    let authentication = ExtendedAuthentication()
    var wish = ConnectionWish()
    /// What comes after `closing`: nil to connect again.
    var afterClosing: AfterClosing?

    var publishing = PublishingCalls()
    let subscriptions: ClientSubscriptions
    /// What came and nobody got.
    let dropped = Locked(DroppedMessages.Counts())
    /// What the client keeps in its store; nil without a store.
    let records: ClientRecords?
    let storeNames = StoreNames()

    /// Throws what is wrong with the settings.
    init(_ settings: ClientSettings, loop: ClientLoop) throws(ClientError) {
        (self.settings, self.loop, isIntercepted) = (settings, loop, !settings.interceptors.isEmpty)
        do throws(ResolutionError) {
            let local = settings.localAddress.map { ListenAddress(host: .named($0), port: 0) }
            localAddresses = try local?.resolve() ?? []
        } catch {
            throw .settings("localAddress: \(error)")
        }
        var options = try settings.sessionOptions(random: loop.random())
        records =
            if let store = settings.store {
                try ClientRecords(settings, store, now: loop.wallMilliseconds(), random: loop.random)
            } else { nil }
        session = ClientEngine.session(&options, settings, records)
        subscriptions = ClientSubscriptions(chance: loop.random())
        connecting = ConnectionAttempts(settings)
    }

    /// Milliseconds since 1970.
    var wallNow: UInt64 { loop.wallMilliseconds() }

    /// What that is ahead of the loop's clock by.
    var wallOffset: UInt64 {
        let (wall, now) = (wallNow, loop.now)
        return wall - min(wall, now)
    }

    /// Whether it is gone for good.
    var hasEnded: Bool { if case .ended = phase { true } else { false } }

    /// Asks for something, from any thread.
    func post(_ command: ClientCommand) {
        if box.post(command) { loop.mailbox.post(self) }
    }

    /// Asks for something of the store, from any thread: the body completes the call on the loop's.
    ///
    /// - Parameter outcome: what the call has where there is no store.
    func ask<Answer>(
        _ call: AwaitedOutcome<Answer>, withoutStore outcome: AwaitedOutcome<Answer>.Outcome,
        _ body: @escaping @Sendable (ClientRecords, ClientEngine) -> Void
    ) {
        guard records != nil else {
            call.complete(outcome)
            return
        }
        post(.records { engine in if let records = engine.records { body(records, engine) } })
    }

    /// Does what was asked. `commands` lends its memory.
    func perform(_ commands: inout [ClientCommand]) {
        box.swap(into: &commands)
        for command in commands { perform(command) }
        loop.touch(self)
    }

    private func perform(_ command: ClientCommand) {
        switch command {
        case .start(let call): start(call)
        case .withdrawStart(let call): withdrawStart(call)
        case .reconnectNow: reconnectNow()
        case .disconnect(let reason, let properties, let call): disconnect(reason, properties, call)
        case .end: end()
        case .publish(let call): publish(call)
        case .publishAtMostOnce(let publication): publishAtMostOnce(publication)
        case .publishWhenRoom(let call): publishWhenRoom(call)
        case .withdraw(let call): withdraw(call)
        case .subscribe(let pipe): subscriptions.subscribe(pipe, self)
        case .acknowledge(let token, let reason): subscriptions.acknowledge(token, reason, self)
        case .resume(let pipe):
            subscriptions.hasRoom(pipe)
            pipe.sink?.resume(self)
        case .close(let pipe, let tokens): subscriptions.close(pipe, tokens, self)
        case .records(let body): body(self)
        case .forget(let filters, let properties, let call): subscriptions.forget(filters, properties, call, self)
        case .resolved(let attempt, let result): resolved(attempt, result)
        case .attempt(let body): body(self)
        case .reauthenticate(let call): authentication.reauthenticate(call, self)
        case .authenticated(let step, let result): authentication.stepped(step, result, self)
        }
    }

    /// The end of a turn in which something happened.
    func endTurn(now: UInt64) {
        advance(now: now)
        handleEvents()
        records?.endTurn(now: now, self)
        subscriptions.endTurn(now: now, self)
        send(now: now)
    }

    /// When the next turn must be at the latest.
    var nextDeadline: UInt64? {
        let ofPhase: UInt64 =
            switch phase {
            case .idle, .refused, .ended: .max
            case .preparing: connecting.deadline ?? .max
            case .dialing(let dialer): min(connecting.deadline ?? .max, dialer.nextDeadline ?? .max)
            case .opening: connecting.deadline ?? .max
            case .online:
                min(authentication.deadline ?? .max, firstServer.deadline)
            case .closing(_, let deadline): deadline
            case .pausing(let until): until
            }
        let waiting = min(session.nextDeadline ?? .max, publishing.nextExpiry)
        let earliest = min(ofPhase, waiting, subscriptions.nextDeadline, records?.nextDeadline(self) ?? .max)
        return earliest == .max ? nil : earliest
    }

    private func advance(now: UInt64) {
        subscriptions.advance(now: now, self)
        publishing.expire(now: now)
        switch phase {
        case .idle, .refused, .ended: session.advance(to: now)
        case .preparing, .opening:
            if let deadline = connecting.deadline, deadline <= now { return attemptTimedOut() }
            session.advance(to: now)
        case .dialing(let dialer):
            session.advance(to: now)
            if let deadline = connecting.deadline, deadline <= now { return attemptTimedOut() }
            if let next = dialer.nextDeadline, next <= now { dialer.advance(now: now) }
        case .online:
            if let deadline = authentication.deadline, deadline <= now { authentication.timedOut(self) }
            if case .online = phase { advanceFirstServerCheck(now: now) }
            if case .online = phase { session.advance(to: now) }
        case .closing(let connection, let deadline):
            session.advance(to: now)
            if deadline <= now { closed(connection) }
        case .pausing(let until):
            session.advance(to: now)
            if until <= now { beginAttempt() }
        }
    }

    func handleEvents() {
        while let event = session.nextEvent() {
            switch event {
            case .connected(let packet): connected(packet)
            case .refused(let packet): refused(packet)
            case .message(let message): subscriptions.received(message, self)
            case .received(let ticket): records?.received(ticket)
            case .published(let ticket, let reason, let texts): published(ticket, reason, texts)
            case .expired(let ticket): expired(ticket)
            case .subscribed(let packet): subscriptions.subscribed(packet, self)
            case .unsubscribed(let packet): subscriptions.unsubscribed(packet)
            case .authentication(let packet): authentication.received(packet, self)
            case .disconnected(let packet): disconnected(packet)
            case .failed(let failure): failed(failure)
            }
        }
    }

    /// Writes what there is, and notices when the last byte of a connection is gone.
    private func send(now: UInt64) {
        switch phase {
        case .opening(let connection), .online(let connection):
            // The disk catches up by itself.
            session.isHeldUp = session.state == .online && records?.isBehind == true
            connection.isPaused = session.isHeldUp || mayLetServerWait
            if let end = write(to: connection) { return ended(connection, end) }
            outputByteCount.store(session.outputByteCount, ordering: .relaxed)
            if session.outputByteCount <= Limits.outputBytesMax / 2 { publishing.releaseWaitingForRoom { publishNow($0) } }
        case .closing(let connection, _):
            if write(to: connection) != nil { return closed(connection) }
            if session.outputByteCount == 0 { connection.sayGoodbye() }
        case .idle, .preparing, .dialing, .pausing, .refused, .ended: break
        }
    }

    /// Whether nothing need be read before the consumer has taken something: it is the only one, and nothing is awaited
    /// from the server. What others wait for, and what the consumer itself waits for before it takes more, may stand
    /// behind anything, and is read whatever waits.
    private var mayLetServerWait: Bool {
        guard subscriptions.isOnlyOneBehind, session.state == .online else { return false }
        // A server may read nothing from us while we read nothing from it.
        return !session.awaitsAnswer && !authentication.isReauthenticating && !publishing.hasWaitingForRoom
    }

    /// Writes what may leave. Returns why the transport does not take it, if it is broken.
    private func write(to connection: ServerConnection) -> ServerConnection.End? {
        guard let records else { return connection.write(&session).end }
        let (count, end) = connection.write(&session, most: records.gate.allowance)
        records.gate.wrote(count)
        return end
    }

    /// Counts messages that nobody got, and tells the interceptors.
    func reportDropped(_ messages: DroppedMessages) {
        dropped.withLock { counts in
            switch messages.reason {
            case .backlogFull: counts.backlogFull += messages.count
            case .noSubscription: counts.noSubscription += messages.count
            }
        }
        if isIntercepted { for interceptor in settings.interceptors { interceptor.didDrop(messages) } }
    }

    /// Bytes have come from the server.
    func received(_ bytes: UnsafeRawBufferPointer) {
        switch phase {
        case .opening, .online:
            session.received(bytes, now: loop.now)
            // The events lend their bytes from the read: they are looked at before the next.
            handleEvents()
        default: break
        }
    }
}

extension ClientEngine: MessageSource {
    package func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {
        post(.acknowledge(token, reason))
    }

    package var uptimeMilliseconds: UInt64 { loop.uptimeMilliseconds() }

    package func resume(_ pipe: MessagePipe) { post(.resume(pipe)) }

    package func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) { post(.close(pipe, unacknowledged)) }
}

/// What tasks ask of a client, in order, until its loop takes it.
final class CommandBox: Sendable {
    private struct State {
        var commands: [ClientCommand] = []
        /// Payloads of QoS 0 among them.
        var byteCount = 0
    }

    private let state = Locked(State())

    /// Puts a command in. Returns whether the box was empty: then the loop has to be told.
    func post(_ command: ClientCommand) -> Bool {
        state.withLock { state in
            state.commands.append(command)
            return state.commands.count == 1
        }
    }

    /// Puts a message of QoS 0 in, if not more than that many bytes wait then. Returns whether the box was empty; nil
    /// if there is no room.
    func post(_ publication: Publication, bytesMax: Int) -> Bool? {
        let byteCount = publication.byteCount
        return state.withLock { state in
            guard state.byteCount + byteCount <= bytesMax || state.byteCount == 0 else { return nil }
            state.byteCount += byteCount
            state.commands.append(.publishAtMostOnce(publication))
            return state.commands.count == 1
        }
    }

    /// Gives out what is there, and puts the memory of an empty array in its place.
    func swap(into commands: inout [ClientCommand]) {
        state.withLock { state in
            Swift.swap(&state.commands, &commands)
            state.byteCount = 0
        }
    }
}
