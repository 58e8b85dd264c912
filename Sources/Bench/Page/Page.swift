internal import MQTTCodec

/// A report as one page of HTML: charts, figures, and all that they were made of. No script, and nothing that is
/// fetched.
struct Page {
    private let report: BenchReport

    init(_ report: BenchReport) { self.report = report }

    var text: String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
        <title>\(HTML.text(title)) – martlet bench</title>
        <style>
        \(PageStyle.text)
        </style>
        </head>
        <body>
        <header>
        <h1>\(HTML.text(title))</h1>
        <p>\(HTML.text(setting))</p>
        <p>\(HTML.text(report.facts.broker))</p>
        \(cards)\(notes)</header>
        <main>
        \(charts)\(tables)\(series)</main>
        <footer>Measured with martlet \(HTML.text(report.facts.programVersion)) on \(HTML.text(day)).
        KB and MB are 1,000 and 1,000,000 bytes.</footer>
        </body>
        </html>

        """
    }

    // MARK: The head

    private var title: String {
        let scenario = report.facts.options.scenario.rawValue
        guard let rate = rateEntry, let value = rate.figure.value else { return scenario }
        let what = report.flow.isOfMessages ? "messages a second \(report.flow.label)" : "clients a second \(report.flow.label)"
        return "\(scenario): \(Scaled.count(value)) \(what)"
    }

    private var rateEntry: BenchResult.Entry? { report.result.entry(report.flow.name) }

    /// A line that says how many clients talked to how many.
    private var setting: String {
        let workload = report.facts.workload
        var words: [String] = []
        func clients(_ count: Int, _ one: String, _ many: String) {
            if count > 0 { words.append("\(count.groupedText) \(count == 1 ? one : many)") }
        }
        clients(workload.publisherCount, "publisher", "publishers")
        clients(workload.subscriberCount, "subscriber", "subscribers")
        clients(workload.awayCount, "session that is away", "sessions that are away")
        clients(workload.floodCount, "client that floods", "clients that flood")
        words.append("QoS \(workload.qos.rawValue)")
        words.append("payloads of \(Scaled.bytes(Double(workload.options.size)))")
        if let rate = workload.rate { words.append("\(Scaled.count(rate)) messages asked for a second") }
        for name in ["mqtt_version", "transport"] {
            if let entry = report.result.entry(name) {
                words.append((name == "mqtt_version" ? "MQTT " : "") + entry.figure.plainText)
            }
        }
        return words.joined(separator: " · ")
    }

    /// The moment without its letters.
    private var day: String {
        let started = report.facts.started
        return started.split(separator: "T").joined(separator: " ").split(separator: "Z").joined() + " UTC"
    }

    private var cards: String {
        var cards: [(String, String, isBad: Bool)] = []
        if let rate = rateEntry, let value = rate.figure.value {
            cards.append((report.flow.label, Scaled.count(value) + "/s", false))
        }
        if case .group(let latencies)? = report.result.entry("latency_us")?.figure {
            for entry in latencies where ["p50", "p99"].contains(entry.name) {
                cards.append(("\(entry.name) latency", entry.unit.text(entry.figure), false))
            }
        }
        for name in ["broker_cpu_us_per_out", "broker_cpu_us_per_round", "broker_cpu_us_per_connection"] {
            guard let value = report.result.entry(name)?.figure.value else { continue }
            cards.append(("broker CPU for each", Scaled.time(value * 1000), false))
        }
        if let drain = report.result.entry("drain_ms") { cards.append((drain.label, drain.unit.text(drain.figure), false)) }
        for name in ["lost", "connections_lost", "failed"] {
            guard let entry = report.result.entry(name), let value = entry.figure.value, name == "lost" || value > 0 else {
                continue
            }
            cards.append((entry.label, entry.figure.plainText, value > 0))
        }
        let items = cards.map { label, value, isBad in
            "<div\(isBad ? " class=\"bad\"" : "")><dt>\(HTML.text(label))</dt><dd>\(HTML.text(value))</dd></div>"
        }
        return "<dl class=\"cards\">\n\(items.joined(separator: "\n"))\n</dl>\n"
    }

    private var notes: String {
        guard !report.notes.isEmpty else { return "" }
        return "<ul class=\"notes\">\n" + report.notes.map { "<li>\(HTML.text($0))</li>\n" }.joined() + "</ul>\n"
    }

    private var charts: String {
        let charts = PageCharts(report).all
        guard charts.isEmpty else { return charts.map(\.html).joined() }
        return "<p class=\"notes\">The run was over too soon for a chart of its course.</p>\n"
    }

    // MARK: The tables

    private var tables: String {
        var facts = [BenchResult.Entry]()
        facts += report.facts.machineEntries
        return """
            <section class="pair">
            \(HTML.table("Figures of the whole run", report.result.entries))<div>
            \(HTML.table("Asked for", report.facts.arguments))</div>
            \(HTML.table("Broker", report.facts.brokerEntries))\(HTML.table("Machine of the load", facts))</section>
            <section>
            <h2>Measure it again</h2>
            <pre><code>\(HTML.text(report.facts.command))</code></pre>
            </section>

