package import ClientCore
internal import Platform

/// A server in memory for the one client that has it: matches filters, keeps retained messages, gives shared subscriptions their turns,
/// and remembers what was acknowledged. Of QoS 1 and 2 it sends on however much waits, so a backlog of `.hold` has no bound for these here.
package final class StubServer: MessageSource {
    private struct Subscription {
        let pipe: MessagePipe
        let filters: [TopicFilter]
    }

    private struct State {
        var subscriptions: [Subscription] = []
        /// In the order in which their topics were first kept.
        var retained: [TopicName: Publication] = [:]
        var retainedOrder: [TopicName] = []
        var nextToken: UInt64 = 1
        var publishedCount = 0
        /// How many messages each group has got.
        var turns: [TopicFilter: Int] = [:]
    }

    /// Who holds it may hand messages to pipes: they take them from one thread at a time.
    private let state = Locked(State())
    /// Apart from the state, as pipes settle while they are handed messages.
    private let settled = Locked<[Settlement]>([])

    /// What a consumer said of a message of QoS 1 or 2.
    package struct Settlement: Hashable {
        package var token: AcknowledgementToken
        package var reason: ReasonCode
    }

    /// What was acknowledged or refused, in this order.
    package var settlements: [Settlement] { settled.value }

    /// How many messages were published to whoever wants them.
    package var publishedCount: Int { state.withLock(\.publishedCount) }

    /// The filters that are subscribed to.
    package var filters: [TopicFilter] { state.withLock { $0.subscriptions.flatMap(\.filters) } }

    /// The topics of retained messages, in the order in which they were first kept.
    package var retained: [TopicName] { state.withLock(\.retainedOrder) }

    package func subscribe(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> MessagePipe {
        let backlog: SubscriptionSettings.Backlog =
            switch settings.backlog {
            // There is no store.
            case nil, .spill: .hold
            case let given?: given
            }
        let pipe = MessagePipe(filters: filters, settings: settings, backlog: backlog, source: self)
        state.withLock { state in
            state.subscriptions.append(Subscription(pipe: pipe, filters: filters))
            guard settings.retainHandling != .doNotSend else { return }
            for topic in state.retainedOrder where filters.contains(where: { !$0.isShared && $0.matches(topic) }) {
                if let publication = state.retained[topic] { hand(publication, to: pipe, retain: true, &state) }
            }
        }
        pipe.grant()
        return pipe
    }

    /// Hands the message to all whom it concerns; returns whether there was one.
    @discardableResult
    package func publish(_ publication: Publication) -> Bool {
        state.withLock { state in
            state.publishedCount += 1
            if publication.retain { keep(publication, &state) }
            let receivers = receivers(of: publication.topic, &state)
            for pipe in receivers {
                hand(publication, to: pipe, retain: pipe.settings.retainAsPublished && publication.retain, &state)
            }
            return !receivers.isEmpty
        }
    }

    /// Hands the message to one subscription.
    package func publish(_ publication: Publication, to pipe: MessagePipe, retain: Bool) {
        state.withLock { hand(publication, to: pipe, retain: retain, &$0) }
    }

    private func keep(_ publication: Publication, _ state: inout State) {
        let topic = publication.topic
        if publication.payload.isEmpty {
            if state.retained.removeValue(forKey: topic) != nil { state.retainedOrder.removeAll { $0 == topic } }
        } else if state.retained.updateValue(publication, forKey: topic) == nil {
            state.retainedOrder.append(topic)
        }
    }

    /// Each subscription once, and of each group one.
    private func receivers(of topic: TopicName, _ state: inout State) -> [MessagePipe] {
        var receivers: [MessagePipe] = []
        var groups: [TopicFilter: [MessagePipe]] = [:]
        var groupOrder: [TopicFilter] = []
        for subscription in state.subscriptions {
            let matching = subscription.filters.filter { $0.matches(topic) }
            if !subscription.pipe.settings.noLocal, matching.contains(where: { !$0.isShared }) {
                receivers.append(subscription.pipe)
            }
            for filter in matching where filter.isShared {
                if groups[filter] == nil { groupOrder.append(filter) }
                groups[filter, default: []].append(subscription.pipe)
            }
        }
        for filter in groupOrder {
            let members = groups[filter, default: []]
            receivers.append(members[state.turns[filter, default: 0] % members.count])
            state.turns[filter, default: 0] += 1
        }
        return receivers
    }

    private func hand(_ publication: Publication, to pipe: MessagePipe, retain: Bool, _ state: inout State) {
        let qos = min(publication.qos, pipe.settings.qos)
        var token: AcknowledgementToken?
        if qos > .atMostOnce {
            token = AcknowledgementToken(number: state.nextToken)
            state.nextToken += 1
        }
        var message = ReceivedMessage(
            topic: publication.topic, payload: publication.payload, qos: qos, retain: retain, duplicate: false, token: token)
        message.properties = publication.properties
        pipe.gather(message)
        for token in pipe.flush().settled { acknowledge(token, .success, from: pipe) }
    }

    /// No more messages come.
    package func end() {
        let subscriptions = state.withLock { state in
            defer { state.subscriptions = [] }
            return state.subscriptions
        }
        for subscription in subscriptions { subscription.pipe.end(nil) }
    }

    func endSubscriptions(where isMeant: (SubscriptionSettings) -> Bool) {
        let pipes = state.withLock { $0.subscriptions.map(\.pipe) }
        for pipe in pipes where !pipe.settings.isForAnswers && isMeant(pipe.settings) { pipe.close() }
    }

    package func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {
        settled.withLock { $0.append(Settlement(token: token, reason: reason)) }
    }

    package func resume(_ pipe: MessagePipe) {}

    package func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) {
        state.withLock { state in state.subscriptions.removeAll { $0.pipe === pipe } }
    }
}
