import MQTTCodec
import Platform

/// Messages that flow for a time: every scenario but `conns`, `retained` and `churn`.
struct StreamRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult { try measure().result }

    /// Connects, lets messages flow, measures, and waits for what is on its way. No session is left afterwards, or the
    /// result says so.
    func measure() throws(BenchError) -> StreamResult {
        let sessions = KeptSessions(workload: workload, maker: maker, monitor: monitor)
        var (result, left) = try sessions.around(stream)
        result.sessionsLeft = left
        return result
    }

    private func stream() throws(BenchError) -> StreamResult {
        let filler = PayloadFiller(count: workload.options.size)
        let threads = workload.options.threads
        let crew = try WorkerCrew(count: threads) { index, control in
            StreamDriver(
                workload, share: WorkerShare(workload, worker: index, of: threads), maker: maker, control: control, filler: filler)
        }
        try crew.start()
        try crew.awaitReady(workload.publisherCount + workload.subscriberCount, monitor: monitor)
        crew.enter(.warming)
        flow(crew, .warming, seconds: workload.options.warmupSeconds)
        let before = Moment(crew, process: workload.options.process)
        crew.enter(.measuring)
        flow(crew, .measuring, seconds: workload.options.seconds)
        let after = Moment(crew, process: workload.options.process)
        crew.enter(.draining)
        drain(crew)
        let end = crew.control.total
        crew.finish()
        monitor.clear()
        return StreamResult(workload: workload, before: before, after: after, end: end, latencies: monitor.latencies(crew))
    }

    /// Lets time pass; when nothing has come for a second, what is on its way counts as lost, so that the loop goes on.
    private func flow(_ crew: WorkerCrew, _ stage: RunMonitor.Stage, seconds: Double) {
        monitor.begin(stage, crew, seconds: seconds)
        let start = MonotonicClock.nanoseconds()
        let end = start &+ UInt64(seconds * 1e9)
        var last = crew.control.total
        var lastChange = start
        while true {
            let now = MonotonicClock.nanoseconds()
            guard now < end else { return monitor.end(crew) }
            MonotonicClock.sleep(milliseconds: max(1, min(10, Int((end - now) / 1_000_000))))
            let counts = crew.control.total
            if counts.delivered != last.delivered || counts.acknowledged != last.acknowledged || counts.published != last.published
            {
                (last, lastChange) = (counts, now)
            } else if now - lastChange > 1_000_000_000 {
                forgive(crew, counts)
                lastChange = now
            }
            monitor.look(crew)
        }
    }

    private func forgive(_ crew: WorkerCrew, _ counts: LoadCounts) {
        let fan = UInt64(workload.deliveriesPerPublish)
        guard fan > 0, workload.rate == nil else { return }
        let returned = counts.delivered / fan + crew.control.forgiven
        if counts.published > returned { crew.control.forgive(counts.published - returned) }
        crew.wake()
    }

    /// Waits for what is on its way, until nothing has come for two seconds.
    private func drain(_ crew: WorkerCrew) {
        let fan = UInt64(workload.deliveriesPerPublish)
        var last = crew.control.total
        var lastChange = MonotonicClock.nanoseconds()
        while true {
            MonotonicClock.sleep(milliseconds: 2)
            let counts = crew.control.total
            let now = MonotonicClock.nanoseconds()
            if counts.published == last.published, now - lastChange > 20_000_000,
                fan == 0 || counts.delivered - counts.duplicates >= counts.published * fan
            {
                return
            }
            if counts.delivered != last.delivered || counts.published != last.published { (last, lastChange) = (counts, now) }
            if now - lastChange > 2_000_000_000 { return }
        }
    }
}

/// The counts of a run at one moment.
struct Moment {
    let time: UInt64
    let counts: LoadCounts
    let own: ProcessUsage
    /// The broker's; nil when its process is not known.
    let broker: ProcessUsage?

    init(_ crew: WorkerCrew, process: Int32?) {
        time = MonotonicClock.nanoseconds()
        counts = crew.control.total
        own = ProcessUsage.own()
        broker = process.flatMap { ProcessUsage.read(process: $0) }
    }
}

