/// The topics whose retained message has just changed, as this shard heard it live.
///
/// A live message comes straight from its publisher's shard, a retained one from the shard that keeps the topic, so that the older of
/// two may be the later to arrive. The keeper skips what changed after its scan began; what it had sent before it heard of the change
/// is recognised here. That takes no longer than a message between shards, so notes are kept for some seconds only, and
/// only while other shards are being asked, and of the topics that changed last only.
struct RetainedArrivals {
    private var sequence: UInt64 = 0
    private var recent: [UInt64: UInt64] = [:]
    private var older: [UInt64: UInt64] = [:]
    private var turnedAt: UInt64 = 0
    private var activeUntil: UInt64 = 0

    /// A subscription begins that will ask other shards; returns what to compare its retained messages with.
    mutating func stamp(now: UInt64) -> UInt64 {
        stayActive(now: now)
        sequence += 1
        return sequence
    }

    /// Retained messages of other shards are still arriving.
    mutating func stayActive(now: UInt64) { activeUntil = now + Limits.arrivalsActiveMilliseconds }

    /// A live message with RETAIN was routed here; `topic` is its hash.
    mutating func note(topic: UInt64, now: UInt64) {
        guard now < activeUntil else { return }
        if now - turnedAt >= Limits.arrivalsKeptMilliseconds || recent.count >= Limits.arrivalsNotedMax {
            older = now - turnedAt >= 2 * Limits.arrivalsKeptMilliseconds ? [:] : recent
            recent = [:]
            turnedAt = now
        }
        sequence += 1
        recent[topic] = sequence
    }

    /// How many topics are noted.
    var rememberedCount: Int { recent.count + older.count }

    /// Whether a newer message of the topic came live after the subscription with this stamp began.
    func isOutdated(topic: UInt64, stamp: UInt64) -> Bool {
        (recent[topic] ?? older[topic] ?? 0) > stamp
    }
}
