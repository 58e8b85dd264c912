/// All that is known when a run is over: its figures, what they are figures of, and how they went second by second.
public struct BenchReport: Sendable {
    /// The figures of the whole run.
    public let result: BenchResult
    let facts: RunFacts
    let series: [SeriesPoint]
    let distributions: [LatencyDistribution]

    var flow: Flow { Flow(facts.workload) }

    /// For people: a line for each figure, and what should be known of them.
    public var table: String {
        let heading = "  \(facts.broker)\n"
        return heading + result.table + notes.map { "\n  (\($0))" }.joined()
    }

    /// What should be known of the figures.
    var notes: [String] {
        var notes: [String] = []
        if let load = result.entry("load_cpu_percent")?.figure.value, facts.workload.rate == nil,
            load >= 90 * Double(facts.options.threads)
        {
            notes.append(
                "the load generator was at its limit: the broker may be able to do more; try --threads \(facts.options.threads + 1)"
            )
        }
        if facts.options.process == nil {
            notes.append("the broker's CPU and memory are measured when --pid names its process on this machine")
        }
        return notes
    }

    /// One line of JSON: the figures, then what they are figures of, then the series.
    public var json: String {
        var all = result
        all.add("started", "started", .text(facts.started))
        all.add("martlet_version", "load generator", .text("martlet \(facts.programVersion)"))
        all.add("broker", "broker", .group(facts.brokerEntries))
        all.add("machine", "machine", .group(facts.machineEntries))
        all.add("arguments", "arguments", .group(facts.arguments))
        all.add("command", "command", .text(facts.command))
        all.add("series", "series", .list(series.map { .group(entries($0)) }))
        return all.json
    }

    /// A page that needs nothing but itself: charts, figures, and all that they were made of.
    public var html: String { Page(self).text }

    /// A point of the series, as a result's object and as a row of a table.
    func entries(_ point: SeriesPoint) -> [BenchResult.Entry] {
        var told = BenchResult()
        if !point.part.isEmpty { told.add("part", "part", .text(point.part)) }
        told.add("t", "until", point.seconds, digits: 3, unit: "s")
        if let rate = point.inPerSecond { told.add("in_per_s", "published", Int(rate.rounded()), unit: "/s") }
        told.add(flow.name, flow.label, Int(point.outPerSecond.rounded()), unit: "/s")
        if let latency = point.latency {
            told.add("p50_us", "p50", latency.p50 / 1000, digits: 1, unit: .microseconds())
            told.add("p90_us", "p90", latency.p90 / 1000, digits: 1, unit: .microseconds())
            told.add("p99_us", "p99", latency.p99 / 1000, digits: 1, unit: .microseconds())
            told.add("p99.9_us", "p99.9", latency.p999 / 1000, digits: 1, unit: .microseconds())
            told.add("max_us", "max", latency.max / 1000, digits: 1, unit: .microseconds())
        }
        if let load = point.brokerLoadPercent { told.add("broker_cpu_percent", "broker load", load, digits: 1, unit: "%") }
        if let bytes = point.brokerResidentBytes { told.add("broker_rss_kib", "broker memory", bytes / 1024, unit: .kibibytes) }
        told.add("load_cpu_percent", "load generator", point.loadPercent, digits: 1, unit: "%")
        told.add("connections_lost", "connections lost", point.connectionsLost)
        return told.entries
    }
}
