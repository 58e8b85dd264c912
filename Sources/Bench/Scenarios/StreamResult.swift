import Histogram
import MQTTCodec
import Platform

/// The figures of messages that flowed.
struct StreamResult {
    let workload: Workload
    let before: Moment
    let after: Moment
    let end: LoadCounts
    let latencies: Histogram<UInt64>
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

    static func percentiles(_ latencies: Histogram<UInt64>) -> [BenchResult.Entry] {
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
