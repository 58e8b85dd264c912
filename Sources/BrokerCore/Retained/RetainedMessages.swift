import BrokerModel
import MQTTCodec

/// Retained messages: keeping them, and handing them out. A topic's retained message lives on the shard that the topic
/// hashes to.
struct RetainedMessages {
    let shard: BrokerShard

    /// Keeps a message as the retained one of its topic, on the shard that the topic belongs to. [MQTT-3.3.1-5 v5]
    ///
    /// - Parameter change: what the cluster calls it.
    func retain(_ publication: inout Publication, as change: RetainedChange = .none) {
        let target = shard.placement.shard(of: publication.topic)
        guard target != shard.index else {
            keep(&publication, change)
            return
        }
        forwardRetained(publication, as: change, to: target)
    }

    func forwardRetained(_ publication: borrowing Publication, as change: RetainedChange = .none, to target: Int) {
        var detail = ShardMessageDetail(shards: shard.dispatcher.interest(in: publication.topic) | 1 << UInt64(shard.index))
        (detail.sessionKey, detail.stamp) = (change.node, change.number)
        if let source = publication.source { shard.messaging.send(.retainedSource(source), target) }
        shard.messaging.append(publication, as: .retain, detail, to: target)
    }

    /// Another shard's client published a retained message of a topic of this shard. Subscriptions that the publisher's
    /// shard had not heard of yet get it from here: they have asked this shard for retained messages before it came.
    func receivedRetain(_ publication: inout Publication, deliveredTo shards: UInt64, _ change: RetainedChange) {
        keep(&publication, change)
        let missed = shard.dispatcher.interest(in: publication.topic) & ~shards
        if missed & 1 << UInt64(shard.index) != 0 { routeHere(&publication) }
        let others = missed & ~(1 << UInt64(shard.index))
        if others != 0 { shard.messaging.forward(publication, to: others, as: .detoured) }
    }

    /// A live message for subscriptions that its publisher's shard had not heard of. What that shard published after it
    /// had heard may have come before; then this one is of yesterday.
    func receivedDetoured(_ publication: inout Publication) {
        if !shard.scans.arrivals.isOutdated(topic: shard.placement.hash(publication.topic), stamp: 0) { routeHere(&publication) }
    }

    private func routeHere(_ publication: inout Publication) {
        if publication.path == .all {
            shard.dispatcher.route(&publication, .shard)
        } else {
            shard.clusterLogReading.routeByPath(&publication, .shard)
        }
    }

    /// - Parameters:
    ///   - change: what the cluster calls it, if the stream has not told of it.
    ///   - isLive: whether subscribers get it live too.
    func keep(_ publication: inout Publication, _ change: RetainedChange = .none, isLive: Bool = true) {
        if change != .none, !shard.clusterMessaging.isNews(change) { return }
        // A message without a payload only removes. [MQTT-3.3.1-6 v5] [MQTT-3.3.1-7 v5] [MQTT-3.3.1-10 v3.1.1]
        let number = shard.journal == nil ? 0 : shard.retained.storeNumber(publication.topic)
        if publication.payload.count == 0 {
            shard.sessionRows.forgetRetained(number)
            _ = shard.retained.remove(publication.topic)
        } else if shard.memoryBound.isMemoryFull, publication.byteCount > shard.retained.find(publication.topic)?.byteCount ?? 0 {
            shard.drops.drop(.noRoom, DroppedMessage(publication))
            return
        } else if publication.topic.first == UInt8(ascii: "$"),
            !shard.bridgeStateTopics.hasRoom(forBridgeState: publication.topic, byteCount: publication.byteCount)
        {
            shard.drops.drop(.noRoom, DroppedMessage(publication))
            return
        } else {
            let message = publication.makeMessage(shard.ledger)
            message.source = publication.source
            shard.retained.set(message, storeNumber: shard.sessionRows.keepRetained(publication, number: number), isLive: isLive)
        }
        if change != .none { shard.clusterMessaging.recordChange(publication, change) }
    }

    /// Sends one retained message to the subscription that asked, with RETAIN set. [MQTT-3.3.1-8 v3.1.1]
    func deliverRetained(_ message: Message, _ query: RetainedQuery) {
        guard checkRetained(message) else { return }
        var publication = Publication(message)
        deliverRetained(&publication, sessionIndex: query.sessionIndex, sessionKey: query.sessionKey, query.terms)
        shard.dispatcher.finish(&publication)
    }

