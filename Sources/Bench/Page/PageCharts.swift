/// The charts of a report, as far as it has values for them.
struct PageCharts {
    private let report: BenchReport
    private let points: [SeriesPoint]
    /// The middle of each point's interval, in seconds since the first part of the run began.
    private let times: [Double]
    /// When the last interval ended.
    private let end: Double
    /// Where each part of the run began, in seconds, and what it is called.
    private let parts: [(start: Double, name: String)]
    /// Where a new part of the run begins.
    private let breaks: Set<Int>

    init(_ report: BenchReport) {
        self.report = report
        points = report.series
        var times: [Double] = []
        var breaks: Set<Int> = []
        var parts = [(start: 0.0, name: report.series.first?.part ?? "")]
        for (index, point) in report.series.enumerated() {
            if index > 0, point.part != report.series[index - 1].part {
                breaks.insert(index)
                parts.append((parts[parts.count - 1].start + report.series[index - 1].seconds, point.part))
            }
            times.append(parts[parts.count - 1].start + point.seconds - point.interval / 2)
        }
        (self.times, self.breaks, self.parts) = (times, breaks, parts)
        end = parts[parts.count - 1].start + (report.series.last?.seconds ?? 0)
    }

    var all: [Chart] { [rate, latency, distribution, load].compactMap { $0 } }

    private var rate: Chart? {
        var lines = [Chart.Line(name: report.flow.label, look: "one", values: points.map(\.outPerSecond))]
        let published = points.map(\.inPerSecond)
        // A line that lies on the other tells nothing.
        let isApart = points.contains { abs(($0.inPerSecond ?? $0.outPerSecond) - $0.outPerSecond) > 0.05 * $0.outPerSecond }
        if report.facts.workload.deliveriesPerPublish <= 1, isApart {
            lines.append(Chart.Line(name: "published", look: "five", values: published))
        }
        return chart(
            report.flow.title, lines, up: .linear(top: top(lines), label: { Scaled.axis($0) }), text: { Scaled.count($0) + "/s" },
            isFilled: true)
    }

    private var latency: Chart? {
        let latencies = points.map(\.latency)
        let lines = [
            Chart.Line(name: "max", look: "five", values: latencies.map { $0?.max }),
            Chart.Line(name: "p99", look: "four", values: latencies.map { $0?.p99 }),
            Chart.Line(name: "p90", look: "one", values: latencies.map { $0?.p90 }),
            Chart.Line(name: "p50", look: "two", values: latencies.map { $0?.p50 }),
        ]
        return chart(report.flow.latencyTitle, lines, up: logarithmic(lines), text: Scaled.time)
    }

    private var distribution: Chart? {
        let longest = report.distributions.max { $0.points.count < $1.points.count }
        guard let longest, let last = longest.points.last, longest.points.count > 1 else { return nil }
        let looks = ["two", "four"]
        let lines = report.distributions.enumerated().map { index, distribution in
            Chart.Line(
                name: distribution.part.isEmpty ? "latency" : distribution.part, look: looks[index % looks.count],
                values: longest.points.indices.map { $0 < distribution.points.count ? distribution.points[$0].nanoseconds : nil })
        }
        let across = ChartScale.percentiles(last: last.percentile)
        let sentences = ["50", "99", "99.9"].compactMap { percentile -> String? in
            guard let wanted = Double(percentile) else { return nil }
            return lines.last.flatMap { line in
                longest.points.indices.first { longest.points[$0].percentile >= wanted - 1e-6 }.flatMap { line.values[$0] }
            }.map { "\(percentile) % within \(Scaled.time($0))" }
        }
        return Chart(
            title: "Latency of the whole run, by percentile", summary: sentences.joined(separator: ", ") + ".",
            across: across,
            up: logarithmic(lines), places: longest.points.map { across.place(100 / (100 - $0.percentile)) },
            names: longest.points.map { "\($0.percentile.shortText) %" }, lines: lines, text: Scaled.time)
    }

    private var load: Chart? {
        guard points.contains(where: { $0.brokerLoadPercent != nil }) else { return nil }
        let lines = [
            Chart.Line(name: "broker", look: "two", values: points.map(\.brokerLoadPercent)),
            Chart.Line(name: "load", look: "five", values: points.map(\.loadPercent)),
        ]
        return chart(
            "CPU of the broker and of the load generator", lines,
            up: .linear(top: max(100, top(lines)), label: { $0.shortText + " %" }),
            text: { $0.decimalText(digits: 0) + " %" }, note: "100 % is one processor. ", isFilled: true)
    }

    // MARK: -

    /// A chart over time; nil when the lines have no value.
    private func chart(
        _ title: String, _ lines: [Chart.Line], up: ChartScale, text: @escaping (Double) -> String, note: String = "",
        isFilled: Bool = false
    ) -> Chart? {
        let lines = lines.filter { $0.values.contains { $0 != nil } }
        guard !lines.isEmpty, end > 0 else { return nil }
        let across = ChartScale.time(end: end)
        return Chart(
            title: title, summary: note + summary(lines, text), across: across, up: up, places: times.map(across.place),
            names: points.map { "until \($0.seconds.shortText) s" + ($0.part.isEmpty ? "" : ", \($0.part)") }, lines: lines,
            text: text,
            breaks: breaks, parts: parts.count > 1 ? parts.map { (across.place($0.start), $0.name) } : [], isFilled: isFilled)
    }

    /// How far each line goes; of a single one its middle too.
    private func summary(_ lines: [Chart.Line], _ text: (Double) -> String) -> String {
        lines.reversed().map { line in
            let values = line.values.compactMap { $0 }.sorted()
            guard let low = values.first, let high = values.last, values.count > 1 else {
                return "\(line.name) \(values.first.map(text) ?? "–")"
            }
            let median = lines.count == 1 ? "\(text(values[values.count / 2])) (median), " : ""
            return "\(line.name) \(median)\(text(low)) to \(text(high))"
        }.joined(separator: "; ") + "."
    }

    private func top(_ lines: [Chart.Line]) -> Double { lines.flatMap(\.values).compactMap { $0 }.max() ?? 0 }

    private func logarithmic(_ lines: [Chart.Line]) -> ChartScale {
        let values = lines.flatMap(\.values).compactMap { $0 }.filter { $0 > 0 }
        return .logarithmic(bottom: values.min() ?? 1, top: values.max() ?? 10, label: Scaled.axisTime)
    }
}
