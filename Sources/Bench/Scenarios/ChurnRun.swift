import Histogram
import Platform

/// Clients that come and go: connect, subscribe, publish to themselves, receive it, disconnect, again and again.
struct ChurnRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult {
        let threads = workload.options.threads
        let filler = PayloadFiller(count: workload.options.size)
        let crew = try WorkerCrew(count: threads) { index, control in
            ChurnDriver(
                workload, places: WorkerShare(workload, worker: index, of: threads).publishers, maker: maker, control: control,
                filler: filler)
        }
        try crew.start()
        crew.enter(.warming)
        wait(crew, .warming, seconds: workload.options.warmupSeconds)
        let before = Moment(crew, process: workload.options.process)
        crew.enter(.measuring)
        wait(crew, .measuring, seconds: workload.options.seconds)
        let after = Moment(crew, process: workload.options.process)
        crew.finish()
        monitor.clear()
        return result(before, after, crew)
    }

    private func wait(_ crew: WorkerCrew, _ stage: RunMonitor.Stage, seconds: Double) {
        monitor.begin(stage, crew, seconds: seconds)
        let end = MonotonicClock.nanoseconds() &+ UInt64(seconds * 1e9)
        while MonotonicClock.nanoseconds() < end {
            MonotonicClock.sleep(milliseconds: 10)
            monitor.look(crew)
        }
        monitor.end(crew)
    }

    private func result(_ before: Moment, _ after: Moment, _ crew: WorkerCrew) -> BenchResult {
        let seconds = MonotonicClock.seconds(from: before.time, to: after.time)
        let rounds = after.counts.rounds - before.counts.rounds
        var result = BenchResult(heading: workload)
        result.add("rounds_per_s", "connections that came and went", Int(Double(rounds) / seconds), unit: "/s")
        if let then = before.broker, let now = after.broker {
            result.add(
                "broker_cpu_us_per_round", "broker CPU",
                (now.cpuSeconds - then.cpuSeconds) * 1e6 / Double(max(1, rounds)), digits: 1, unit: .microseconds("for each"))
            result.addMemory(now)
        }
        let latencies = monitor.latencies(crew)
        if latencies.totalCount > 0 {
            result.add("latency_us", "from connect to the last packet", .group(StreamResult.percentiles(latencies)))
        }
        result.add("failed", "rounds that failed", after.counts.ended)
        if let reason = crew.firstFailure { result.add("failure", "  the first because", .text(reason)) }
        return result
    }
}
