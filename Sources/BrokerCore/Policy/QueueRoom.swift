import BrokerModel
import MQTTCodec

/// The connections on which messages were left without an answer: nobody could tell their clients that there was no
/// room.
struct AwaitedRoom {
    /// Whether publishers may be refused because of somebody's queue, on whichever shard that is.
    var mayRefusePublishers = false
    /// The publishers whose messages the store had no room for.
    var ofStore: Set<ConnectionID> = []
    /// The publishers before 5.0 whose messages a queue, or memory, had no room for.
    var ofQueues: Set<ConnectionID> = []
    /// Since one of these waits: whether a queue has got room that had none, and whether memory was short.
    var hasNew = false
    var awaitsMemory = false
}

/// `martlet_queue_drop refuse`, and the same of a bridge's own queue: publishers are refused while a session that would
/// get their message has a full queue, on whichever shard.
///
/// The publisher's shard decides, before anybody gets the message, so that all get it or none; and what it has taken is
/// queued by all, also by a queue that has become full meanwhile: what was answered with success is lost nowhere. For
/// that each shard tells the others which sessions of its own have full queues, what they subscribe to and what they
/// may read. What was on its way when they heard of it makes the queue longer than its limit.
///
///     room ──(limit reached)──► full: its filters stand in the other shards' trees ──(half of it gone)──► room
///
/// Half, so that telling a session's filters costs little beside the messages that make it full again.
struct QueueRoom {
    let shard: BrokerShard

    /// Whether the cluster's log takes no messages of a topic now.
    func isRefusedByLog(_ topic: UnsafeRawBufferPointer) -> Bool {
        shard.clusterLog.map { $0.refusesPublishers && $0.refuses(topic) } ?? false
    }

    /// Whether a session that would get the message has no room for it.
    func isFullForSomebody(_ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session) -> Bool {
        shard.dispatcher.matches(of: topic).with { matches in
            if matches.isFullElsewhere { return true }
            if matches.groups.contains(where: { shard.groups[$0]?.isFull(for: topic) ?? false }) { return true }
            return (0..<matches.routeCount).contains { position in
                let route = matches.routes[position]
                return hasReachedLimits(route.session) && queues(view.qos, route, from: session)
            }
        }
    }

    /// Whether a message of this QoS would stand in the queue of a route's session, which may have asked for another
    /// QoS, or for nothing of its own.
    private func queues(_ qos: QoS, _ route: Route, from publisher: Session) -> Bool {
        if let detail = route.detail, route.session == Reference(publisher),
            detail.with({ $0.own == nil })
        {
            return false
        }
        return shard.settings.queuesQoS0 || min(qos, route.maximumQoS) > .atMostOnce
    }

    private func hasReachedLimits(_ session: Reference<Session>) -> Bool {
        session.with { shard.dispatcher.bound(of: $0).overflow == .refusesPublisher && isFilled($0, part: 1) }
    }

    /// Whether so many messages or bytes wait for a session as fill the `part`-th part of its queue.
    private func isFilled(_ session: Session, part: Int) -> Bool {
        let bound = shard.dispatcher.bound(of: session)
        return (bound.messagesMax > 0 && session.queue.waiting * part >= max(bound.messagesMax, part))
            || (bound.bytesMax > 0 && session.queue.waitingBytes * part >= max(bound.bytesMax, part))
    }

    /// The queue of a session has become longer or shorter: tells the others if it is full now, or has room again.
    func updateFullness(of session: Session) {
        let isFull =
            shard.dispatcher.bound(of: session).overflow == .refusesPublisher
            && isFilled(session, part: session.bounds.isFull ? 2 : 1)
        if isFull != session.bounds.isFull { setFull(session, isFull) }
    }

    func updateFullness() {
        for session in shard.sessions.all { updateFullness(of: session) }
    }

    /// The settings are about to change.
    func forgetFullness() {
        for session in shard.sessions.all where session.bounds.isFull { setFull(session, false) }
    }

    func setFull(_ session: Session, _ isFull: Bool) {
        session.bounds.isFull = isFull
        if isFull {
            sendFullQueue(of: session)
        } else {
            shard.room.hasNew = true
            shard.messaging.sendToOthers(.queueHasRoom(sessionKey: session.key))
        }
        for membership in session.groups {
            shard.groups[membership.group]?.setFullness(sessionKey: session.key, isFull: isFull)
            shard.messaging.sendToOthers(.group(membership.name, .fullness(sessionKey: session.key, isFull: isFull)))
        }
    }

