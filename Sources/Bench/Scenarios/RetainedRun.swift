import MQTTCodec
import Platform

/// Retained messages on distinct topics, then one subscriber to all of them; at last the messages are taken back.
struct RetainedRun {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    func run() throws(BenchError) -> BenchResult {
        let count = workload.subscriberCount
        let before = workload.options.process.flatMap { ProcessUsage.read(process: $0) }
        let published = try publish(size: workload.options.size)
        let between = workload.options.process.flatMap { ProcessUsage.read(process: $0) }
        let drained = try drain()
        let after = workload.options.process.flatMap { ProcessUsage.read(process: $0) }
        _ = try publish(size: 0)
        monitor.clear()

        var result = BenchResult(heading: workload)
        result.add("retained", "retained messages", count)
        result.add("publish_per_s", "published", Int(Double(count) / published), unit: "messages/s")
        result.add("drain_ms", "drained to one subscriber", drained.seconds * 1000, digits: 2, unit: .milliseconds())
        result.add("received", "received", drained.received)
        if let before, let between, let after {
            result.add(
                "broker_cpu_us_per_out", "broker CPU", (after.cpuSeconds - between.cpuSeconds) * 1e6 / Double(max(1, count)),
                digits: 3, unit: .microseconds("for each message"))
            result.add(
                "bytes_per_retained", "broker memory", Double(between.residentBytes - before.residentBytes) / Double(max(1, count)),
                digits: 0, unit: .bytes("for each message"))
        }
        return result
    }

    /// Publishes a retained message to every topic; one without payload takes the topic's message back. Returns the seconds it took.
    private func publish(size: Int) throws(BenchError) -> Double {
        let filler = PayloadFiller(count: size)
        let crew = try WorkerCrew(count: 1) { _, control in
            RetainDriver(workload, maker: maker, control: control, filler: filler)
        }
        try crew.start()
        try crew.awaitReady(1, monitor: monitor)
        let start = MonotonicClock.nanoseconds()
        crew.enter(.measuring)
        awaitCount(crew, UInt64(workload.subscriberCount)) { $0.acknowledged }
        let end = MonotonicClock.nanoseconds()
        crew.finish()
        return MonotonicClock.seconds(from: start, to: end)
    }

    /// Subscribes and takes all, from the connection's beginning to the last message.
    private func drain() throws(BenchError) -> (seconds: Double, received: UInt64) {
        let crew = try WorkerCrew(count: 1) { _, control in
            DrainDriver(workload, maker: maker, control: control, count: UInt64(workload.subscriberCount))
        }
        try crew.start()
        awaitCount(crew, UInt64(workload.subscriberCount)) { $0.delivered }
        let received = crew.control.total.delivered
        let nanoseconds = crew.control.total.rounds
        crew.finish()
        return (Double(nanoseconds) / 1e9, received)
    }

    /// Waits until it is reached, or nothing has come for five seconds.
    private func awaitCount(_ crew: WorkerCrew, _ wanted: UInt64, _ count: (LoadCounts) -> UInt64) {
        var last: UInt64 = 0
        var lastChange = MonotonicClock.nanoseconds()
        while true {
            let reached = count(crew.control.total)
            let now = MonotonicClock.nanoseconds()
            if reached != last { (last, lastChange) = (reached, now) }
            if reached >= wanted || now - lastChange > 5_000_000_000 { return }
            monitor.tell("\(reached) of \(wanted) retained messages")
            MonotonicClock.sleep(milliseconds: 1)
        }
    }
}
