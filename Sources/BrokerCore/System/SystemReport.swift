import BrokerModel

/// What the broker tells of itself below `$SYS`, on the shard that tells it: the first.
///
///     off ── begin ──► waiting for the interval ── beginRound ──► waiting for the other shards' counts ──► changes, waiting again
///
/// Invariant: while `missing` is not 0, so many shards have been asked for their counts and have not answered. A round that is under way
/// when the report is switched off ends without a word. Owned by a shard, used on its thread only.
struct SystemReport {
    /// The values that were told last; nil while nothing is told.
    private var topics: SystemTopics?
    /// The counts of the shards that have answered.
    private var sum = ShardStatistics()
    /// How many shards have not answered yet.
    private(set) var missing = 0
    /// The heap of the whole process in bytes, as the shell last told.
    private var heapBytes = 0
    /// What the store holds, as the shell last told.
    private var store: StoreFigures?

    var isOn: Bool { topics != nil }

    /// Begins to tell: the uptime counts from `now`, in milliseconds.
    mutating func begin(now: UInt64) { topics = SystemTopics(now: now) }

    mutating func end() { topics = nil }

    mutating func note(heapBytes: Int) { self.heapBytes = heapBytes }

    mutating func note(_ figures: StoreFigures) { store = figures }

    /// Puts what is known of the process and the store into this shard's counts.
    func complete(_ statistics: inout ShardStatistics) {
        statistics.heapBytes = heapBytes
        statistics.store = store
    }

    /// Begins to add up all shards' counts, with this shard's own.
    ///
    /// - Parameter others: how many other shards are asked.
    /// - Returns: false if shards that were asked before have not answered yet. Asked again, the others would answer for them.
    mutating func beginRound(_ own: ShardStatistics, others: Int) -> Bool {
        guard missing == 0 else { return false }
        (sum, missing) = (own, others)
        return true
    }

    /// Adds the counts of a shard that was asked.
    ///
    /// - Returns: whether it was the last one.
    mutating func receivedCounts(_ statistics: ShardStatistics) -> Bool {
        guard missing > 0 else { return false }
        sum.add(statistics)
        missing -= 1
        return missing == 0
    }

    /// The topics whose value is another one since the last time, now that all counts are there.
    ///
    /// - Parameters:
    ///   - now: milliseconds on the shard's clock.
    ///   - health: the store's; nil without a store.
    mutating func changes(now: UInt64, version: String, health: StoreHealth?) -> [(topic: String, value: String)] {
        topics?.update(sum, now: now, version: version, health: health) ?? []
    }

    /// The store is in another state than before: the topic that says so.
    mutating func changes(_ health: StoreHealth) -> [(topic: String, value: String)] { topics?.update(health) ?? [] }

    /// When the report is due next on the shard's clock, in milliseconds: at the next multiple of the interval on the wall clock, as
    /// mosquitto has it.
    ///
    /// - Parameter wallClockOffset: what the shard's clock lacks of the milliseconds since 1970.
    static func nextTime(after now: UInt64, intervalSeconds: UInt32, wallClockOffset: UInt64) -> UInt64 {
        let interval = UInt64(intervalSeconds) * 1000
        return now + interval - (now &+ wallClockOffset) % interval
    }

    /// Traps where the invariant does not hold.
    ///
    /// - Parameter shardCount: how many shards the broker has.
    func checkInvariants(shardCount: Int) {
        precondition((0..<shardCount).contains(missing), "\(missing) of \(shardCount) shards have not answered")
    }
}