    /// Tells the other shards what a session with a full queue subscribes to and may read.
    func sendFullQueue(of session: Session) {
        guard shard.shardCount > 1 else { return }
        var filters: [[UInt8]] = []
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            if waits(record) { filters.append(shard.tree.filter(of: record)) }
            record = shard.tree.records[record].nextOfSession
        }
        shard.messaging.sendToOthers(
            .fullQueue(
                FullQueue(sessionKey: session.key, access: session.owner.access, part: session.topicPart, filters: filters)))
    }

    /// Tells the other shards of one subscription of a session with a full queue that is new, has changed, or goes.
    func sendFullQueue(of session: Session, _ record: UInt32, isThere: Bool) {
        shard.room.hasNew = true
        guard shard.shardCount > 1 else { return }
        shard.messaging.sendToOthers(
            .fullQueueFilter(sessionKey: session.key, filter: shard.tree.filter(of: record), isThere: isThere))
    }

    /// Whether messages of a subscription may stand in a queue.
    func waits(_ record: UInt32) -> Bool { shard.settings.queuesQoS0 || shard.tree.records[record].terms.maximumQoS > .atMostOnce }

    func receivedFullQueue(_ queue: FullQueue) {
        receivedRoom(queue.sessionKey)
        shard.sessions.fullElsewhere.enter(queue.sessionKey, queue.access, queue.part)
        for filter in queue.filters { receivedFullQueueFilter(queue.sessionKey, filter, true) }
    }

    func receivedFullQueueFilter(_ key: UInt64, _ filter: [UInt8], _ isThere: Bool) {
        guard let index = shard.sessions.fullElsewhere.record(filter, of: key, isThere: isThere) else { return }
        setFullQueue(index, filter, isThere)
    }

    func receivedRoom(_ key: UInt64) {
        guard let (index, filters) = shard.sessions.fullElsewhere.leave(key) else { return }
        shard.room.hasNew = true
        for filter in filters { setFullQueue(index, filter, false) }
    }

    private func setFullQueue(_ index: UInt32, _ filter: [UInt8], _ isThere: Bool) {
        filter.withUnsafeBytes { bytes in
            if isThere {
                let terms = SubscriptionTerms(maximumQoS: .exactlyOnce)
                _ = shard.tree.insert(bytes, subscriber: .fullQueue(index), terms: terms)
            } else {
                shard.room.hasNew = true
                let record = shard.tree.find(bytes, subscriber: .fullQueue(index))
                if record != SubscriptionRecord.none { shard.tree.remove(record) }
            }
        }
    }

    // MARK: Clients before 5.0

    /// A client before 5.0 cannot be told that its message was not taken. It stays without an answer, which makes a
    /// client with a bounded window wait; when there is room the connection ends, and the client sends it again on the
    /// next one. [MQTT-4.4.0-1 v3.1.1]
    func leaveUnanswered(_ connection: Connection) {
        if shard.room.ofQueues.isEmpty { (shard.room.hasNew, shard.room.awaitsMemory) = (false, false) }
        if shard.memoryBound.isMemoryFull { shard.room.awaitsMemory = true }
        if shard.room.ofQueues.insert(connection.id).inserted {
            shard.log(.notice) { "Client \(connection.name) must wait: there is no room for its messages." }
        }
    }

    /// Whether a message of the session's client was left without an answer, which it sends again: nothing may overtake
    /// it. [MQTT-4.6.0-1 v3.1.1]
    func isAwaitingRoom(_ session: Session) -> Bool {
        guard !shard.room.ofQueues.isEmpty, let connection = session.connection else { return false }
        return shard.room.ofQueues.contains(connection.with { $0.id })
    }

    /// Ends the connections on which messages were left without an answer, if there is room now.
    func endAwaitingRoom() {
        guard shard.room.hasNew || shard.room.awaitsMemory, !shard.memoryBound.isMemoryFull else { return }
        let waiting = shard.room.ofQueues.sorted { $0.slot < $1.slot }
        shard.room.ofQueues = []
        for connection in waiting.compactMap({ shard.connections.find($0) }) where connection.state == .connected {
            shard.disconnecting.refuse(
                connection, .quotaExceeded, because: "there was no room for some of its messages, which it may send again now.")
        }
    }
}

extension AwaitedRoom: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.room.ofQueues.isEmpty }
    static func step(_ shard: BrokerShard) { shard.queueRoom.endAwaitingRoom() }

    /// When to look again whether there is memory for those who wait for it, which other shards may have let go.
    static func deadline(_ shard: BrokerShard) -> UInt64? {
        hasWork(shard) && shard.room.awaitsMemory && shard.shardCount > 1 ? shard.now + Limits.memoryLookMilliseconds : nil
    }
}

extension Limits {
    /// Milliseconds after which a shard whose clients wait for memory looks again whether other shards have let go of
    /// some.
    static let memoryLookMilliseconds: UInt64 = 1000
}
