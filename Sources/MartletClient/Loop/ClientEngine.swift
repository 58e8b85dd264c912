internal import ClientCore
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

    /// What an unanswered SUBSCRIBE or UNSUBSCRIBE was about.
    enum ServerRequest {
        case subscribe(UInt32)
        case unsubscribe([TopicFilter])
        case forget(AwaitedOutcome<Void>)
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
    /// Its place among the loop's deadlines; nil if it waits for nothing. The heap alone writes it.
    var deadlineIndex: Int?

    var session: ClientSession
    var phase = Phase.idle
    var connecting = ConnectionAttempts()
    /// While the client is connected to another server than the first.
    var firstServerCheck: FirstServerCheck?
    var nextFirstServerCheck: UInt64?
    /// The extended authentication under way.
    var exchange: (any AuthenticationExchange)?
    /// The step of it that is awaited: what an earlier one says is nothing.
    var lastStep = 0
    /// On the connection that stands.
    var reauthentication: Reauthentication?
    /// Calls of `connect` that wait for the first success.
    var startCalls: [AwaitedOutcome<Void>] = []
    var endCalls: [AwaitedOutcome<Void>] = []
    /// Whether it is to be connected until somebody says otherwise, whatever fails.
    var staysForEver = false
    /// Whether somebody was told that it is connected, and has not said since that it need not be.
    var isWanted = false
    /// What comes after `closing`: nil to connect again.
    var afterClosing: AfterClosing?

    var publishing = PublishingCalls()
    var subscriptions: SubscriptionTable
    var pipes: [UInt32: MessagePipe] = [:]
    var numbers: [ObjectIdentifier: UInt32] = [:]
    var serverRequests: [UInt16: ServerRequest] = [:]
    /// Pipes with messages of this turn.
    var gathering: [MessagePipe] = []
    var holding = HoldingSubscriptions()
    /// Pipes with much that is not taken.
    var pipesBehind: Set<ObjectIdentifier> = []
    /// What came and nobody got.
    let dropped = Locked(DroppedMessages.Counts())
    var sharedTokens = SharedTokens()
    var unmatched = UnmatchedMessages()
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
        subscriptions = SubscriptionTable(chance: loop.random())
        connecting = ConnectionAttempts(settings)
    }

    /// Asks for something, from any thread.
    func post(_ command: ClientCommand) {
        if box.post(command) { loop.mailbox.post(self) }
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
        case .subscribe(let pipe): subscribe(pipe)
        case .acknowledge(let token, let reason): acknowledge(token, reason)
        case .resume(let pipe):
            pipesBehind.remove(ObjectIdentifier(pipe))
            if let number = numbers[ObjectIdentifier(pipe)] { holding.hasRoom(number) }
            pipe.sink?.resume(self)
        case .close(let pipe, let tokens): close(pipe, tokens)
        case .records(let body): body(self)
        case .forget(let filters, let properties, let call): forget(filters, properties, call)
        case .resolved(let attempt, let result): resolved(attempt, result)
        case .attempt(let body): body(self)
        case .reauthenticate(let call): reauthenticate(call)
        case .authenticated(let step, let result): authenticated(step, result)
        }
    }

    /// The end of a turn in which something happened.
    func endTurn(now: UInt64) {
        advance(now: now)
        handleEvents()
        endRecordsTurn(now: now)
        flushPipes()
        if let unmatched = unmatched.takeDropped() { tellDropped(unmatched) }
        lookWhoHolds(now: now)
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
                min(reauthentication?.deadline ?? .max, firstServerCheck?.nextDeadline ?? nextFirstServerCheck ?? .max)
            case .closing(_, let deadline): deadline
            case .pausing(let until): until
            }
        let waiting = min(session.nextDeadline ?? .max, publishing.nextExpiry)
        let ofMessages = min(unmatched.deadline ?? .max, holding.deadline ?? .max)
        let earliest = min(ofPhase, waiting, ofMessages, recordsDeadline ?? .max)
        return earliest == .max ? nil : earliest
    }

    private func advance(now: UInt64) {
        for token in unmatched.expire(now: now) { session.acknowledge(token, .success, now: now) }
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
            if let deadline = reauthentication?.deadline, deadline <= now { reauthenticationTimedOut() }
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
            case .message(let message): received(message)
            case .received(let ticket): outboxReceived(ticket)
            case .published(let ticket, let reason, let texts): published(ticket, reason, texts)
            case .expired(let ticket): expired(ticket)
            case .subscribed(let packet): subscribed(packet)
            case .unsubscribed(let packet):
                switch serverRequests.removeValue(forKey: packet.packetIdentifier) {
                case .unsubscribe(let filters)?: subscriptions.left(filters)
                case .forget(let call)?:
                    let refusal = packet.reasonCodes.first(where: \.isError)
                    call.complete(refusal.map { .failure(ClientError(refused: $0, packet.properties)) } ?? .success(()))
                case .subscribe?, nil: break
                }
            case .authentication(let packet): receivedChallenge(packet)
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
        guard !pipesBehind.isEmpty, pipes.count == 1, session.state == .online else { return false }
        // A server may read nothing from us while we read nothing from it.
        return !session.awaitsAnswer && reauthentication == nil && !publishing.hasWaitingForRoom
    }

    /// Writes what may leave. Returns why the transport does not take it, if it is broken.
    private func write(to connection: ServerConnection) -> ServerConnection.End? {
        guard let records else { return connection.write(&session).end }
        let (count, end) = connection.write(&session, most: records.gate.allowance)
        records.gate.wrote(count)
        return end
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

/// Messages that are for several subscriptions: they are acknowledged when the last of those has done so.
struct SharedTokens {
    private var rest: [AcknowledgementToken: (count: Int, reason: ReasonCode)] = [:]

    mutating func share(_ token: AcknowledgementToken, among count: Int) { rest[token] = (count, .success) }

    /// One has settled it. Returns what the server is told, if it was the last: the first error, or success.
    mutating func settle(_ token: AcknowledgementToken, _ reason: ReasonCode) -> ReasonCode? {
        guard let (count, worst) = rest[token] else { return reason }
        let now = worst.isError ? worst : reason
        guard count > 1 else {
            rest[token] = nil
            return now
        }
        rest[token] = (count - 1, now)
        return nil
    }
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

/// Messages that no subscription matches: a kept session sends them before the program has said what it wants. Those of
/// QoS 1 and 2 wait for a while; what nobody wants until then, and all of QoS 0, is counted.
struct UnmatchedMessages {
    private var messages: [ReceivedMessage] = []
    private var byteCount = 0
    /// Until when they wait, in milliseconds of the loop's clock; nil when none does.
    private var end: UInt64?
    /// What nobody gets, since it was last asked.
    private var dropped: DroppedMessages?

    var size: ClientSize.Part { ClientSize.Part(messages: messages.count, bytes: byteCount) }

    /// A connection begins.
    mutating func begin(until end: UInt64) { self.end = end }

    /// When `expire` has something to do.
    var deadline: UInt64? { messages.isEmpty ? nil : end }

    /// Returns whether it waits: not when the time is over, or too much waits already, and none of QoS 0.
    mutating func add(_ message: ReceivedMessage, now: UInt64) -> Bool {
        guard message.token != nil, let end, now < end, messages.count < Limits.unmatchedMessagesMax,
            byteCount + message.byteCount <= Limits.unmatchedBytesMax
        else {
            drop(message)
            return false
        }
        messages.append(message)
        byteCount += message.byteCount
        return true
    }

    /// Takes out those whose topic is wanted now.
    mutating func remove(where isWanted: (TopicName) -> Bool) -> [ReceivedMessage] {
        if messages.isEmpty { return [] }
        let taken = messages.filter { isWanted($0.topic) }
        messages.removeAll { isWanted($0.topic) }
        byteCount = messages.reduce(0) { $0 + $1.byteCount }
        return taken
    }

    /// Takes out all when the time is over; they are to be acknowledged, for nobody wants them.
    mutating func expire(now: UInt64) -> [AcknowledgementToken] {
        guard let deadline, deadline <= now else { return [] }
        defer { (messages, byteCount) = ([], 0) }
        for message in messages { drop(message) }
        return messages.compactMap(\.token)
    }

    private mutating func drop(_ message: ReceivedMessage) {
        let count = dropped?.count ?? 0
        dropped = DroppedMessages(.noSubscription, count: count + 1, topic: dropped?.topic ?? message.topic)
    }

    /// What nobody got since this was last asked; nil for nothing.
    mutating func takeDropped() -> DroppedMessages? { dropped.take() }
}
