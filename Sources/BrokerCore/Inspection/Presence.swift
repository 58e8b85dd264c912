import BrokerModel
import MQTTCodec

/// Telling who comes and goes: as effects, to who watches; as messages below `$SYS/brokers/`; and to who asks later why
/// a client has gone.
///
/// ```
///     something happens ─► tell ─► Effect.presence             if anybody watches
///                           └────► presence ─► published in     if martlet_presence_events says so,
///                                              endTurn, some     and anybody subscribes to such topics
///                                              in each turn
/// ```
/// Nothing of it costs anything while nobody wants to know, but that the last closed connections are remembered.
struct Presence {
    let shard: BrokerShard

    /// Whether anybody wants to hear of events.
    var reportsPresence: Bool { shard.settings.tellsPresence || shard.inspection.presence.isWatched || isPresenceRead }

    /// Whether events are published and somebody subscribes to topics of such: on whichever shard, whose interest
    /// stands in the tree. What a node of a cluster says of its clients goes to no other.
    private var isPresenceRead: Bool {
        shard.settings.presenceTopics != .none
            && PresenceMessage.root(shard.settings).withUnsafeBytes { shard.tree.hasFilters(below: $0) }
    }

    private func report(_ event: PresenceEvent) {
        if shard.settings.tellsPresence || shard.inspection.presence.isWatched { shard.effects.append(.presence(event)) }
        guard event.isPublished(by: shard.settings.presenceTopics), isPresenceRead else { return }
        if shard.inspection.presence.add(event, now: shard.now) { armSecond() }
    }

    /// A client was let in.
    func reportArrival(of connection: Connection, sessionPresent: Bool) {
        shard.inspection.presence.lastNumber = max(shard.inspection.presence.lastNumber + 1, shard.wallClock(shard.now))
        connection.arrivalNumber = shard.inspection.presence.lastNumber
        guard reportsPresence, let session = connection.session else { return }
        report(
            .connected(
                ClientArrival(
                    clientIdentifier: session.clientIdentifier, session: session.key, number: connection.arrivalNumber,
                    userName: connection.client.userName, connection: connection.id, info: connection.info,
                    version: connection.version,
                    cleanStart: connection.client.isCleanStart, sessionPresent: sessionPresent,
                    keepAliveSeconds: UInt16(clamping: connection.keepAliveMilliseconds / 1500),
                    sessionExpirySeconds: session.expiryIntervalSeconds, receiveMaximum: session.inFlightMax, at: shard.now)))
    }

    /// A client's connection is about to be parted from its session.
    ///
    /// - Parameter isOwnReturn: whether its own client has come back on another connection, rather than somebody else
    ///   with its name.
    func reportDeparture(
        of connection: Connection, _ reason: ReasonCode?, _ words: String, will fate: Disconnecting.WillFate,
        isByClient: Bool = false,
        isOwnReturn: Bool = false
    ) {
        if connection.isTraced { shard.tracing.traceEnd(of: connection, reason, words) }
        guard let session = connection.session, !connection.client.isLocal || reportsPresence else { return }
        if !connection.client.isLocal {
            record(connection, reason, words, isByClient: isByClient)
            shard.statistics.disconnects.count(DisconnectTally(listener: connection.info.listener, reason: reason))
            if isByClient || isOwnReturn || reason != .sessionTakenOver {
                shard.banEnforcement.countFlapping(of: connection, session.clientIdentifier, reason)
            }
        }
        guard reportsPresence else { return }
        report(
            .disconnected(
                ClientDeparture(
                    clientIdentifier: session.clientIdentifier, session: session.key, number: connection.arrivalNumber,
                    userName: connection.client.userName, connection: connection.id, info: connection.info,
                    version: connection.version,
                    connectedAt: connection.connectedAt, reason: reason, words: words, isByClient: isByClient,
                    willSent: session.will != nil && fate == .due, traffic: connection.traffic, drops: session.drops, at: shard.now)
            ))
    }