            """
    }

    /// The charts' values.
    private var series: String {
        let rows = report.series.map(report.entries)
        guard !rows.isEmpty else { return "" }
        // Some figures are not there in every interval, such as latencies where nothing arrived.
        var columns: [BenchResult.Entry] = []
        for entry in rows.joined() where !columns.contains(where: { $0.name == entry.name }) { columns.append(entry) }
        let order = ["part", "t", "in_per_s", report.flow.name, "p50_us", "p90_us", "p99_us", "p99.9_us", "max_us"]
        columns.sort { (order.firstIndex(of: $0.name) ?? order.count) < (order.firstIndex(of: $1.name) ?? order.count) }
        let head = columns.map { "<th scope=\"col\">\(HTML.text($0.label))</th>" }.joined()
        let body = rows.map { row in
            let cells = columns.map { column in
                "<td>\(row.first { $0.name == column.name }.map { HTML.text($0.unit.text($0.figure)) } ?? "–")</td>"
            }
            return "<tr>\(cells.joined())</tr>"
        }
        return """
            <section>
            <h2 id="series">From interval to interval</h2>
            <div class="series" role="region" aria-labelledby="series" tabindex="0"><table><thead><tr>\(head)</tr></thead><tbody>
            \(body.joined(separator: "\n"))
            </tbody></table></div>
            </section>

            """
    }
}

/// Pieces of a page.
enum HTML {
    /// Text as it may stand in an element or in a quoted attribute.
    static func text(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\u{0}"..."\u{8}", "\u{b}"..."\u{1f}", "\u{7f}"..."\u{9f}": escaped += "\u{fffd}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// A group is a row for each of its figures.
    private static func rows(_ entry: BenchResult.Entry) -> [BenchResult.Entry] {
        guard case .group(let parts) = entry.figure else { return [entry] }
        return parts.map {
            BenchResult.Entry(name: $0.name, label: "\(entry.label), \($0.label)", unit: $0.unit, figure: $0.figure)
        }
    }

    /// Figures as a table of two columns, under a caption.
    static func table(_ caption: String, _ entries: [BenchResult.Entry]) -> String {
        let rows = entries.flatMap(rows).map { entry in
            let look = entry.label.hasPrefix(" ") ? " class=\"part-of\"" : ""
            let value = text(entry.unit.text(entry.figure))
            return "<tr><th scope=\"row\"\(look)>\(text(entry.label))</th><td>\(value)</td></tr>"
        }
        return "<table><caption>\(text(caption))</caption><tbody>\n\(rows.joined(separator: "\n"))\n</tbody></table>\n"
    }
}

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
            up: logarithmic(lines), positions: longest.points.map { across.position(100 / (100 - $0.percentile)) },
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
            title: title, summary: note + summary(lines, text), across: across, up: up, positions: times.map(across.position),
            names: points.map { "until \($0.seconds.shortText) s" + ($0.part.isEmpty ? "" : ", \($0.part)") }, lines: lines,
            text: text,
            breaks: breaks, parts: parts.count > 1 ? parts.map { (across.position($0.start), $0.name) } : [], isFilled: isFilled)
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

/// Lines over one axis, drawn as SVG that takes its colors from the page.
///
///     ┌─────────────── figcaption: title, and what is seen in words
///     │ 50 M ┤
///     │      │  ╱╲__╱╲___ delivered     each line is named where it ends
///     │    0 ┼──┬────┬────┬──
///     └─────── 0 s  1 s  2 s
struct Chart {
    struct Line {
        /// What stands at its end, and in what is told at each point.
        let name: String
        /// Its class in the page's style.
        let look: String
        /// One for each of `positions`; nil where there is none.
        let values: [Double?]
    }

    let title: String
    /// The chart in words, for readers who do not see it.
    let summary: String
    let across: ChartScale
    let up: ChartScale
    /// Where the points stand on the axis, 0 to 1, rising.
    let positions: [Double]
    /// What the points are called, such as `2.25 s`.
    let names: [String]
    let lines: [Line]
    /// A value in words.
    let text: (Double) -> String
    /// Where a line is not joined to the point before.
    var breaks: Set<Int> = []
    /// Parts of the axis that have a name: where each begins.
    var parts: [(position: Double, name: String)] = []
    /// Whether the space below the first line is filled.
    var isFilled = false

    /// The figure with its caption.
    var html: String {
        """
        <figure>
        <figcaption><h2>\(HTML.text(title))</h2><p>\(HTML.text(summary))</p></figcaption>
        <div class="scroll">
        <svg viewBox="0 0 \(Self.width) \(Self.height)" role="img" aria-label="\(HTML.text(title + ". " + summary))">
        \(grid)\(partMarks)\(lines.enumerated().map { drawing($1, isFirst: $0 == 0) }.joined())\(labels)\(targets)</svg></div>
        </figure>

