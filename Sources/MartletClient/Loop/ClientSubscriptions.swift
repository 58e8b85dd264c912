internal import ClientCore
internal import MQTTCodec
internal import Platform

/// Messages from the server, and who gets them.
///
/// One client's; belongs to its loop's thread. A subscription has a number, by which the server names it in MQTT 5.0.
final class ClientSubscriptions {
    /// What an unanswered SUBSCRIBE or UNSUBSCRIBE was about.
    private enum Request {
        case subscribe(UInt32)
        case unsubscribe([TopicFilter])
        case forget(AwaitedOutcome<Void>)
    }

    private var table: SubscriptionTable
    private(set) var pipes: [UInt32: MessagePipe] = [:]
    private var numbers: [ObjectIdentifier: UInt32] = [:]
    private var requests: [UInt16: Request] = [:]
    /// Pipes with messages of this turn.
    private var gathering: [MessagePipe] = []
    private var holding = HoldingSubscriptions()
    /// Pipes with much that is not taken.
    private var pipesBehind: Set<ObjectIdentifier> = []
    private var sharedTokens = SharedTokens()
    private(set) var unmatched = UnmatchedMessages()

    init(chance: UInt64) { table = SubscriptionTable(chance: chance) }

    // MARK: Connections

    /// A connection stands: the server is asked for what it does not know.
    func connected(sessionPresent: Bool, _ engine: ClientEngine) {
        unmatched.begin(until: engine.loop.now + engine.settings.graceTime.milliseconds)
        let forgotten = table.connected(sessionPresent: sessionPresent)
        if !sessionPresent { for (_, pipe) in pipes.sorted(by: { $0.key < $1.key }) { pipe.sessionLost() } }
        unsubscribe(forgotten, engine)
        sendSubscriptions(engine)
    }

    /// The connection is gone, and with it what was not answered.
    func connectionEnded() {
        for case (_, .forget(let call)) in requests.sorted(by: { $0.key < $1.key }) {
            call.complete(.failure(.notConnected))
        }
        requests = [:]
    }

    /// The client is gone: all consumers come to an end.
    func endAll(_ engine: ClientEngine) {
        for (_, pipe) in pipes.sorted(by: { $0.key < $1.key }) {
            pipe.end(nil)
            pipe.sink.take()?.end(engine)
        }
    }

    func removeAll(chance: UInt64) {
        (pipes, numbers, gathering, pipesBehind, holding) = ([:], [:], [], [], HoldingSubscriptions())
        table = SubscriptionTable(chance: chance)
    }

    // MARK: Turns

    /// When something is to be done at the latest; `UInt64.max` for never.
    var nextDeadline: UInt64 { min(unmatched.deadline ?? .max, holding.deadline ?? .max) }

    /// What nobody has wanted in time is done with.
    func advance(now: UInt64, _ engine: ClientEngine) {
        for token in unmatched.expire(now: now) { engine.session.acknowledge(token, .success, now: now) }
    }

    /// Hands over what has come, and says what nobody got and who holds the client.
    func endTurn(now: UInt64, _ engine: ClientEngine) {
        flush(engine)
        if let unmatched = unmatched.takeDropped() { engine.reportDropped(unmatched) }
        lookWhoHolds(now: now, engine)
    }

    /// The consumer of a pipe has taken something.
    func hasRoom(_ pipe: MessagePipe) {
        pipesBehind.remove(ObjectIdentifier(pipe))
        if let number = numbers[ObjectIdentifier(pipe)] { holding.hasRoom(number) }
    }

    /// Whether the only consumer that there is has much to take.
    var isOnlyOneBehind: Bool { !pipesBehind.isEmpty && pipes.count == 1 }

    // MARK: SUBSCRIBE and UNSUBSCRIBE