    /// A client is not let in.
    ///
    /// - Parameters:
    ///   - connection: it has no session.
    ///   - reason: what it is told, or would be.
    ///   - words: why, for the operator.
    ///   - isSilent: whether no CONNECT came.
    func reportRefusal(of connection: Connection, _ reason: ReasonCode, _ words: String, isSilent: Bool = false) {
        if connection.isTraced { shard.tracing.traceEnd(of: connection, reason, words) }
        guard !connection.client.isLocal else { return }
        shard.statistics.refusals.count(isSilent ? .silence : .connect(reason))
        record(connection, reason, words, isByClient: false)
        guard reportsPresence else { return }
        let packet = connection.extras?.pendingConnect
        report(
            .refused(
                ClientRefusal(
                    clientIdentifier: packet.flatMap { $0.clientIdentifier.isEmpty ? nil : $0.clientIdentifier },
                    userName: packet?.userName, info: connection.info, version: connection.version, reason: reason, words: words,
                    at: shard.now)))
    }

    /// Remembers a connection that ends.
    private func record(_ connection: Connection, _ reason: ReasonCode?, _ words: String, isByClient: Bool) {
        let pending = connection.extras?.pendingConnect
        let name =
            connection.session?.clientIdentifier ?? pending.flatMap { $0.clientIdentifier.isEmpty ? nil : $0.clientIdentifier }
        shard.inspection.closedConnections.add(
            ClosedConnectionRow(
                position: shard.inspection.closedConnections.nextPosition(at: shard.now),
                clientIdentifier: name?.cut(by: shard.placement.hashing),
                userName: (connection.client.userName ?? pending?.userName)?.cut(by: shard.placement.hashing),
                address: connection.info.address,
                port: connection.info.port, listener: connection.info.listener, wasAdmitted: connection.session != nil,
                from: connection.session == nil ? connection.lastReceivedAt : connection.connectedAt, reason: reason,
                words: CutText.cut(words), isByClient: isByClient, traffic: connection.traffic))
    }

    /// A session is about to end.
    func reportEnd(of session: Session) {
        if reportsPresence { report(.sessionEnded(clientIdentifier: session.clientIdentifier, session: session.key)) }
    }

    /// - Parameter options: nil for a subscription that has ended.
    func reportSubscription(of session: Session, _ filter: TopicFilter, _ options: SubscriptionOptions?, isNew: Bool) {
        guard reportsPresence else { return }
        let change = ClientSubscription(
            clientIdentifier: session.clientIdentifier, userName: session.owner.userName, filter: filter, options: options,
            isNew: isNew,
            at: shard.now)
        report(options == nil ? .unsubscribed(change) : .subscribed(change))
    }

    /// A client has lost a message: told a second later, with all that it has lost until then.
    func recordDrop(of session: Session) {
        if shard.inspection.presence.recordDrop(of: session) { armSecond() }
    }

    func reportSlow(_ session: Session, lagMilliseconds: UInt64) {
        guard reportsPresence else { return }
        report(.slow(clientIdentifier: session.clientIdentifier, lagMilliseconds: lagMilliseconds, at: shard.now))
    }

    // MARK: A second later

    /// Has `secondPassed` called in a second, unless it will be sooner.
    func armSecond() {
        guard shard.inspection.presence.secondTimer == TimerWheel.none else { return }
        shard.inspection.presence.secondTimer = shard.wheel.arm(
            TimerSubject(kind: .second, index: 0, generation: 0), at: shard.now + 1000)
    }

    func secondPassed() {
        shard.inspection.presence.secondTimer = TimerWheel.none
        for (index, key) in shard.inspection.presence.takeDropping() {
            guard let session = shard.sessions.find(index: index, key: key), reportsPresence else { continue }
            report(.dropping(clientIdentifier: session.clientIdentifier, drops: session.drops, at: shard.now))
        }
        let lost = shard.inspection.presence.takeLost()
        if lost > 0 {
            let event = PresenceEvent.lost(count: lost, at: shard.now)
            if shard.settings.tellsPresence || shard.inspection.presence.isWatched { shard.effects.append(.presence(event)) }
            shard.inspection.presence.addLost(event)
        }
        if shard.slowClients.sweepSlowClients() { armSecond() }
    }

    // MARK: As messages

    /// Publishes events, each client's in order; those that are too many for a turn wait for the next.
    @inline(never)
    func publishPresence() {
        var left = Limits.presenceBytesPerTurn
        while left > 0, let event = shard.inspection.presence.takePending() {
            left -= event.byteCount
            guard let topic = PresenceMessage.topic(of: event, shard.settings), isRead(topic),
                let payload = PresenceMessage.payload(of: event, shard.settings)
            else { continue }
            shard.figures.publishFromBroker(topic, payload, retain: false, qos: .atLeastOnce)
        }
    }

