internal import BrokerModel
internal import JSON

/// A figure that is remembered over time. Rates are by the second; what is not there is no number.
struct Series: Sendable, CaseIterable {
    /// As answers call it.
    let name: String
    /// How the values of seconds make one of a minute: of times that some waited, the longest; of all else, the mean.
    let isLongest: Bool
    /// Its value at the end of a second.
    let value: @Sendable (SampledSecond) -> Double?

    private init(_ name: String, isLongest: Bool = false, _ value: @escaping @Sendable (SampledSecond) -> Double?) {
        (self.name, self.isLongest, self.value) = (name, isLongest, value)
    }

    /// A count of now.
    private static func now(_ name: String, _ count: @escaping @Sendable (ShardStatistics) -> Int) -> Series {
        Series(name) { Double(count($0.now.statistics)) }
    }

    /// How fast a count grows.
    private static func rate(_ name: String, _ count: @escaping @Sendable (ShardStatistics) -> UInt64) -> Series {
        Series(name) { $0.rate(count) }
    }

    /// A share of the waits of one kind, in milliseconds.
    private static func wait(_ name: String, _ share: Double, _ isMeant: @escaping @Sendable (Latency) -> Bool) -> Series {
        Series(name, isLongest: true) { $0.now.quantile(share, since: $0.before, isMeant) }
    }

    /// All, in the order in which answers have them.
    static let allCases: [Series] = states + rates + waits

    static let names = allCases.map(\.name)

    private static let states: [Series] = [
        now("connections", \.connections),
        now("clients_connected", \.clientsConnected),
        now("sessions", \.clientsTotal),
        now("subscriptions") { $0.subscriptions + $0.sharedSubscriptions },
        now("retained_messages", \.retainedMessages),
        now("stored_messages", \.storedMessages),
        now("stored_bytes", \.storedBytes),
        now("output_bytes", \.outputBytes),
        Series("memory_bytes") { Double($0.now.residentBytes) },
        Series("processor_percent", \.processorPercent),
        Series("store_bytes") { $0.now.statistics.store.map { Double($0.bytes) } },
        Series("store_rows") { $0.now.statistics.store.map { Double($0.rows) } },
    ]

    private static let rates: [Series] =
        [
            rate("received_messages_rate", \.publishReceived),
            rate("sent_messages_rate", \.publishSent),
            rate("received_bytes_rate", \.bytesReceived),
            rate("sent_bytes_rate", \.bytesSent),
            rate("received_packets_rate", \.messagesReceived),
            rate("sent_packets_rate", \.messagesSent),
            rate("accepted_rate", \.connectionsAccepted),
            rate("refused_rate", \.connectionsRefused),
            rate("dropped_rate", \.drops.total),
        ] + DropReason.allCases.map { reason in rate("dropped_\(reason.label)_rate") { $0.drops[reason] } }

    private static let waits: [Series] = [
        wait("acknowledge_p50_ms", 0.5) { if case .acknowledge = $0 { true } else { false } },
        wait("acknowledge_p99_ms", 0.99) { if case .acknowledge = $0 { true } else { false } },
        wait("delivery_p99_ms", 0.99) { if case .delivery = $0 { true } else { false } },
        wait(storeCommit, 0.99) { $0 == .storeCommit },
    ]

    /// The one that an alarm goes by.
    static let storeCommit = "store_commit_p99_ms"
}

/// The counts at the end of a second, and at the end of the one before.
struct SampledSecond {
    let now: Sample
    let before: Sample?
    /// How long it was.
    let seconds: Double

    func rate(_ count: (ShardStatistics) -> UInt64) -> Double? {
        guard let before, seconds > 0 else { return nil }
        return Double(count(now.statistics) &- min(count(now.statistics), count(before.statistics))) / seconds
    }

    var processorPercent: Double? {
        guard let before, seconds > 0 else { return nil }
        return max(0, now.processorSeconds - before.processorSeconds) / seconds * 100
    }
}

