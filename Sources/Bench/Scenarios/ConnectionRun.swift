import Platform

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
