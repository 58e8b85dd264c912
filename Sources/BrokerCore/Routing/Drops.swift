import BrokerModel
import MQTTCodec

/// What does not get where it was going: counted for the broker, for the client that it concerns, for its topic's
/// beginning and for the client's listener, remembered for a while, and told.
struct Drops {
    let shard: BrokerShard

    // Apart: the loops in which messages are dropped do something else as a rule.
    @inline(never)
    func drop(_ reason: DropReason, _ message: DroppedMessage, for connection: Connection) {
        if let session = connection.session { return drop(reason, message, for: session) }
        shard.statistics.drops[reason] &+= 1
        shard.inspection.dropLog.add(reason, message, client: nil, listener: connection.info.listener, at: shard.now)
        if isObserving { shard.topicMetrics.countObservedDrop(reason, message, nil) }
    }

    @inline(never)
    func drop(_ reason: DropReason, _ message: DroppedMessage, for session: Session) {
        shard.statistics.drops[reason] &+= 1
        shard.inspection.dropLog.add(
            reason, message, client: session.clientIdentifier, listener: session.owner.listener, at: shard.now)
        if isObserving { shard.topicMetrics.countObservedDrop(reason, message, session.clientIdentifier) }
        // mosquitto's line; what it is about is told in full when the connection ends.
        if reason == .queueFull || reason == .outputFull, !session.bounds.mustDrop {
            session.bounds.mustDrop = true
            shard.log(.notice) { "Outgoing messages are being dropped for client \(session.clientIdentifier)." }
        }
        session.drops[reason] &+= 1
        if shard.presence.reportsPresence { shard.presence.recordDrop(of: session) }
    }

    /// A message that nobody in particular was to get.
    func drop(_ reason: DropReason, _ message: DroppedMessage) {
        shard.statistics.drops[reason] &+= 1
        shard.inspection.dropLog.add(reason, message, client: nil, listener: nil, at: shard.now)
        if isObserving { shard.topicMetrics.countObservedDrop(reason, message, nil) }
    }

    private var isObserving: Bool { shard.matchCache.observed != nil || shard.inspection.tracer != nil }

    /// Tells what a client has lost, if it is more than was told before: when its connection or its session ends.
    func reportDrops(of session: Session) {
        session.bounds.mustDrop = false
        let total = session.drops.total
        guard total > session.reportedDrops else { return }
        session.reportedDrops = total
        logDrops(session.drops, of: session.clientIdentifier)
    }

    func logDrops(_ drops: DropCounts, of clientIdentifier: EncodedString) {
        let total = drops.total
        guard total > 0 else { return }
        shard.log(.notice) {
            "Client \(clientIdentifier): \(total) \(total == 1 ? "message" : "messages") dropped (\(drops.words))."
        }
    }
}