/// The counts at a moment, for the differences to the next one.
struct Sample {
    let statistics: ShardStatistics
    let residentBytes: UInt64
    /// Of all cores.
    let processorSeconds: Double
    /// On a clock that only goes forwards.
    let milliseconds: UInt64

    /// The values of all series, in their order.
    func values(since before: Sample?) -> [Float] {
        let seconds = before.map { Double(milliseconds - min(milliseconds, $0.milliseconds)) / 1000 } ?? 0
        let second = SampledSecond(now: self, before: before, seconds: seconds)
        return Series.allCases.map { Float($0.value(second) ?? .nan) }
    }

    /// In milliseconds, of what was recorded since; nil for nothing.
    func quantile(_ share: Double, since before: Sample?, _ isMeant: (Latency) -> Bool) -> Double? {
        guard let before else { return nil }
        var counts = [UInt64](repeating: 0, count: Histogram.boundsMicroseconds.count + 1)
        for (latency, histogram) in statistics.latencies.histograms where isMeant(latency) {
            let earlier = before.statistics.latencies.histograms[latency]
            for bucket in counts.indices {
                let (now, then) = (histogram.count(inBucket: bucket), earlier?.count(inBucket: bucket) ?? 0)
                counts[bucket] += now - min(now, then)
            }
        }
        return Self.quantile(share, counts)
    }

    /// By straight lines between the bounds, as Prometheus' histogram_quantile has it; what is beyond the last one
    /// counts as that.
    static func quantile(_ share: Double, _ counts: [UInt64]) -> Double? {
        let total = counts.reduce(0, +)
        guard total > 0 else { return nil }
        let rank = share * Double(total)
        var below = 0.0
        for (bucket, count) in counts.enumerated() {
            let upTo = below + Double(count)
            if upTo >= rank, count > 0 {
                guard bucket < Histogram.boundsMicroseconds.count else { break }
                let lower = bucket == 0 ? 0 : Double(Histogram.boundsMicroseconds[bucket - 1])
                let upper = Double(Histogram.boundsMicroseconds[bucket])
                return (lower + (upper - lower) * max(0, rank - below) / Double(count)) / 1000
            }
            below = upTo
        }
        return Double(Histogram.boundsMicroseconds.last ?? 0) / 1000
    }
}

/// All series over 15 minutes by the second and over 24 hours by the minute, in memory that is given once: less than
/// 0.4 MB.
struct History {
    private var seconds = SampleRing(capacity: Limits.historySeconds, step: 1)
    private var minutes = SampleRing(capacity: Limits.historyMinutes, step: 60)
    /// The values of this minute so far.
    private var minute: [[Float]] = []

    /// Adds a second.
    ///
    /// - Parameters:
    ///   - values: one for each series.
    ///   - second: since 1970.
    mutating func add(_ values: [Float], second: UInt64) {
        guard second > seconds.lastSecond else { return }
        if !minute.isEmpty, second / 60 != seconds.lastSecond / 60 {
            minutes.add(Self.summed(minute), second: seconds.lastSecond / 60 * 60)
            minute = []
        }
        seconds.add(values, second: second)
        minute.append(values)
    }

    /// Of a step of 1 or 60 seconds.
    func ring(step: Int) -> SampleRing { step == 60 ? minutes : seconds }

    private static func summed(_ minute: [[Float]]) -> [Float] {
        Series.allCases.enumerated().map { place, series in
            let values = minute.map { $0[place] }.filter { !$0.isNaN }
            guard !values.isEmpty else { return .nan }
            return series.isLongest ? values.max() ?? .nan : values.reduce(0, +) / Float(values.count)
        }
    }
}

/// The last values of all series, one for each step; for a step that nothing is known of, no numbers.
///
/// Invariant: `values.count == capacity * number of series`; `count <= capacity`.
struct SampleRing {
    let capacity: Int
    /// Seconds.
    let step: UInt64
    private var values: [Float]
    /// Where the next values go.
    private var next = 0
    private(set) var count = 0
    /// Of the newest values, since 1970.
    private(set) var lastSecond: UInt64 = 0