/// Connections that subscribe and then are idle: how fast they come, and what each costs.
struct ConnectionRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult {
        let sessions = KeptSessions(workload: workload, maker: maker, monitor: monitor)
        var (result, left) = try sessions.around(measure)
        result.addSessionsLeft(left)
        return result
    }

    private func measure() throws(BenchError) -> BenchResult {
        let threads = workload.options.threads
        let filler = PayloadFiller(count: 0)
        let crew = try WorkerCrew(count: threads) { index, control in
            StreamDriver(
                workload, share: WorkerShare(workload, worker: index, of: threads), maker: maker, control: control, filler: filler)
        }
        let before = Moment(crew, process: workload.options.process)
        try crew.start()
        monitor.begin(.connecting, crew, seconds: 0)
        try crew.awaitReady(workload.subscriberCount, monitor: monitor, isWatched: true)
        let ready = Moment(crew, process: workload.options.process)
        monitor.end(crew)
        MonotonicClock.sleep(milliseconds: Self.settleMilliseconds)
        let settled = Moment(crew, process: workload.options.process)
        crew.finish()
        monitor.clear()
        return result(before, ready, settled)
    }

    private func result(_ before: Moment, _ ready: Moment, _ settled: Moment) -> BenchResult {
        let count = Double(workload.subscriberCount)
        let seconds = MonotonicClock.seconds(from: before.time, to: ready.time)
        var result = BenchResult(heading: workload)
        result.add("connections_per_s", "connections", Int(count / seconds), unit: "/s")
        if let then = before.broker, let now = settled.broker {
            result.add(
                "broker_cpu_us_per_connection", "broker CPU", (now.cpuSeconds - then.cpuSeconds) * 1e6 / count, digits: 1,
                unit: .microseconds("for each"))
            result.add(
                "bytes_per_connection", "broker memory", Double(now.residentBytes - then.residentBytes) / count, digits: 0,
                unit: .bytes("for each"))
            result.addMemory(now)
        }
        let own = settled.own.cpuSeconds - before.own.cpuSeconds
        result.add(
            "load_cpu_us_per_connection", "load generator's CPU", own * 1e6 / count, digits: 1, unit: .microseconds("for each"))
        return result
    }

    /// How long the broker may take to come to rest before its memory is looked at.
    private static let settleMilliseconds = 500
}

/// Pairs at a fixed rate, first alone and then beside clients that flood the broker: what one client's flood costs the
/// others.
///
/// The pairs' threads go first where that is granted, and the flood's last: on a machine where load and broker share
/// the cores, a p99 would else tell how long the scheduler lets a thread wait that has just become ready.
struct FloodRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult {
        monitor.part = "alone"
        let (quiet, isFirst) = try measurePairs()
        monitor.part = "beside the flood"
        let crew = try startFlood()
        let before = Moment(crew, process: nil)
        let flooded: StreamResult
        do throws(BenchError) {
            flooded = try measurePairs().result
        } catch {
            crew.finish()
            throw error
        }
        let after = Moment(crew, process: nil)
        crew.finish()
        return result(quiet, flooded, before, after, isFirst: isFirst)
    }

    private func measurePairs() throws(BenchError) -> (result: StreamResult, isFirst: Bool) {
        let pairs = StreamRun(workload: workload, maker: maker, monitor: monitor)
        return try ThreadPriority.first(threads: workload.options.threads) { isFirst throws(BenchError) in
            (try pairs.measure(), isFirst)
        }
    }

    private func startFlood() throws(BenchError) -> WorkerCrew {
        let filler = PayloadFiller(count: workload.options.size)
        let crew = try WorkerCrew(count: 1) { _, control in
            FloodDriver(workload, maker: maker, control: control, filler: filler)
        }
        try crew.start()
        try crew.awaitReady(workload.floodCount * 2, monitor: monitor)
        crew.enter(.warming)
        return crew
    }

    private func result(
        _ quiet: StreamResult, _ flooded: StreamResult, _ before: Moment, _ after: Moment, isFirst: Bool
    ) -> BenchResult {
        let seconds = MonotonicClock.seconds(from: before.time, to: after.time)
        var result = flooded.result
        result.add(
            "quiet_latency_us", "latency without the flood", .group(StreamResult.percentiles(quiet.latencies)))
        result.add("p99_ratio", "p99 with the flood", Self.tail(flooded) / max(1, Self.tail(quiet)), digits: 2, unit: "times that")
        result.add("timed_first", "threads that time go before others", .text(isFirst ? "yes" : "no"))
        result.add("flooders", "clients that flood", workload.floodCount)
        result.add(
            "flood_in_per_s", "  published", Int(Double(after.counts.published - before.counts.published) / seconds),
            unit: "messages/s")
        result.add(
            "flood_out_per_s", "  delivered", Int(Double(after.counts.delivered - before.counts.delivered) / seconds),
            unit: "messages/s")
        result.add("flooders_lost", "  connections lost", after.counts.ended)
        return result
    }

    private static func tail(_ result: StreamResult) -> Double { Double(result.latencies.valueAtPercentile(99)) }
}

/// The figures of messages that flowed.
struct StreamResult {
    let workload: Workload
    let before: Moment
    let after: Moment
    let end: LoadCounts
    let latencies: LatencyHistogram
    /// Why sessions of the load may still be there; nil if none are.
    var sessionsLeft: String?

