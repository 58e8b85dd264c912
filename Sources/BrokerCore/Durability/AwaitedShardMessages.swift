/// What something relies on beyond its own shard's store: shard messages that have to be durable at its receivers.
struct DurabilityDependency: Equatable {
    /// The shards that got such messages, a bit each; behind them one for the cluster.
    var shards: UInt64
    /// The serial of the batches that it went in, or a later one.
    var serial: UInt64
    /// The partitions of the cluster's log that it went into, a bit each.
    var partitions: UInt64 = 0

    static let nothing = DurabilityDependency(shards: 0, serial: 0)
    /// All that was sent, and held, before this is at the front of the queue.
    static let everything = DurabilityDependency(shards: .max, serial: .max, partitions: .max)

    var isEverything: Bool { self == .everything }

    /// Whether it relies on shard messages to a shard with a serial of these, or on all shard messages.
    func depends(on shard: Int, from oldest: UInt64, through newest: UInt64) -> Bool {
        shards == .max || (shards >> UInt64(shard) & 1 == 1 && serial >= oldest && serial <= newest)
    }

    /// What relies on both. May wait for shard messages that one of them sent to a shard of the other's.
    func union(_ other: DurabilityDependency) -> DurabilityDependency {
        if shards == 0 { return other }
        if other.shards == 0 { return self }
        return DurabilityDependency(
            shards: shards | other.shards, serial: max(serial, other.serial), partitions: partitions | other.partitions)
    }
}

/// The batches of shard messages that other shards have to confirm when what came of them would survive a power cut.
///
/// Batches that leave together have one serial, which rises; each receiver confirms in the order of its shard messages.
///
///     unconfirmed[shard]: rising, all ≤ serial
struct AwaitedShardMessages {
    /// The serial of the batches being filled.
    private(set) var serial: UInt64 = 1
    /// By shard: the serials of the batches that it has not confirmed.
    private var unconfirmed: [[UInt64]]

    /// - Parameter receiverCount: the shards, and the cluster behind them.
    init(receiverCount: Int) { unconfirmed = Array(repeating: [], count: receiverCount) }

    /// Whether nothing is to be confirmed.
    var isEmpty: Bool { unconfirmed.allSatisfy(\.isEmpty) }

    /// The batch being filled for a shard is to be confirmed.
    mutating func require(of shard: Int) {
        if unconfirmed[shard].last != serial { unconfirmed[shard].append(serial) }
    }

    /// The batches have left: what is sent from now on goes in others.
    mutating func posted() { serial &+= 1 }

    /// A shard has made durable what came of the batches up to this serial.
    mutating func confirm(_ serial: UInt64, by shard: Int) {
        let count = unconfirmed[shard].prefix { $0 <= serial }.count
        if count > 0 { unconfirmed[shard].removeFirst(count) }
    }

    /// The oldest serial that a shard has not confirmed; nil for none.
    func oldest(of shard: Int) -> UInt64? { unconfirmed[shard].first }

    /// The first shard that something still waits for; nil if there is none.
    func firstAwaited(_ dependency: DurabilityDependency) -> Int? {
        var left = dependency.shards
        while left != 0 {
            let shard = left.trailingZeroBitCount
            guard shard < unconfirmed.count else { return nil }
            if let oldest = unconfirmed[shard].first, oldest <= dependency.serial { return shard }
            left &= left &- 1
        }
        return nil
    }

    func checkInvariants() {
        for serials in unconfirmed {
            precondition(zip(serials, serials.dropFirst()).allSatisfy { $0 < $1 }, "serials rise")
            precondition(serials.last ?? 0 <= serial, "nothing is awaited that was not mailed")
        }
    }
}
