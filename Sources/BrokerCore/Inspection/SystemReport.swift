import BrokerModel
import MQTTCodec

/// What the broker tells of itself below `$SYS`, on the shard that tells it: the first.
///
///     off ── begin ──► waiting for the interval ── beginRound ──► waiting for the other shards' counts ──► changes, waiting again
///
/// Invariant: while `missing` is not 0, so many shards have been asked for their counts and have not answered. A round
/// that is under way when the report is switched off ends without a word. Owned by a shard, used on its thread only.
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

    mutating func record(heapBytes: Int) { self.heapBytes = heapBytes }

    mutating func record(_ figures: StoreFigures) { store = figures }

    /// Puts what is known of the process and the store into this shard's counts.
    func complete(_ statistics: inout ShardStatistics) {
        statistics.heapBytes = heapBytes
        statistics.store = store
    }

    /// Begins to add up all shards' counts, with this shard's own.
    ///
    /// - Parameter others: how many other shards are asked.
    /// - Returns: false if shards that were asked before have not answered yet. Asked again, the others would answer
    ///   for them.
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

    /// When the report is due next on the shard's clock, in milliseconds: at the next multiple of the interval on the
    /// wall clock, as mosquitto has it.
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

/// What the broker tells of itself below `$SYS/broker/`, with mosquitto's names.
///
/// Takes in the sum of all shards' statistics now and then, and says which topics have a new value.
struct SystemTopics {
    private let startedAt: UInt64
    private var lastUpdateAt: UInt64
    private var published: [String: String] = [:]
    private var loads = Array(repeating: LoadAverage(), count: Self.loadTotals.count)
    private var maxima = SystemMaxima()

    init(now: UInt64) {
        startedAt = now
        lastUpdateAt = now
    }

    /// The topics whose value has changed since the last call, in a fixed order.
    ///
    /// - Parameter health: the store's; nil without a store.
    mutating func update(
        _ statistics: ShardStatistics, now: UInt64, version: String, health: StoreHealth? = nil
    ) -> [(topic: String, value: String)] {
        maxima.record(statistics)
        let seconds = Double(now - lastUpdateAt) / 1000
        lastUpdateAt = now
        var values: [(topic: String, value: String)] = [
            ("version", version), ("uptime", "\((now - startedAt) / 1000) seconds"),
        ]
        for figure in SystemFigure.topics {
            if let value = figure.value(of: statistics, maxima) { values.append((figure.topic, String(value))) }
        }
        if let health { values.append((Self.storeState, health.word)) }
        values += DropReason.allCases.map { ("publish/messages/dropped/\($0.level)", String(statistics.drops[$0])) }
        values += Self.packetCounts(statistics).map { ($0, String($1)) }
        for (position, (name, total)) in Self.loadTotals.enumerated() {
            loads[position].update(total: total(statistics), seconds: seconds)
            for (minutes, value) in zip(LoadAverage.minutes, loads[position].values) {
                values.append(("load/\(name)/\(minutes)min", LoadAverage.text(value)))
            }
        }
        return changes(values)
    }

    /// The store is in another state than before: the topic that says so, without waiting for the next update.
    mutating func update(_ health: StoreHealth) -> [(topic: String, value: String)] { changes([(Self.storeState, health.word)]) }

    private mutating func changes(_ values: [(topic: String, value: String)]) -> [(topic: String, value: String)] {
        var changed: [(topic: String, value: String)] = []
        for (name, value) in values where published[name] != value {
            published[name] = value
            changed.append(("$SYS/broker/" + name, value))
        }
        return changed
    }

    private static let storeState = "store/state"

    /// Packets by type. mosquitto's manual has these topics; it never publishes them.
    private static func packetCounts(_ statistics: ShardStatistics) -> [(String, UInt64)] {
        var counts: [(String, UInt64)] = []
        for type in PacketType.allCases {
            if type.isSent(by: .client, version: .v5) {
                counts.append(("mqtt/\(type)/received", statistics.packetsReceived[type]))
            }
            if type.isSent(by: .server, version: .v5) {
                counts.append(("mqtt/\(type)/sent", statistics.packetsSent(of: type)))
            }
        }
        return counts
    }

    /// The totals whose rates are averaged, by their names below `load/`.
    private static let loadTotals: [(name: String, total: @Sendable (ShardStatistics) -> UInt64)] = [
        ("messages/received", \.messagesReceived), ("messages/sent", \.messagesSent), ("publish/received", \.publishReceived),
        ("publish/sent", \.publishSent), ("publish/dropped", \.publishDropped), ("bytes/received", \.bytesReceived),
        ("bytes/sent", \.bytesSent), ("sockets", \.socketsOpened), ("connections", \.connectionsAccepted),
    ]
}

/// A rate per minute, averaged over the last 1, 5 and 15 minutes with weights that fall off exponentially, as mosquitto
/// reckons it.
struct LoadAverage {
    static let minutes = [1, 5, 15]

    private(set) var values = [0.0, 0.0, 0.0]
    private var lastTotal: UInt64 = 0

    /// Takes in a total that is `seconds` newer than the last one.
    mutating func update(total: UInt64, seconds: Double) {
        guard seconds > 0 else { return }
        let perMinute = Double(total > lastTotal ? total - lastTotal : 0) * 60 / seconds
        lastTotal = total
        for (position, minutes) in Self.minutes.enumerated() {
            let weight = Self.exponential(-seconds / (Double(minutes) * 60))
            values[position] = perMinute + weight * (values[position] - perMinute)
        }
    }

    /// e to the power of `exponent`, for exponents of 0 and below: the series, after halving the exponent until it is
    /// small.
    static func exponential(_ exponent: Double) -> Double {
        guard exponent > -700 else { return 0 }
        var reduced = exponent
        var halvings = 0
        while reduced < -0.5 {
            reduced /= 2
            halvings += 1
        }
        var (term, sum) = (1.0, 1.0)
        for step in 1..<14 {
            term *= reduced / Double(step)
            sum += term
        }
        for _ in 0..<halvings { sum *= sum }
        return sum
    }

    /// A value with two digits behind the point.
    static func text(_ value: Double) -> String {
        let hundredths = Int((value * 100).rounded())
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)"
    }
}
