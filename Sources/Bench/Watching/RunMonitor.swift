internal import Platform

/// Watches a run: gathers its series once an interval and shows how it goes. Belongs to the coordinator's thread.
///
///     begin ─► look, again and again ─► end
///
/// What it does costs the load nothing for a message: workers tell counts once a turn, and latencies once an interval.
final class RunMonitor {
    /// What a run is at.
    enum Stage: String {
        case connecting
        case warming = "warming up"
        case measuring
    }

    /// Of all measured parts, in order.
    private(set) var points: [SeriesPoint] = []
    private(set) var distributions: [LatencyDistribution] = []
    /// Which part of the run is measured now; empty where it has one.
    var part = ""

    private let workload: Workload
    private let view: LiveView
    private let flow: Flow
    private var stage = Stage.connecting
    private var stageSeconds = 0.0
    private var start: UInt64 = 0
    /// When it looked last, and what was there.
    private var last: Moment?
    private var due: UInt64 = 0
    /// The beginning of the point that is being gathered.
    private var pointStart: Moment?
    private var pointLatencies = LatencyHistogram()
    private var stageLatencies = LatencyHistogram()
    /// Rates since the stage began, for the view.
    private var rates: [Double] = []

    init(_ workload: Workload, view: LiveView) {
        self.workload = workload
        self.view = view
        flow = Flow(workload)
    }

    /// The broker that is measured: host and port.
    var broker: String { workload.options.brokerAddress }

    /// The broker that is measured, as the view's first line says it.
    var title: String {
        get { view.title }
        set { view.title = newValue }
    }

    /// A stage begins, which is to take so long; 0 if nobody knows.
    func begin(_ stage: Stage, _ crew: WorkerCrew, seconds: Double) {
        (self.stage, stageSeconds) = (stage, seconds)
        let moment = Moment(crew, process: workload.options.process)
        start = moment.time
        due = start &+ stepNanoseconds
        (last, pointStart) = (moment, moment)
        pointLatencies.reset()
        stageLatencies.reset()
        rates = []
    }

    /// Looks, if it is time to.
    func look(_ crew: WorkerCrew) {
        let now = MonotonicClock.nanoseconds()
        guard now >= due else { return }
        due = max(due &+ stepNanoseconds, now)
        let (moment, latencies) = take(crew)
        show(moment, latencies)
        last = moment
        if let pointStart, MonotonicClock.seconds(from: pointStart.time, to: moment.time) >= interval * 0.9 { addPoint(moment) }
    }

    /// The stage is over; what it had since the last point becomes one, if it is not too short to say anything.
    func end(_ crew: WorkerCrew) {
        let (moment, _) = take(crew)
        guard let pointStart else { return }
        let length = MonotonicClock.seconds(from: pointStart.time, to: moment.time)
        if length >= interval / 2 || !points.contains(where: { $0.part == part }) && length > 0 { addPoint(moment) }
    }

    /// All latencies of the stage, when its crew has finished.
    func latencies(_ crew: WorkerCrew) -> LatencyHistogram {
        stageLatencies.add(crew.remainingLatencies())
        if let distribution = LatencyDistribution(stageLatencies, part: part) { distributions.append(distribution) }
        return stageLatencies
    }

    /// Shows words in place of figures.
    func show(_ text: @autoclosure () -> String) { view.show(text()) }

    func clear() { view.clear() }

    // MARK: -

    private func take(_ crew: WorkerCrew) -> (Moment, LatencyHistogram) {
        // Connecting is timed as a whole, and nothing is to delay it.
        let latencies = stage == .connecting ? LatencyHistogram() : crew.takeLatencies()
        if latencies.totalCount > 0 {
            pointLatencies.add(latencies)
            stageLatencies.add(latencies)
        }
        return (Moment(crew, process: workload.options.process), latencies)
    }

    private func addPoint(_ moment: Moment) {
        defer {
            pointStart = moment
            pointLatencies.reset()
        }
        guard let pointStart, stage != .warming else { return }
        let length = MonotonicClock.seconds(from: pointStart.time, to: moment.time)
        func rate(_ count: (LoadCounts) -> UInt64) -> Double {
            Double(count(moment.counts)) - Double(count(pointStart.counts))
        }
        var point = SeriesPoint(
            part: part, seconds: MonotonicClock.seconds(from: start, to: moment.time), interval: length,
            outPerSecond: max(0, rate(flow.count)) / length,
            loadPercent: (moment.own.cpuSeconds - pointStart.own.cpuSeconds) / length * 100, connectionsLost: moment.counts.ended)
        if flow.isOfMessages { point.inPerSecond = rate(\.published) / length }
        point.latency = LatencyPercentiles(pointLatencies)
        if let then = pointStart.broker, let now = moment.broker {
            point.brokerLoadPercent = (now.cpuSeconds - then.cpuSeconds) / length * 100
            point.brokerResidentBytes = now.residentBytes
        }
        points.append(point)
    }

    private func show(_ moment: Moment, _ latencies: LatencyHistogram) {
        guard let last, view.isShown else { return }
        let length = max(1e-9, MonotonicClock.seconds(from: last.time, to: moment.time))
        let rate = max(0, Double(flow.count(moment.counts)) - Double(flow.count(last.counts))) / length
        rates.append(rate)
        var frame = LiveFrame(title: view.title, stage: stage.rawValue)
        let passed = MonotonicClock.seconds(from: start, to: moment.time)
        if flow == .connections {
            frame.fraction = Double(moment.counts.ready) / Double(max(1, workload.subscriberCount))
            frame.extent = "\(moment.counts.ready.groupedText) of \(workload.subscriberCount.groupedText)"
        } else if stageSeconds > 0 {
            frame.fraction = passed / stageSeconds
            frame.extent = "\(min(passed, stageSeconds).decimalText(digits: 1)) of \(stageSeconds.shortText) s"
        }
        frame.figures.append((flow.label, "\(Scaled.count(rate))/s"))
        if flow.isOfMessages {
            let published = Double(moment.counts.published &- last.counts.published) / length
            frame.figures.append(("published", "\(Scaled.count(published))/s"))
        }
        if let latency = LatencyPercentiles(latencies) {
            frame.figures.append(("latency", "p50 \(Scaled.time(latency.p50))   p99 \(Scaled.time(latency.p99))"))
        } else if stage == .measuring, LatencyPercentiles(stageLatencies) != nil {
            frame.figures.append(("latency", "nothing arrived"))
        }
        frame.rates = rates.suffix(Self.ratesShownMax).map { $0 }
        if moment.counts.ended > 0 { frame.alarm = "\(moment.counts.ended.groupedText) connections lost" }
        view.show(frame)
    }

    /// The length of a point: short runs have at least a few, long ones not too many for a page.
    private var interval: Double { Self.interval(seconds: stageSeconds) }

    static func interval(seconds: Double) -> Double {
        max(seconds <= 15 ? 0.25 : 1, seconds / Double(pointsMax))
    }

    /// How often the view is to change, too.
    private var stepNanoseconds: UInt64 { UInt64(min(1, interval) * 1e9) }

    private static let pointsMax = 600
    private static let ratesShownMax = 60
}

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
    init?(_ histogram: LatencyHistogram) {
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
    init?(_ histogram: LatencyHistogram, part: String) {
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

    /// The title of the latencies: what is timed.
    var latencyTitle: String {
        self == .rounds ? "From connect to the last packet" : "Latency, from publisher to subscriber"
    }
}