        """
    }

    // MARK: Where things stand

    private static let width = 960
    private static let height = 300
    private static let left = 70.0
    private static let right = 848.0
    private static let top = 22.0
    private static let bottom = 262.0

    private func x(_ position: Double) -> Double { Self.left + position * (Self.right - Self.left) }
    private func y(_ value: Double) -> Double { Self.bottom - max(0, min(1, up.position(value))) * (Self.bottom - Self.top) }
    private func number(_ value: Double) -> String { value.decimalText(digits: 1) }

    // MARK: Parts of the drawing

    private var grid: String {
        let rows = up.ticks.map { tick in
            let height = Self.bottom - tick.position * (Self.bottom - Self.top)
            return rule("grid", from: (Self.left, height), to: (Self.right, height))
                + word(tick.label, at: (Self.left - 10, height + 4), anchor: "end")
        }
        let columns = across.ticks.map { tick in
            rule("mark", from: (x(tick.position), Self.bottom), to: (x(tick.position), Self.bottom + 5))
                + word(tick.label, at: (x(tick.position), Self.bottom + 20), anchor: "middle")
        }
        return (rows + columns).joined()
    }

    private var partMarks: String {
        parts.map { part in
            rule("part", from: (x(part.position), Self.top - 8), to: (x(part.position), Self.bottom))
                + word(part.name, at: (x(part.position) + 6, Self.top), anchor: "start")
        }.joined()
    }

    private func rule(_ look: String, from: (x: Double, y: Double), to: (x: Double, y: Double)) -> String {
        let (start, end) = ("x1=\"\(number(from.x))\" y1=\"\(number(from.y))\"", "x2=\"\(number(to.x))\" y2=\"\(number(to.y))\"")
        return "<line class=\"\(look)\" \(start) \(end)/>\n"
    }

    private func word(_ word: String, at place: (x: Double, y: Double), anchor: String, look: String = "tick") -> String {
        let place = "x=\"\(number(place.x))\" y=\"\(number(place.y))\""
        return "<text class=\"\(look)\" text-anchor=\"\(anchor)\" \(place)>\(HTML.text(word))</text>\n"
    }

    /// Runs of neighbours that have a value.
    private func runs(_ line: Line) -> [[Int]] {
        var runs: [[Int]] = []
        for index in positions.indices where line.values[index] != nil {
            if let last = runs.last?.last, last == index - 1, !breaks.contains(index) {
                runs[runs.count - 1].append(index)
            } else {
                runs.append([index])
            }
        }
        return runs
    }

    private func drawing(_ line: Line, isFirst: Bool) -> String {
        runs(line).map { run in
            let points = run.map { "\(number(x(positions[$0]))),\(number(y(line.values[$0] ?? 0)))" }
            guard run.count > 1 else {
                let place = points[0].split(separator: ",")
                return "<circle class=\"dot \(line.look)\" cx=\"\(place[0])\" cy=\"\(place[1])\" r=\"3\"/>\n"
            }
            var drawing = ""
            if isFilled, isFirst, let first = run.first, let last = run.last {
                let path =
                    "M\(number(x(positions[first]))),\(number(Self.bottom)) L\(points.joined(separator: " L"))"
                    + " L\(number(x(positions[last]))),\(number(Self.bottom)) Z"
                drawing = "<path class=\"area \(line.look)\" d=\"\(path)\"/>\n"
            }
            return drawing + "<path class=\"line \(line.look)\" d=\"M\(points.joined(separator: " L"))\"/>\n"
        }.joined()
    }

    /// The names of the lines, behind their ends and apart from each other.
    private var labels: String {
        var ends = lines.compactMap { line -> (line: Line, x: Double, y: Double)? in
            guard let last = line.values.indices.last(where: { line.values[$0] != nil }), let value = line.values[last] else {
                return nil
            }
            return (line, x(positions[last]), y(value))
        }
        ends.sort { $0.y < $1.y }
        for index in ends.indices.dropFirst() { ends[index].y = max(ends[index].y, ends[index - 1].y + Self.labelHeight) }
        // What has been pushed below the axis goes up again, and pushes the others.
        var limit = Self.bottom
        for index in ends.indices.reversed() {
            ends[index].y = min(ends[index].y, limit)
            limit = ends[index].y - Self.labelHeight
        }
        return ends.map { end in
            word(end.line.name, at: (end.x + 8, end.y + 4), anchor: "start", look: "name \(end.line.look)")
        }.joined()
    }

    private static let labelHeight = 15.0

    /// What a pointer meets: a strip for each point, which tells the values there.
    private var targets: String {
        positions.indices.map { index in
            let from = index == 0 ? 0 : (positions[index - 1] + positions[index]) / 2
            let to = index + 1 == positions.count ? 1 : (positions[index] + positions[index + 1]) / 2
            let told = lines.compactMap { line in line.values[index].map { "\(line.name): \(text($0))" } }
            return "<g class=\"point\"><rect x=\"\(number(x(from)))\" y=\"\(number(Self.top))\" "
                + "width=\"\(number(max(0, x(to) - x(from))))\" height=\"\(number(Self.bottom - Self.top))\"/>"
                + rule("guide", from: (x(positions[index]), Self.top), to: (x(positions[index]), Self.bottom))
                + "<title>\(HTML.text(([names[index]] + told).joined(separator: "\n")))</title></g>\n"
        }.joined()
    }
}