    func subscribe(_ pipe: MessagePipe, _ engine: ClientEngine) {
        if case .ended = engine.phase {
            pipe.end(.ended)
            pipe.sink.take()?.end(engine)
            return
        }
        var options = SubscriptionOptions(
            maximumQoS: min(pipe.settings.qos, engine.settings.maximumQoS), noLocal: pipe.settings.noLocal,
            retainAsPublished: pipe.settings.retainAsPublished, retainHandling: pipe.settings.retainHandling)
        // No Local and a share group do not go together. [MQTT-3.8.3-4 v5]
        if pipe.filters.contains(where: \.isShared) { options.noLocal = false }
        let number = table.add(pipe.filters, options)
        pipes[number] = pipe
        numbers[ObjectIdentifier(pipe)] = number
        for message in unmatched.remove(where: { table.wants(number, $0) }) { gather(message, for: pipe, engine) }
        if case .online = engine.phase { sendSubscriptions(engine) }
    }

    /// SUBSCRIBE for all that the server does not know.
    private func sendSubscriptions(_ engine: ClientEngine) {
        let isIdentified =
            engine.session.options.version == .v5 && engine.session.serverProperties.subscriptionIdentifierAvailable != false
        while let ask = table.nextToAsk() {
            var properties = Properties()
            properties.userProperties = pipes[ask.number]?.settings.userProperties ?? []
            if isIdentified { properties.subscriptionIdentifiers = [ask.number] }
            do throws(RequestRefusal) {
                requests[try engine.session.subscribe(ask.subscriptions, properties: properties, now: engine.loop.now)] =
                    .subscribe(
                        ask.number)
            } catch .notConnected, .noIdentifierLeft {
                table.askAgain(ask.number)
                return
            } catch {
                // It would end the connection to ask this server for that.
                if let pipe = pipes[ask.number] { refuse(pipe, error.reasonCode, nil, engine) }
            }
        }
    }

    /// SUBACK.
    func subscribed(_ packet: SubackPacket, _ engine: ClientEngine) {
        guard case .subscribe(let number)? = requests.removeValue(forKey: packet.packetIdentifier) else { return }
        guard let pipe = pipes[number] else { return }
        let reasons = Self.reasons(packet.reasonCodes, of: pipe.filters)
        let needed = reasons.prefix(max(0, pipe.filters.count - pipe.settings.optionalFilterCount))
        guard let refusal = needed.first(where: \.isError) else {
            table.answered(number)
            return pipe.grant(reasons)
        }
        refuse(pipe, refusal, AnswerTexts(packet.properties), engine)
    }

    /// UNSUBACK.
    func unsubscribed(_ packet: UnsubackPacket) {
        switch requests.removeValue(forKey: packet.packetIdentifier) {
        case .unsubscribe(let filters)?: table.left(filters)
        case .forget(let call)?:
            let refusal = packet.reasonCodes.first(where: \.isError)
            call.complete(refusal.map { .failure(ClientError(refused: $0, packet.properties)) } ?? .success(()))
        case .subscribe?, nil: break
        }
    }

    /// A filter that was named several times is asked for once: what SUBACK says of each that was named.
    static func reasons(_ answers: [ReasonCode], of filters: [TopicFilter]) -> [ReasonCode] {
        var known: [TopicFilter: ReasonCode] = [:]
        var rest = answers[...]
        return filters.compactMap { filter in
            if let reason = known[filter] { return reason }
            known[filter] = rest.popFirst()
            return known[filter]
        }
    }

    private func refuse(_ pipe: MessagePipe, _ reason: ReasonCode, _ texts: AnswerTexts?, _ engine: ClientEngine) {
        // What has come for other filters of the packet goes before.
        flush(engine)
        forget(pipe, engine)
        pipe.end(ClientError(refused: reason, texts))
        pipe.sink.take()?.end(engine)
        engine.notifyInterceptors(of: Refusal(.subscription(pipe.filters), reason, texts))
    }

    /// The consumer has left.
    func close(_ pipe: MessagePipe, _ tokens: [AcknowledgementToken], _ engine: ClientEngine) {
        for token in tokens { acknowledge(token, .success, engine) }
        // Taken: the sink has the pipe as well.
        pipe.sink.take()?.close(engine)
        forget(pipe, engine)
    }

