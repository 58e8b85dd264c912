import Platform

/// Messages that flow for a time: every scenario but `conns`, `retained` and `churn`.
struct StreamRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult { try measure().result }

    /// Connects, lets messages flow, measures, and waits for what is on its way. No session is left afterwards, or the result says so.
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

/// What is known at one moment of a run.
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