    /// Whether anybody gets, counts or traces the messages of a topic.
    private func isRead(_ topic: [UInt8]) -> Bool {
        topic.withUnsafeBytes { topic in
            shard.dispatcher.matches(of: topic).with { $0.isObserved || !$0.isEmpty } || shard.inspection.watcher != nil
        }
    }
}

extension PresenceEvent {
    /// Whether it is published.
    fileprivate func isPublished(by topics: PresenceTopics) -> Bool {
        switch self {
        case .connected, .disconnected, .lost: topics != .none
        case .refused, .subscribed, .unsubscribed: topics == .all
        case .sessionEnded, .dropping, .slow: false
        }
    }
}

/// The events of a shard that are still to be told.
///
/// Invariant: at most the shard's parts of `Limits.presenceEventsPerSecondMax` and of
/// `Limits.presenceBytesPerSecondMax` are taken in a second, and at most `Limits.droppingClientsMax` clients that lose
/// messages. Belongs to a shard.
struct PresenceEvents {
    /// Whether somebody wants to hear of events as effects.
    var isWatched = false
    /// The timer of what happens a second later.
    var secondTimer = TimerWheel.none
    /// To be published when turns end.
    private var pending: [PresenceEvent] = []
    /// How many at the front of them are published.
    private var published = 0
    /// That of the last client that was let in.
    var lastNumber: UInt64 = 0
    private var gauge: RateGauge
    private var byteGauge: RateGauge
    private var lost: UInt64 = 0
    /// The sessions that have lost messages since this was told.
    private var dropping: [UInt64: UInt32] = [:]

    init(shardCount: Int, now: UInt64) {
        gauge = RateGauge(perSecond: max(1, Limits.presenceEventsPerSecondMax / shardCount), now: now)
        byteGauge = RateGauge(perSecond: max(1, Limits.presenceBytesPerSecondMax / shardCount), now: now)
    }

    var hasPending: Bool { !pending.isEmpty }

    /// Takes an event, or counts it as lost.
    ///
    /// - Returns: whether it is the first one that is lost.
    mutating func add(_ event: PresenceEvent, now: UInt64) -> Bool {
        guard gauge.take(1, now: now), byteGauge.take(event.byteCount, now: now) else {
            lost += 1
            return lost == 1
        }
        pending.append(event)
        return false
    }

    /// Takes the word of how many were lost, which is never too much.
    mutating func addLost(_ event: PresenceEvent) { pending.append(event) }

    /// The event that is published next; nil if there is none.
    mutating func takePending() -> PresenceEvent? {
        guard published < pending.count else { return nil }
        let event = pending[published]
        published += 1
        if published == pending.count { (pending, published) = ([], 0) }
        return event
    }

    mutating func takeLost() -> UInt64 {
        defer { lost = 0 }
        return lost
    }

    /// - Returns: whether it is the first of those that wait to be told.
    mutating func recordDrop(of session: Session) -> Bool {
        guard dropping.count < Limits.droppingClientsMax else { return false }
        dropping[session.key] = session.index
        return dropping.count == 1
    }

    /// The sessions that have lost messages, by key.
    mutating func takeDropping() -> [(index: UInt32, key: UInt64)] {
        defer { dropping = [:] }
        return dropping.map { (index: $0.value, key: $0.key) }.sorted { $0.key < $1.key }
    }
}

extension PresenceEvents: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.inspection.presence.hasPending }
    static func step(_ shard: BrokerShard) { shard.presence.publishPresence() }
}

extension Limits {
    /// Bytes of events, as they are counted for a second, that are published in a turn; the others are in the next
    /// ones, in order. Of short names some 200 events, a millisecond beside the work of their receivers.
    static let presenceBytesPerTurn = 64 << 10

    /// Clients of a shard that lose messages of which a second is told; others are told of when they lose another one.
    /// Bytes: 12 each.
    static let droppingClientsMax = 1000
}

extension BrokerShard {
    /// Somebody wants to hear of events as `Effect.presence`, or nobody any more.
    public func watchPresence(_ isWatched: Bool) { inspection.presence.isWatched = isWatched }
}