    /// In the order in which they began. Their consumers come to an end, and close them by that.
    func end(where isMeant: (SubscriptionSettings) -> Bool, _ call: AwaitedOutcome<Void>) {
        for (_, pipe) in pipes.sorted(by: { $0.key < $1.key })
        where !pipe.settings.isForAnswers && !(pipe.sink is InboxSink) && isMeant(pipe.settings) { pipe.close() }
        call.complete(.success(()))
    }

    private func forget(_ pipe: MessagePipe, _ engine: ClientEngine) {
        guard let number = numbers.removeValue(forKey: ObjectIdentifier(pipe)) else { return }
        pipes[number] = nil
        pipesBehind.remove(ObjectIdentifier(pipe))
        holding.hasRoom(number)
        unsubscribe(table.remove(number), engine)
    }

    private func unsubscribe(_ filters: [TopicFilter], _ engine: ClientEngine) {
        guard !filters.isEmpty, engine.session.state == .online else { return }
        // Without a packet identifier it is tried again on the next connection.
        if let identifier = try? engine.session.unsubscribe(filters, now: engine.loop.now) {
            requests[identifier] = .unsubscribe(filters)
        }
    }

    /// Unsubscribes from what an earlier process has subscribed to.
    func forget(
        _ filters: [TopicFilter], _ properties: Properties, _ call: AwaitedOutcome<Void>, _ engine: ClientEngine
    ) {
        do throws(RequestRefusal) {
            requests[try engine.session.unsubscribe(filters, properties: properties, now: engine.loop.now)] = .forget(call)
        } catch {
            call.complete(.failure(ClientError(error)))
        }
    }

    // MARK: Messages

    func received(_ message: ReceivedMessage, _ engine: ClientEngine) {
        var message = message
        if engine.isIntercepted { for interceptor in engine.settings.interceptors.reversed() { interceptor.didReceive(&message) } }
        let audience = table.audience(
            of: message.topic, number: message.subscriptionIdentifier, isRetained: message.retain)
        if audience.isEmpty { return receivedUnmatched(message, engine) }
        if let token = message.token, audience.count > 1 { sharedTokens.share(token, among: audience.count) }
        for number in audience {
            if let pipe = pipes[number] { gather(message, for: pipe, engine) }
        }
    }

    private func receivedUnmatched(_ message: ReceivedMessage, _ engine: ClientEngine) {
        if !table.isLeaving(message.topic), unmatched.add(message, now: engine.loop.now) { return }
        if let token = message.token { engine.session.acknowledge(token, .success, now: engine.loop.now) }
    }

    /// - Parameter fromStore: whether it comes from the pipe's own sink.
    func gather(_ message: ReceivedMessage, for pipe: MessagePipe, fromStore: Bool = false, _ engine: ClientEngine) {
        if let sink = pipe.sink, !fromStore, sink.accept(message, engine) { return }
        if !pipe.hasGathered { gathering.append(pipe) }
        pipe.gather(message)
    }

    /// Hands over what has come in this turn.
    func flush(_ engine: ClientEngine) {
        guard !gathering.isEmpty else { return }
        for pipe in gathering {
            let (isFull, settled) = pipe.flush()
            if pipe.isBehind { pipesBehind.insert(ObjectIdentifier(pipe)) }
            if isFull, let number = numbers[ObjectIdentifier(pipe)] { holding.becameFull(number, now: engine.loop.now) }
            if pipe.droppedAtFlush > 0 {
                engine.reportDropped(DroppedMessages(.backlogFull, count: pipe.droppedAtFlush, filters: pipe.filters))
            }
            for token in settled {
                // The store has closed its part of this turn: what it has to know goes to the next.
                if engine.records == nil {
                    acknowledge(token, .success, engine)
                } else {
                    engine.post(.acknowledge(token, .success))
                }
            }
        }
        gathering.removeAll(keepingCapacity: true)
    }

