package import ClientCore
internal import MQTTCodec
internal import Platform

/// Messages from the server, and who gets them.
extension ClientEngine {
    func subscribe(_ pipe: MessagePipe) {
        if case .ended = phase {
            pipe.end(.ended)
            pipe.sink.take()?.end(self)
            return
        }
        var options = SubscriptionOptions(
            maximumQoS: min(pipe.settings.qos, settings.maximumQoS), noLocal: pipe.settings.noLocal,
            retainAsPublished: pipe.settings.retainAsPublished, retainHandling: pipe.settings.retainHandling)
        // No Local and a share group do not go together. [MQTT-3.8.3-4 v5]
        if pipe.filters.contains(where: \.isShared) { options.noLocal = false }
        let number = subscriptions.add(pipe.filters, options)
        pipes[number] = pipe
        numbers[ObjectIdentifier(pipe)] = number
        for message in unmatched.remove(where: { subscriptions.wants(number, $0) }) { gather(message, for: pipe) }
        if case .online = phase { sendSubscriptions() }
    }

    /// SUBSCRIBE for all that the server does not know.
    func sendSubscriptions() {
        let isIdentified = session.options.version == .v5 && session.serverProperties.subscriptionIdentifierAvailable != false
        while let ask = subscriptions.nextToAsk() {
            var properties = Properties()
            properties.userProperties = pipes[ask.number]?.settings.userProperties ?? []
            if isIdentified { properties.subscriptionIdentifiers = [ask.number] }
            do throws(RequestRefusal) {
                serverRequests[try session.subscribe(ask.subscriptions, properties: properties, now: loop.now)] = .subscribe(
                    ask.number)
            } catch .notConnected, .noIdentifierLeft {
                subscriptions.askAgain(ask.number)
                return
            } catch {
                // It would end the connection to ask this server for that.
                if let pipe = pipes[ask.number] { refuse(pipe, error.reasonCode, nil) }
            }
        }
    }

