import MQTTCodec
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
                workload, slots: WorkerShare(workload, worker: index, of: threads).publishers, maker: maker, control: control,
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

/// Keeps so many slots busy: in each a client connects, subscribes, publishes to itself, receives it and says goodbye;
/// the next follows.
///
/// The broker closes a connection after DISCONNECT [MQTT-3.14.4-3 v5]; a slot is free when it has.
final class ChurnDriver: LoadDriver {
    private struct Slot {
        let index: Int
        let template: PublishTemplate
        var client: LoadClient?
        var start: UInt64 = 0
        var hasPublished = false
        var hasSaidGoodbye = false
    }

    private let workload: Workload
    private let control: LoadControl
    private let maker: ChannelMaker
    private var slots: [Slot]
    private var serial = 0

    init(_ workload: Workload, slots: [Int], maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.workload = workload
        self.control = control
        self.maker = maker
        self.slots = slots.map { index in
            let template = PublishTemplate(
                topic: workload.topic(publisher: index, index: 0), filler: filler, qos: workload.qos,
                version: workload.options.version)
            return Slot(index: index, template: template)
        }
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        worker.recorder.recordsMessages = false
        switch control.phase {
        case .connecting, .draining: break
        case .warming, .measuring:
            for index in slots.indices where slots[index].client == nil { open(index, worker) }
        case .over:
            for slot in slots { slot.client?.end(worker) }
        }
        // A slot that the kernel refused is tried again.
        return now + 10
    }

    func received(_ client: LoadClient, _ worker: Worker) {
        guard let index = slots.firstIndex(where: { $0.client === client }) else { return }
        if client.connection.isReady, !slots[index].hasPublished {
            slots[index].hasPublished = true
            client.connection.publish(slots[index].template, stamp: MonotonicClock.nanoseconds())
            client.flush(worker)
        } else if client.connection.deliveredCount > 0, client.connection.inFlightCount == 0, !slots[index].hasSaidGoodbye {
            slots[index].hasSaidGoodbye = true
            client.connection.end()
            client.flush(worker)
        }
    }

    func ended(_ client: LoadClient, _ worker: Worker) {
        guard let index = slots.firstIndex(where: { $0.client === client }) else { return }
        if slots[index].hasSaidGoodbye {
            worker.rounds += 1
            roundEnded(slots[index].start, worker)
        } else if control.phase != .over {
            worker.endedCount += 1
        }
        slots[index].client = nil
    }

    private func roundEnded(_ start: UInt64, _ worker: Worker) {
        worker.recorder.now = MonotonicClock.nanoseconds()
        worker.recorder.record(since: start)
    }

    private func open(_ index: Int, _ worker: Worker) {
        serial += 1
        let options = SubscriptionOptions(maximumQoS: workload.subscriberQoS)
        let connection = LoadConnection(
            connect: workload.connect("c", slots[index].index + serial * workload.publisherCount),
            subscription: Subscription(filter: workload.filter(subscriber: slots[index].index), options: options),
            inFlightMax: workload.options.inFlight, publisherCount: 0, tally: worker.tally)
        slots[index].start = MonotonicClock.nanoseconds()
        slots[index].hasPublished = false
        slots[index].hasSaidGoodbye = false
        do throws(SystemError) {
            slots[index].client = try LoadClient(
                connection: connection, channel: maker.makeChannel(workspace: worker.workspace), worker: worker)
        } catch {
            worker.record(failure: "\(error)")
            worker.endedCount += 1
        }
    }
}
