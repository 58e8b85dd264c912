internal import Histogram
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
    private var pointLatencies = LatencyRecorder.emptyHistogram()
    private var stageLatencies = LatencyRecorder.emptyHistogram()
    /// Rates since the stage began, for the view.
    private var rates: [Double] = []

    init(_ workload: Workload, view: LiveView) {
        self.workload = workload
        self.view = view
        flow = Flow(workload)
    }

    /// Who is measured: host and port.
    var broker: String { workload.options.brokerAddress }

    /// Who is measured, as the view's first line says it.
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
    func latencies(_ crew: WorkerCrew) -> Histogram<UInt64> {
        stageLatencies.add(crew.remainingLatencies())
        if let distribution = LatencyDistribution(stageLatencies, part: part) { distributions.append(distribution) }
        return stageLatencies
    }

    /// Shows words in place of figures.
    func tell(_ text: @autoclosure () -> String) { view.tell(text()) }

    func clear() { view.clear() }

    // MARK: -

    private func take(_ crew: WorkerCrew) -> (Moment, Histogram<UInt64>) {
        // Connecting is timed as a whole, and nothing is to delay it.
        let latencies = stage == .connecting ? LatencyRecorder.emptyHistogram() : crew.takeLatencies()
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

    private func show(_ moment: Moment, _ latencies: Histogram<UInt64>) {
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