    init(capacity: Int, step: UInt64) {
        (self.capacity, self.step) = (capacity, step)
        values = Array(repeating: .nan, count: capacity * Series.allCases.count)
    }

    mutating func add(_ row: [Float], second: UInt64) {
        let missed = count == 0 ? 0 : Int(clamping: (second - lastSecond) / step) - 1
        for _ in 0..<min(max(0, missed), capacity) { append(Array(repeating: .nan, count: row.count)) }
        append(row)
        lastSecond = second
    }

    private mutating func append(_ row: [Float]) {
        values.replaceSubrange(next * row.count..<(next + 1) * row.count, with: row)
        next = (next + 1) % capacity
        count = min(count + 1, capacity)
    }

    /// Of the oldest values, since 1970; nil for none.
    var firstSecond: UInt64? { count == 0 ? nil : lastSecond - min(lastSecond, UInt64(count - 1) * step) }

    /// The values of one series, the oldest first.
    func values(of series: Int) -> [Double?] {
        (0..<count).map { age in
            let value = values[(next + capacity - count + age) % capacity * Series.allCases.count + series]
            return value.isNaN ? nil : (Double(value) * 1000).rounded() / 1000
        }
    }

    /// The newest value of one series.
    func newest(of series: Int) -> Double? { count == 0 ? nil : values(of: series).last ?? nil }
}

/// What was counted, now and over time.
extension Administration {
    /// To be called once a second: remembers what was counted, ends what is over, and keeps streams alive.
    public func tick(_ clock: @escaping () -> Moment) {
        let now = clock()
        endUnentitledStreams(now)
        sessions.end(idleAt: now)
        auditSums(now: now.milliseconds)
        events.tick(now)
        traces.tick(now)
        broker.statistics { [self] shards in
            guard !shards.isEmpty else { return }
            let now = clock()
            remember(ShardStatistics.sum(of: shards), now)
        }
    }

    private func remember(_ statistics: ShardStatistics, _ now: Moment) {
        let condition = broker.condition
        let sample = Sample(
            statistics: statistics, residentBytes: condition.residentBytes, processorSeconds: condition.processorSeconds,
            milliseconds: now.milliseconds)
        history.add(sample.values(since: lastSample), second: now.wallMilliseconds / 1000)
        watchAlarms(statistics, since: lastSample?.statistics, now)
        lastSample = sample
        systemMaxima.record(statistics)
        sendStatistics(now)
    }

    /// The newest value of each series, for `stats` events.
    private func sendStatistics(_ now: Moment) {
        guard events.hasReaders(of: .stats) else { return }
        events.report(.stats, newestValues(), now)
    }

    private func newestValues() -> JSONObject {
        let ring = history.ring(step: 1)
        var object = JSONObject()
        for (place, series) in Series.allCases.enumerated() { object.set(series.name, orNull: ring.newest(of: place)) }
        return object
    }

    func getStatistics(_ call: Call) throws(APIError) {
        withStatistics(call) { [self] shards in
            let sum = ShardStatistics.sum(of: shards)
            var object = JSONObject()
            object.set("at", Timestamp.text(call.startedAt.wallMilliseconds))
            object.set("totals", Self.totalsResource.json(sum))
            object.set("dropped", ClientAnswers.dropped(sum.drops))
            object.set("now", newestValues())
            call.answer(object)
        }
    }

    /// Counters since the start.
    static let totalsResource = Resource<ShardStatistics>(
        nil,
        [
            .figure("received_messages", .publishReceived), .figure("sent_messages", .publishSent),
            .figure("received_bytes", as: .bytes, .bytesReceived).counter("martlet_bytes_received_total", "Bytes from clients."),
            .figure("sent_bytes", as: .bytes, .bytesSent).counter("martlet_bytes_sent_total", "Bytes to clients."),
            .figure("received_packets", .packetsReceived), .figure("sent_packets", .packetsSent),
            .integer("accepted", \.connectionsAccepted), .figure("refused", .connectionsRefused),
            .figure("expired_sessions", .clientsExpired)
                .counter("martlet_sessions_expired_total", "Sessions that expired."),
            .figure("dropped", .publishDropped),
        ])

