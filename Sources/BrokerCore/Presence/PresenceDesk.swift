/// The events of a shard that are still to be told.
///
/// Invariant: at most the shard's part of `Limits.presenceEventsPerSecondMax` are taken in a second, and at most
/// `Limits.droppingClientsMax` clients that lose messages. Belongs to a shard.
struct PresenceDesk {
    /// To be published when the turn ends.
    var pending: [PresenceEvent] = []
    /// That of the last client that was let in.
    var lastNumber: UInt64 = 0
    private var gauge: RateGauge
    private var lost: UInt64 = 0
    /// The sessions that have lost messages since this was told.
    private var dropping: [UInt64: UInt32] = [:]

    init(shardCount: Int, now: UInt64) {
        gauge = RateGauge(perSecond: max(1, Limits.presenceEventsPerSecondMax / shardCount), now: now)
    }

    /// Takes an event, or counts it as lost.
    ///
    /// - Returns: whether it is the first one that is lost.
    mutating func add(_ event: PresenceEvent, now: UInt64) -> Bool {
        guard gauge.take(1, now: now) else {
            lost += 1
            return lost == 1
        }
        pending.append(event)
        return false
    }

    mutating func takeLost() -> UInt64 {
        defer { lost = 0 }
        return lost
    }

    /// - Returns: whether it is the first of those that wait to be told.
    mutating func noteDrop(of session: Session) -> Bool {
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
