import BrokerModel

/// The events of a shard that are still to be told.
///
/// Invariant: at most the shard's parts of `Limits.presenceEventsPerSecondMax` and of `Limits.presenceBytesPerSecondMax` are taken in a
/// second, and at most `Limits.droppingClientsMax` clients that lose messages. Belongs to a shard.
struct PresenceEvents {
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