    /// Says in the state which subscriptions hold the client, where those are others than before.
    private func lookWhoHolds(now: UInt64, _ engine: ClientEngine) {
        let unanswered = engine.session.unanswered
        holding.isFirst(unanswered?.first, count: unanswered?.count ?? 0, now: now)
        let isNew = holding.look(now: now) { token in pipes.filter { $0.value.isUnsettled(token) }.map(\.key).sorted() }
        guard isNew, case .online(var facts) = engine.state.value else { return }
        facts.heldBy = heldBy
        engine.state.set(.online(facts))
    }

    /// The filters of the subscriptions that hold the client.
    var heldBy: [TopicFilter] { holding.reported.flatMap { pipes[$0]?.filters ?? [] } }

    /// A consumer has settled a message.
    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, _ engine: ClientEngine) {
        if token.isStored { return engine.records?.spillSettled(token, engine) ?? () }
        guard let worst = sharedTokens.settle(token, reason) else { return }
        engine.session.acknowledge(token, worst, now: engine.loop.now)
    }
}

/// Which subscriptions hold their client: their consumers take less than comes.
///
/// A subscription holds when its backlog has been full for some seconds, and when it has had for as long the first
/// message of QoS 1 or 2 that is not acknowledged while many more stand behind: then the server may send no others. A
/// value of the loop's thread; times are those of its clock.
struct HoldingSubscriptions {
    /// Since when backlogs are full, by the number of the subscription.
    private var fullSince: [UInt32: UInt64] = [:]
    /// The message of QoS 1 or 2 that is to be acknowledged next, and since when it is.
    private var first: (token: AcknowledgementToken, since: UInt64)?
    /// Whether so many stand behind it that the server may wait.
    private var hasMany = false
    /// The subscriptions that have not acknowledged the first; nil before they were asked.
    private var firstOwners: [UInt32]?
    /// The subscriptions that hold the client, as they were reported last, in their order.
    private(set) var reported: [UInt32] = []

    mutating func becameFull(_ number: UInt32, now: UInt64) {
        if fullSince[number] == nil { fullSince[number] = now }
    }

    /// Its consumer has taken something, or it has ended.
    mutating func hasRoom(_ number: UInt32) { fullSince[number] = nil }

    /// Takes note, at the end of each turn, of the message that is to be acknowledged next, nil for none, and of how
    /// many are not acknowledged.
    mutating func isFirst(_ token: AcknowledgementToken?, count: Int, now: UInt64) {
        hasMany = count >= Limits.holdingMessagesMin
        guard first?.token != token else { return }
        first = token.map { ($0, now) }
        firstOwners = nil
    }

    /// When `look` finds something new, unless it changes before; nil for never.
    var deadline: UInt64? {
        var earliest = UInt64.max
        for (number, since) in fullSince where !reported.contains(number) { earliest = min(earliest, since) }
        if let first, hasMany, firstOwners == nil { earliest = min(earliest, first.since) }
        return earliest == .max ? nil : earliest + Limits.holdingMilliseconds
    }

    /// Looks which hold the client now. Returns whether those are others than were told last.
    ///
    /// - Parameter owners: the subscriptions whose consumers have not settled a message.
    mutating func look(now: UInt64, owners: (AcknowledgementToken) -> [UInt32]) -> Bool {
        if reported.isEmpty, (deadline ?? .max) > now { return false }
        var holding = fullSince.filter { $0.value + Limits.holdingMilliseconds <= now }.map(\.key)
        if let first, hasMany, first.since + Limits.holdingMilliseconds <= now {
            let found = firstOwners ?? owners(first.token)
            firstOwners = found
            holding += found
        }
        let found = Set(holding).sorted()
        defer { reported = found }
        return found != reported
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

extension Limits {
    /// Milliseconds for which a backlog is full, or a message keeps others from being acknowledged, before its
    /// subscription is said to hold the client.
    static let holdingMilliseconds: UInt64 = 5000

    /// How many messages of QoS 1 and 2 are not acknowledged when the first of them may hold the client: about what
    /// servers send at most.
    static let holdingMessagesMin = 10
}
