import Histogram
import Platform

/// Pairs at a fixed rate, first alone and then beside clients that flood the broker: what one client's flood costs the others.
///
/// The pairs' threads go first where that is granted, and the flood's last: on a machine where load and broker share the cores, a p99 would
/// else tell how long the scheduler lets a thread wait that has just become ready.
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