    /// Whether a retained message is to be sent: its publisher may still write there, and it has not expired. One that
    /// has is removed.
    func checkRetained(_ message: Message) -> Bool {
        guard message.hasExpired(at: shard.now) else { return mayBeHandedOut(message) }
        if shard.journal != nil { shard.sessionRows.forgetRetained(shard.retained.storeNumber(message.topic)) }
        _ = shard.retained.remove(message.topic)
        return false
    }

    /// Sweeps when as many minutes have gone as the operator wants; not at all if that is none.
    func armRetainedSweep() {
        shard.wheel.disarm(shard.retained.sweep.timer)
        shard.retained.sweep.timer = TimerWheel.none
        shard.retained.sweep.node = 0
        guard shard.settings.retainedSweepMinutes > 0 else { return }
        armSweep(at: shard.now + UInt64(shard.settings.retainedSweepMinutes) * 60_000)
    }

    /// Removes the retained messages that have expired, here and from the store: some nodes of the tree a turn.
    func sweepRetained() {
        shard.retained.sweep.timer = TimerWheel.none
        let next = shard.retained.removeExpired(from: shard.retained.sweep.node, count: Limits.sweptNodesPerTurn, now: shard.now) {
            shard.sessionRows.forgetRetained($0)
        }
        guard let next else { return armRetainedSweep() }
        shard.retained.sweep.node = next
        armSweep(at: shard.now + 1)
    }

    private func armSweep(at deadline: UInt64) {
        shard.retained.sweep.timer = shard.wheel.arm(TimerSubject(kind: .retainedSweep, index: 0, generation: 0), at: deadline)
    }

    /// A retained message of another shard for a session of this one.
    func receivedRetained(_ publication: inout Publication, _ detail: ShardMessageDetail, from target: Int) {
        shard.scans.arrivals.stayActive(now: shard.now)
        if !shard.scans.arrivals.isOutdated(topic: shard.placement.hash(publication.topic), stamp: detail.stamp) {
            deliverRetained(
                &publication, sessionIndex: detail.sessionIndex, sessionKey: detail.sessionKey,
                SubscriptionTerms(bits: detail.terms))
        }
        guard detail.request != 0 else { return }
        shard.scans.receivedRequest(
            of: detail.sessionKey, ScanGrant(shard: target, scan: detail.shards, count: Int(detail.request)))
    }

    private func deliverRetained(
        _ publication: inout Publication, sessionIndex: UInt32, sessionKey: UInt64, _ terms: SubscriptionTerms
    ) {
        guard let session = shard.sessions.find(index: sessionIndex, key: sessionKey) else { return }
        guard shard.accessChecks.mayReceive(session, publication.topic) else { return }
        if terms.noLocal, publication.publisher == session.publisherKey { return }
        // Nobody was told that it would come here.
        publication.mustArrive = false
        shard.dispatcher.sendOrQueue(
            &publication, to: session, qos: shard.dispatcher.deliveryQoS(of: publication, terms.maximumQoS), retain: true,
            identifiers: terms.identifier == 0 ? nil : SubscriptionIdentifiers([terms.identifier]), group: 0)
    }
}

/// How far the look for retained messages that have expired has got.
struct RetainedSweep {
    /// The timer of its next step.
    var timer = TimerWheel.none
    /// The node of the tree that it begins with.
    var node: UInt32 = 0
}

/// `check_retain_source`: a retained message goes to a new subscriber only while its publisher may still write to its
/// topic.
///
/// The message itself knows its source. One that goes to another shard to be kept has its source sent ahead of it:
///
///     publisher's shard:  [retainedSource] [retain, topic, payload]  ─►  topic's shard
extension RetainedMessages {
    /// The source of retained messages that this session publishes; made once for each login.
    func retainedSource(of session: Session) -> RetainedSource {
        if let known = session.retainedSource { return known }
        let made = RetainedSource(
            clientIdentifier: session.clientIdentifier, userName: session.owner.userName, listener: session.owner.listener,
            listenerName: session.owner.listener.map { shard.settings.policy(of: $0).name } ?? "")
        session.retainedSource = made
        return made
    }

    /// Whether the rules that are in force now let the publisher of a retained message write to its topic. What the
    /// broker itself has published is always allowed.
    func mayBeHandedOut(_ message: Message) -> Bool {
        guard shard.settings.checksRetainSource, let source = message.source else { return true }
        if let known = shard.scans.knownPolicies(of: source) { return known.allSatisfy { $0.mayPublish(topic: message.topic) } }
        let policies = shard.accessChecks.policies(
            ofListener: source.listener, userName: source.userName, clientIdentifier: source.clientIdentifier)
        shard.scans.remember(policies, of: source)
        return policies.allSatisfy { $0.mayPublish(topic: message.topic) }
    }
}
