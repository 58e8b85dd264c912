internal import Histogram

/// What flowed in one interval of a run.
struct SeriesPoint: Sendable, Equatable {
    /// Which part of the run it belongs to; empty where a run has one part.
    var part = ""
    /// When the interval ended, since its part of the run began.
    var seconds: Double
    /// How long it was, in seconds.
    var interval: Double
    /// Messages published per second; nil where nothing is published.
    var inPerSecond: Double?
    /// What the run's `Flow` counts, per second.
    var outPerSecond: Double
    /// nil when nothing was timed.
    var latency: LatencyPercentiles?
    /// Of one processor; nil when the broker's process is not known.
    var brokerLoadPercent: Double?
    var brokerResidentBytes: Int?
    /// Of one processor.
    var loadPercent: Double
    /// Since the run began.
    var connectionsLost: Int
}

/// How long messages took, in nanoseconds.
struct LatencyPercentiles: Sendable, Equatable {
    var p50: Double
    var p90: Double
    var p99: Double
    var p999: Double
    var max: Double

    init(p50: Double, p90: Double, p99: Double, p999: Double, max: Double) {
        (self.p50, self.p90, self.p99, self.p999, self.max) = (p50, p90, p99, p999, max)
    }

    /// nil when nothing was recorded.
    init?(_ histogram: Histogram<UInt64>) {
        guard histogram.totalCount > 0 else { return nil }
        func value(_ percentile: Double) -> Double { Double(histogram.valueAtPercentile(percentile)) }
        self.init(p50: value(50), p90: value(90), p99: value(99), p999: value(99.9), max: value(100))
    }
}

/// The latencies of a whole part of a run, by the share of messages that took no longer.
struct LatencyDistribution: Sendable, Equatable {
    /// The part of the run; empty where it has one.
    var part: String
    /// Percentile, and nanoseconds at it, in rising order.
    var points: [(percentile: Double, nanoseconds: Double)]

    /// nil when nothing was recorded. What is beyond the last percentile stands for one message at least.
    init?(_ histogram: Histogram<UInt64>, part: String) {
        guard histogram.totalCount > 0 else { return nil }
        self.part = part
        let share = 100 / Double(histogram.totalCount)
        points = Self.percentiles.filter { $0 == 0 || 100 - $0 >= share }.map {
            ($0, Double(histogram.valueAtPercentile($0)))
        }
    }

    /// Fine at the tail, where the interest is: each nine has ten steps.
    private static let percentiles: [Double] = {
        var percentiles: [Double] = []
        var left = 100.0
        while left > 0.001 {
            for step in 0..<10 { percentiles.append(100 - left * (1 - 0.09 * Double(step))) }
            left /= 10
        }
        return percentiles
    }()

    static func == (left: LatencyDistribution, right: LatencyDistribution) -> Bool {
        left.part == right.part && left.points.elementsEqual(right.points, by: ==)
    }
}

/// What a run counts second by second.
enum Flow: Sendable {
    case delivered
    case acknowledged
    case rounds
    case connections

    init(_ workload: Workload) {
        switch workload.options.scenario {
        case .conns: self = .connections
        case .churn: self = .rounds
        case .retained: self = .acknowledged
        case .fanout, .pair, .fanin, .wild, .topics, .shared, .publish, .away, .latency, .flood:
            self = workload.deliveriesPerPublish > 0 ? .delivered : .acknowledged
        }
    }

    func count(_ counts: LoadCounts) -> UInt64 {
        switch self {
        case .delivered: counts.delivered
        case .acknowledged: counts.acknowledged
        case .rounds: counts.rounds
        case .connections: UInt64(counts.ready)
        }
    }

    /// Whether messages are published for it, one after the other.
    var isOfMessages: Bool { self == .delivered || self == .acknowledged }

    /// What a figure of it is called in JSON.
    var name: String {
        switch self {
        case .delivered, .acknowledged: "out_per_s"
        case .rounds: "rounds_per_s"
        case .connections: "connections_per_s"
        }
    }

    /// What people call it.
    var label: String {
        switch self {
        case .delivered: "delivered"
        case .acknowledged: "acknowledged"
        case .rounds: "came and went"
        case .connections: "connected"
        }
    }

    /// Words for it, as the title of a chart.
    var title: String {
        switch self {
        case .delivered: "Messages delivered per second"
        case .acknowledged: "Messages acknowledged per second"
        case .rounds: "Clients that came and went, per second"
        case .connections: "Connections made per second"
        }
    }

    /// What is timed.
    var latencyTitle: String {
        self == .rounds ? "From connect to the last packet" : "Latency, from publisher to subscriber"
    }
}