    var result: BenchResult {
        let seconds = MonotonicClock.seconds(from: before.time, to: after.time)
        let published = after.counts.published - before.counts.published
        var result = BenchResult(heading: workload)
        result.add("in_per_s", "published", Int(Double(published) / seconds), unit: "messages/s")
        result.add("out_per_s", outLabel, Int(Double(outCount) / seconds), unit: "messages/s")
        result.add(
            "out_megabytes_per_s", "payload out", Double(outCount * size) / seconds / 1e6, digits: 1, unit: .megabytesPerSecond)
        addUsage(&result, seconds)
        if latencies.totalCount > 0 { result.add("latency_us", "latency", .group(Self.percentiles(latencies))) }
        addLosses(&result)
        return result
    }

    private var size: UInt64 { UInt64(workload.options.size) }

    /// Deliveries, or where nobody subscribes acknowledgements.
    private var outCount: UInt64 {
        workload.deliveriesPerPublish > 0
            ? after.counts.delivered - before.counts.delivered : after.counts.acknowledged - before.counts.acknowledged
    }

    private var outLabel: String { workload.deliveriesPerPublish > 0 ? "delivered" : "acknowledged" }

    /// What one of those is whose CPU time is told.
    private var each: String { "for each message \(outLabel)" }

    private func addUsage(_ result: inout BenchResult, _ seconds: Double) {
        let out = max(1, Double(outCount))
        if let then = before.broker, let now = after.broker {
            result.add(
                "broker_cpu_us_per_out", "broker CPU", (now.cpuSeconds - then.cpuSeconds) * 1e6 / out, digits: 4,
                unit: .microseconds(each))
            result.add(
                "broker_user_us_per_out", "  in user mode", (now.userSeconds - then.userSeconds) * 1e6 / out, digits: 4,
                unit: .microseconds(each))
            result.add(
                "broker_cpu_percent", "broker load", (now.cpuSeconds - then.cpuSeconds) / seconds * 100, digits: 0,
                unit: "% of a processor")
            result.addMemory(now)
        }
        let own = after.own.cpuSeconds - before.own.cpuSeconds
        result.add("load_cpu_us_per_out", "load generator's CPU", own * 1e6 / out, digits: 4, unit: .microseconds(each))
        result.add("load_cpu_percent", "load generator's load", own / seconds * 100, digits: 0, unit: "% of a processor")
    }

    /// Over the whole run, from the first message to the last that came.
    private func addLosses(_ result: inout BenchResult) {
        let expected = end.published * UInt64(workload.deliveriesPerPublish)
        let unique = end.delivered - end.duplicates
        if workload.deliveriesPerPublish > 0 {
            result.add("lost", "lost", expected > unique ? expected - unique : 0)
            result.add("duplicates", "duplicates", end.duplicates)
        }
        if workload.qos > .atMostOnce { result.add("rejected", "rejected by the broker", end.rejected) }
        result.add("connections_lost", "connections lost", end.ended)
        result.addSessionsLeft(sessionsLeft)
    }

    static func percentiles(_ latencies: LatencyHistogram) -> [BenchResult.Entry] {
        var group = BenchResult()
        for (name, percentile) in [("p50", 50.0), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("max", 100)] {
            group.add(name, name, Double(latencies.valueAtPercentile(percentile)) / 1000, digits: 1, unit: .microseconds())
        }
        return group.entries
    }
}

extension BenchResult {
    /// What was asked for.
    init(heading workload: Workload) {
        let options = workload.options
        self.init()
        add("scenario", "scenario", .text(options.scenario.rawValue))
        add("transport", "transport", .text(options.transport.name))
        add("mqtt_version", "MQTT", .text(options.version == .v5 ? "5.0" : options.version == .v31 ? "3.1" : "3.1.1"))
        add("publishers", "publishers", workload.publisherCount)
        add("subscribers", "subscribers", workload.subscriberCount)
        if workload.awayCount > 0 { add("sessions_away", "sessions away", workload.awayCount) }
        if options.keepsSessions { add("sessions_kept", "sessions", .text("outlive their connections")) }
        if workload.topicsPerPublisher > 1 { add("topics", "topics", workload.topicsPerPublisher) }
        add("qos", "QoS", Int(workload.qos.rawValue))
        if workload.subscriberQoS != workload.qos, workload.subscriberCount + workload.awayCount > 0 {
            add("subscriber_qos", "subscribers' QoS", Int(workload.subscriberQoS.rawValue))
        }
        add("size", "payload", options.size, unit: .bytes())
        if let rate = workload.rate { add("rate", "rate", rate, digits: 0, unit: "messages/s") }
    }

    /// Tells why sessions of the load may still be there, if they may.
    mutating func addSessionsLeft(_ reason: String?) {
        if let reason { add("sessions_left", "sessions not removed", .text(reason)) }
    }

    mutating func addMemory(_ usage: ProcessUsage) {
        add("broker_rss_kib", "broker memory", usage.residentBytes / 1024, unit: .kibibytes)
        add("broker_rss_max_kib", "  at most", usage.residentBytesMax / 1024, unit: .kibibytes)
        add("broker_threads", "broker threads", usage.threadCount)
    }
}