    func getHistory(_ call: Call) throws(APIError) {
        let step = call.integer("step") ?? 1
        let wanted = call.list("series").map { Set($0) }
        let ring = history.ring(step: step)
        var series = JSONObject()
        for (place, one) in Series.allCases.enumerated() where wanted?.contains(one.name) ?? true {
            series.set(one.name, orNulls: ring.values(of: place))
        }
        var object = JSONObject()
        object.set("step", step)
        object.set("from", orNull: ring.firstSecond.map { Timestamp.text($0 * 1000) })
        object.set("series", series)
        call.answer(object)
    }
}

/// A topic filter whose messages are counted, and how fast they come.
struct TopicMetric {
    /// Since when, in milliseconds since 1970.
    let since: UInt64
    /// Where the counts stood when somebody asked for the rates, and when that was, in milliseconds.
    private var previous: TopicMeterRow
    private var previousAt: UInt64
    private var rates = (received: 0.0, sent: 0.0, dropped: 0.0)

    init(_ row: TopicMeterRow, since now: Moment) {
        (since, previous, previousAt) = (now.wallMilliseconds, row, now.milliseconds)
    }

    /// The rates are those since somebody asked last, at least a second ago: so little says nothing of a rate.
    mutating func measured(_ row: TopicMeterRow, at now: Moment) -> MeasuredTopic {
        let elapsed = now.milliseconds - min(now.milliseconds, previousAt)
        if elapsed >= 1000 {
            func rate(_ count: KeyPath<TopicMeterRow, UInt64>) -> Double {
                (Double(row[keyPath: count] - min(row[keyPath: count], previous[keyPath: count])) * 10_000 / Double(elapsed))
                    .rounded()
                    / 10
            }
            rates = (rate(\.received), rate(\.sent), rate(\.dropped))
            (previous, previousAt) = (row, now.milliseconds)
        }
        return MeasuredTopic(row: row, since: since, rates: rates)
    }
}

/// What was counted of a topic filter, and how fast it comes.
struct MeasuredTopic {
    let row: TopicMeterRow
    /// Milliseconds since 1970.
    let since: UInt64
    /// Messages a second.
    let rates: (received: Double, sent: Double, dropped: Double)
}

extension Administration {
    static let topicMetricResource = Resource<MeasuredTopic>("TopicMetric", topicMetricCounts + topicMetricRates)

    private static let topicMetricCounts: [Field<MeasuredTopic>] = [
        .text("filter", help: "As topics are called inside the broker.") { "\($0.row.filter)" },
        .time("since", column: "SINCE (UTC)", \.since),
        .integer("in_messages", column: "IN", \.row.received)
            .counter("martlet_topic_messages_received_total", "Messages published to a counted filter."),
        .integer("in_bytes", as: .bytes, column: "IN SIZE", help: "Of payloads.", \.row.receivedBytes)
            .counter("martlet_topic_bytes_received_total", "Bytes of their payloads."),
        .integer("out_messages", column: "OUT", help: "Each receiver counts.", \.row.sent)
            .counter("martlet_topic_messages_sent_total", "Messages of it that were sent to subscribers."),
        .integer("out_bytes", as: .bytes, column: "OUT SIZE", \.row.sentBytes)
            .counter("martlet_topic_bytes_sent_total", "Bytes of their payloads."),
        .integer("dropped", \.row.dropped).counter("martlet_topic_messages_dropped_total", "Messages of it that were dropped."),
    ]

    private static let topicMetricRates: [Field<MeasuredTopic>] = [
        .decimal("in_rate", column: "IN/s", help: "Messages a second, since the last request.", \.rates.received),
        .decimal("out_rate", column: "OUT/s", \.rates.sent),
        .decimal("dropped_rate", \.rates.dropped),
    ]
}

extension Limits {
    /// Values of each series by the second.
    static let historySeconds = 900

    /// Values of each series by the minute.
    static let historyMinutes = 1440
}
