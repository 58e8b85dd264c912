internal import BrokerModel

/// The figures that are remembered over time. Rates are by the second; what is not there is no number.
enum Series: CaseIterable {
    case connections, clientsConnected, sessions, subscriptions, retainedMessages, storedMessages, storedBytes, outputBytes
    case memoryBytes, processor, storeBytes, storeRows
    case receivedMessages, sentMessages, receivedBytes, sentBytes, receivedPackets, sentPackets, accepted, refused, dropped
    case droppedQueueFull, droppedOutputFull, droppedTooLarge, droppedExpired, droppedUnreadable, droppedNotAuthorised
    case droppedPayloadTooLarge, droppedNoRoom, droppedRefused
    case acknowledge50, acknowledge99, delivery99, storeCommit99

    /// As answers call it.
    var name: String {
        switch self {
        case .connections: "connections"
        case .clientsConnected: "clients_connected"
        case .sessions: "sessions"
        case .subscriptions: "subscriptions"
        case .retainedMessages: "retained_messages"
        case .storedMessages: "stored_messages"
        case .storedBytes: "stored_bytes"
        case .outputBytes: "output_bytes"
        case .memoryBytes: "memory_bytes"
        case .processor: "processor_percent"
        case .storeBytes: "store_bytes"
        case .storeRows: "store_rows"
        case .receivedMessages: "received_messages_rate"
        case .sentMessages: "sent_messages_rate"
        case .receivedBytes: "received_bytes_rate"
        case .sentBytes: "sent_bytes_rate"
        case .receivedPackets: "received_packets_rate"
        case .sentPackets: "sent_packets_rate"
        case .accepted: "accepted_rate"
        case .refused: "refused_rate"
        case .dropped: "dropped_rate"
        case .acknowledge50: "acknowledge_p50_ms"
        case .acknowledge99: "acknowledge_p99_ms"
        case .delivery99: "delivery_p99_ms"
        case .storeCommit99: "store_commit_p99_ms"
        default: "dropped_\(dropReason?.label ?? "")_rate"
        }
    }

    /// Of a series of drops for one reason.
    var dropReason: DropReason? {
        switch self {
        case .droppedQueueFull: .queueFull
        case .droppedOutputFull: .outputFull
        case .droppedTooLarge: .tooLargeForClient
        case .droppedExpired: .expired
        case .droppedUnreadable: .unreadable
        case .droppedNotAuthorised: .notAuthorised
        case .droppedPayloadTooLarge: .payloadTooLarge
        case .droppedNoRoom: .noRoom
        case .droppedRefused: .refused
        default: nil
        }
    }

    /// How many values of seconds make one of a minute: of times that some waited, the longest; of all else, the mean.
    var isLongest: Bool {
        switch self {
        case .acknowledge50, .acknowledge99, .delivery99, .storeCommit99: true
        default: false
        }
    }

    static let names = allCases.map(\.name)
}

/// What was counted at a moment, for the differences to the next one.
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
        return Series.allCases.map { Float(value(of: $0, since: before, seconds: seconds) ?? .nan) }
    }

    private func value(of series: Series, since before: Sample?, seconds: Double) -> Double? {
        func rate(_ count: (ShardStatistics) -> UInt64) -> Double? {
            guard let before, seconds > 0 else { return nil }
            return Double(count(statistics) &- min(count(statistics), count(before.statistics))) / seconds
        }
        switch series {
        case .connections: return Double(statistics.connections)
        case .clientsConnected: return Double(statistics.clientsConnected)
        case .sessions: return Double(statistics.clientsTotal)
        case .subscriptions: return Double(statistics.subscriptions + statistics.sharedSubscriptions)
        case .retainedMessages: return Double(statistics.retainedMessages)
        case .storedMessages: return Double(statistics.storedMessages)
        case .storedBytes: return Double(statistics.storedBytes)
        case .outputBytes: return Double(statistics.outputBytes)
        case .memoryBytes: return Double(residentBytes)
        case .processor:
            guard let before, seconds > 0 else { return nil }
            return max(0, processorSeconds - before.processorSeconds) / seconds * 100
        case .storeBytes: return statistics.store.map { Double($0.bytes) }
        case .storeRows: return statistics.store.map { Double($0.rows) }
        case .receivedMessages: return rate(\.publishReceived)
        case .sentMessages: return rate(\.publishSent)
        case .receivedBytes: return rate(\.bytesReceived)
        case .sentBytes: return rate(\.bytesSent)
        case .receivedPackets: return rate(\.messagesReceived)
        case .sentPackets: return rate(\.messagesSent)
        case .accepted: return rate(\.connectionsAccepted)
        case .refused: return rate(\.connectionsRefused)
        case .dropped: return rate(\.drops.total)
        case .acknowledge50: return quantile(0.5, since: before) { if case .acknowledge = $0 { true } else { false } }
        case .acknowledge99: return quantile(0.99, since: before) { if case .acknowledge = $0 { true } else { false } }
        case .delivery99: return quantile(0.99, since: before) { if case .delivery = $0 { true } else { false } }
        case .storeCommit99: return quantile(0.99, since: before) { $0 == .storeCommit }
        default: return series.dropReason.flatMap { reason in rate { $0.drops[reason] } }
        }
    }

    /// In milliseconds, of what was recorded since; nil for nothing.
    private func quantile(_ share: Double, since before: Sample?, _ isMeant: (Latency) -> Bool) -> Double? {
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

    /// By straight lines between the bounds, as Prometheus' histogram_quantile has it; what is beyond the last one counts as that.
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