    /// SUBACK.
    func subscribed(_ packet: SubackPacket) {
        guard case .subscribe(let number)? = serverRequests.removeValue(forKey: packet.packetIdentifier) else { return }
        guard let pipe = pipes[number] else { return }
        let reasons = Self.reasons(packet.reasonCodes, of: pipe.filters)
        let needed = reasons.prefix(max(0, pipe.filters.count - pipe.settings.optionalFilterCount))
        guard let refusal = needed.first(where: \.isError) else {
            subscriptions.answered(number)
            return pipe.grant(reasons)
        }
        refuse(pipe, refusal, AnswerTexts(packet.properties))
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

    private func refuse(_ pipe: MessagePipe, _ reason: ReasonCode, _ texts: AnswerTexts?) {
        // What has come for other filters of the packet goes before.
        flushPipes()
        forget(pipe)
        pipe.end(ClientError(refused: reason, texts))
        pipe.sink.take()?.end(self)
        told(Refusal(.subscription(pipe.filters), reason, texts))
    }

    /// The consumer has left.
    func close(_ pipe: MessagePipe, _ tokens: [AcknowledgementToken]) {
        for token in tokens { acknowledge(token, .success) }
        // Taken: the sink has the pipe as well.
        pipe.sink.take()?.close(self)
        forget(pipe)
    }

    /// In the order in which they began. Their consumers come to an end, and close them by that.
    func endSubscriptions(where isMeant: (SubscriptionSettings) -> Bool, _ call: AwaitedOutcome<Void>) {
        for (_, pipe) in pipes.sorted(by: { $0.key < $1.key })
        where !pipe.settings.isForAnswers && !(pipe.sink is InboxSink) && isMeant(pipe.settings) { pipe.close() }
        call.complete(.success(()))
    }

    private func forget(_ pipe: MessagePipe) {
        guard let number = numbers.removeValue(forKey: ObjectIdentifier(pipe)) else { return }
        pipes[number] = nil
        pipesBehind.remove(ObjectIdentifier(pipe))
        holding.hasRoom(number)
        unsubscribe(subscriptions.remove(number))
    }

    func unsubscribe(_ filters: [TopicFilter]) {
        guard !filters.isEmpty, session.state == .online else { return }
        // Without a packet identifier it is tried again on the next connection.
        if let identifier = try? session.unsubscribe(filters, now: loop.now) {
            serverRequests[identifier] = .unsubscribe(filters)
        }
    }

    func forget(_ filters: [TopicFilter], _ properties: Properties, _ call: AwaitedOutcome<Void>) {
        do throws(RequestRefusal) {
            serverRequests[try session.unsubscribe(filters, properties: properties, now: loop.now)] = .forget(call)
        } catch {
            call.complete(.failure(ClientError(error)))
        }
    }

    func received(_ message: ReceivedMessage) {
        var message = message
        if isIntercepted { for interceptor in settings.interceptors.reversed() { interceptor.didReceive(&message) } }
        let audience = subscriptions.audience(
            of: message.topic, number: message.subscriptionIdentifier, isRetained: message.retain)
        if audience.isEmpty { return receivedUnmatched(message) }
        if let token = message.token, audience.count > 1 { sharedTokens.share(token, among: audience.count) }
        for number in audience {
            if let pipe = pipes[number] { gather(message, for: pipe) }
        }
    }

    private func receivedUnmatched(_ message: ReceivedMessage) {
        if !subscriptions.isLeaving(message.topic), unmatched.add(message, now: loop.now) { return }
        if let token = message.token { session.acknowledge(token, .success, now: loop.now) }
    }

    /// - Parameter fromStore: whether it comes from the pipe's own sink.
    func gather(_ message: ReceivedMessage, for pipe: MessagePipe, fromStore: Bool = false) {
        if let sink = pipe.sink, !fromStore, sink.take(message, self) { return }
        if !pipe.hasGathered { gathering.append(pipe) }
        pipe.gather(message)
    }

    /// Hands over what has come in this turn.
    func flushPipes() {
        guard !gathering.isEmpty else { return }
        for pipe in gathering {
            let (isFull, settled) = pipe.flush()
            if pipe.isBehind { pipesBehind.insert(ObjectIdentifier(pipe)) }
            if isFull, let number = numbers[ObjectIdentifier(pipe)] { holding.becameFull(number, now: loop.now) }
            if pipe.droppedAtFlush > 0 {
                tellDropped(DroppedMessages(.backlogFull, count: pipe.droppedAtFlush, filters: pipe.filters))
            }
            for token in settled {
                // The store has closed its part of this turn: what it has to know goes to the next.
                if records == nil { acknowledge(token, .success) } else { post(.acknowledge(token, .success)) }
            }
        }
        gathering.removeAll(keepingCapacity: true)
    }

    func tellDropped(_ messages: DroppedMessages) {
        dropped.withLock { counts in
            switch messages.reason {
            case .backlogFull: counts.backlogFull += messages.count
            case .noSubscription: counts.noSubscription += messages.count
            }
        }
        if isIntercepted { for interceptor in settings.interceptors { interceptor.didDrop(messages) } }
    }

    /// Says in the state which subscriptions hold the client, where those are others than before.
    func lookWhoHolds(now: UInt64) {
        let unanswered = session.unanswered
        holding.isFirst(unanswered?.first, count: unanswered?.count ?? 0, now: now)
        let isNew = holding.look(now: now) { token in pipes.filter { $0.value.isUnsettled(token) }.map(\.key).sorted() }
        guard isNew, case .online(var facts) = state.value else { return }
        facts.heldBy = heldBy
        state.set(.online(facts))
    }

    /// The filters of the subscriptions that hold the client.
    var heldBy: [TopicFilter] { holding.told.flatMap { pipes[$0]?.filters ?? [] } }

    /// A connection is about to end: what it has brought is looked at first.
    func handleEventsBeforeEnd() { flushPipes() }

    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode) {
        if token.isStored { return spillSettled(token) }
        guard let worst = sharedTokens.settle(token, reason) else { return }
        session.acknowledge(token, worst, now: loop.now)
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
