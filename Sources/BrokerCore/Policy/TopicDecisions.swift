public import BrokerModel
import MQTTCodec

/// What a client's `TopicAuthority` has said of its topics. Owned by its session.
///
/// Bounded: beyond the bounds all is forgotten, and asked for again.
struct TopicDecisions {
    private struct Key: Hashable {
        let action: AccessAction
        let topic: [UInt8]
    }

    private var known: [Key: (isAllowed: Bool, until: UInt64)] = [:]
    private var bytes = 0
    /// The filters that it may subscribe to, and so receive: for as long as the session is there.
    private(set) var filters: [AccessFilter] = []

    func isAllowed(_ action: AccessAction, _ topic: [UInt8], now: UInt64) -> Bool? {
        known[Key(action: action, topic: topic)].flatMap { now < $0.until ? $0.isAllowed : nil }
    }

    /// - Returns: whether more reaches the client from now on.
    mutating func record(_ question: TopicQuestion, _ decision: TopicDecision, now: UInt64) -> Bool {
        if known.count >= Limits.topicDecisionsMax || bytes + question.topic.count > Limits.topicDecisionsBytesMax {
            (known, bytes) = ([:], 0)
        }
        let key = Key(action: question.action, topic: question.topic)
        if known.updateValue((decision.isAllowed, now &+ decision.milliseconds), forKey: key) == nil {
            bytes += question.topic.count
        }
        guard decision.isAllowed, question.action == .subscribe else { return false }
        return add(filter: question.topic)
    }

    /// A subscription that the client has, and so may have.
    mutating func add(filter: [UInt8]) -> Bool {
        guard let filter = AccessFilter(filter, isPattern: false), !filters.contains(filter) else { return false }
        filters.append(filter)
        return true
    }

    /// A new login is asked for anew, but for what its session has.
    mutating func forget() { (known, bytes) = ([:], 0) }
}

/// Asking about topics.
///
/// ```
///     PUBLISH, SUBSCRIBE ─► the rules say no ─► decided before ─► yes or no
///                                                └ not decided ─► Effect.authorize ─► decided(_:_:_:) ─► the packet is read again
///                                                                    what the client sends meanwhile waits in `inbound`
/// ```
extension AccessChecks {
    /// Whether an authority has allowed what no rule does; nil where there is none, or it has not been asked lately.
    @inline(never)
    func decision(_ action: AccessAction, _ topic: some Collection<UInt8>, _ session: Session) -> Bool? {
        guard session.grant?.topics != nil else { return nil }
        return session.topicDecisions.isAllowed(action, Array(topic), now: shard.now)
    }

    /// Asks the authority about a topic, if there is one and it has not said anything; the packet waits.
    ///
    /// - Returns: whether it does.
    @inline(never)
    func mustAsk(
        _ action: AccessAction, _ topic: some Collection<UInt8>, _ session: Session, _ connection: Connection
    ) -> Bool {
        guard session.grant?.topics != nil, decision(action, topic, session) == nil else { return false }
        ask(action, Array(topic), session, connection)
        connection.makeExtras().awaitsDecision = true
        connection.hasOpenPacket = true
        return true
    }

    /// Asks ahead, so that the answer is there when a will is due.
    func askAhead(aboutWill topic: TopicName, _ session: Session, _ connection: Connection) {
        guard session.grant?.topics != nil, !(topic.bytes.withUnsafeBytes { session.owner.access?.mayPublish(topic: $0) ?? true })
        else { return }
        ask(.publish, topic.bytes, session, connection)
    }

    private func ask(_ action: AccessAction, _ topic: [UInt8], _ session: Session, _ connection: Connection) {
        guard let authority = session.grant?.topics else { return }
        shard.effects.append(
            .authorize(
                connection.id,
                TopicQuestion(
                    action: action, topic: topic, userName: session.owner.userName, clientIdentifier: session.clientIdentifier),
                authority))
    }

    /// A client has logged in whose topics an authority decides about: it keeps the subscriptions that it has. Those of
    /// a superuser, for which nobody was asked, are asked for.
    func beginDecisions(of session: Session, _ before: LoginGrant?, _ connection: Connection) {
        guard session.grant?.topics != nil else { return }
        session.topicDecisions.forget()
        func add(_ filter: [UInt8]) {
            if before?.isSuperuser == true {
                ask(.subscribe, filter, session, connection)
            } else {
                _ = session.topicDecisions.add(filter: filter)
            }
        }
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            if let filter = TopicFilter(shard.tree.filter(of: record)) { add(Array(filter.matchingBytes)) }
            record = shard.tree.records[record].nextOfSession
        }
        for membership in session.groups { add(membership.name.filter) }
    }
}

extension BrokerShard {
    /// An authority's answer to `Effect.authorize`.
    public func decided(_ id: ConnectionID, _ question: TopicQuestion, _ decision: TopicDecision) {
        guard let connection = connections.find(id), let session = connection.session else { return }
        if session.topicDecisions.record(question, decision, now: now) { accessChecks.renewAccess(session) }
        guard connection.extras?.awaitsDecision == true else { return }
        connection.makeExtras().awaitsDecision = false
        if connection.hasOpenPacket { connections.openPackets.append(id) }
    }
}

extension Limits {
    /// Topics of a client that an authority has decided about; beyond them all of it is forgotten, and asked for again.
    /// Bytes: `topicDecisionsBytesMax`.
    static let topicDecisionsMax = 1000

    /// Bytes of these topics; beyond them likewise.
    static let topicDecisionsBytesMax = 256 << 10

    /// Bytes that a client may send while an authority is asked about its topics; more end its connection.
    static let undecidedBytesMax = 4 << 20
}
