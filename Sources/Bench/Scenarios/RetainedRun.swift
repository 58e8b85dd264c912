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

    /// Publishes a retained message to every topic; one without payload takes the topic's message back. Returns the
    /// seconds it took.
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
            monitor.show("\(reached) of \(wanted) retained messages")
            MonotonicClock.sleep(milliseconds: 1)
        }
    }
}

/// One subscriber that takes retained messages; tells as its rounds how many nanoseconds it took from the connection's
/// beginning.
final class DrainDriver: LoadDriver {
    private let control: LoadControl
    private let count: UInt64
    private var opener: ClientOpener
    private var start: UInt64 = 0

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, count: UInt64) {
        self.control = control
        self.count = count
        opener = ClientOpener([.subscriber(0, workload)], maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        if start == 0 { start = MonotonicClock.nanoseconds() }
        if control.phase == .connecting { _ = opener.proceed(worker) }
        if control.phase == .over { opener.clients.first?.end(worker) }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {
        if client.connection.deliveredCount <= count { worker.rounds = worker.recorder.now - start }
    }

    func ended(_ client: LoadClient, _ worker: Worker) { worker.endedCount += 1 }
}

/// One publisher that sets the retained message of topic after topic.
final class RetainDriver: LoadDriver {
    private let workload: Workload
    private let control: LoadControl
    private let filler: PayloadFiller
    private var opener: ClientOpener
    private var next = 0

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.workload = workload
        self.control = control
        self.filler = filler
        opener = ClientOpener([.publisher(0, workload)], maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring: publish(worker)
        case .draining: break
        case .over: opener.clients.first?.end(worker)
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) { worker.endedCount += 1 }

    /// At QoS 1 at least: the acknowledgement tells that the broker has it.
    private func publish(_ worker: Worker) {
        guard let client = opener.clients.first else { return }
        let qos = max(workload.qos, .atLeastOnce)
        while next < workload.subscriberCount, client.connection.mayPublish(qos) {
            let topic = Workload.name("bench/retained/\(next % 100)/\(next / 100 % 100)/\(next)")
            let template = PublishTemplate(
                topic: topic, filler: filler, qos: qos, retain: true, version: workload.options.version)
            client.connection.publish(template, stamp: 0)
            next += 1
        }
        client.flush(worker)
    }
}
