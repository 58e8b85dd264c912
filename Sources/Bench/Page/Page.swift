internal import MQTTCodec

/// A report as one page of HTML: charts, figures, and all that they were made of. No script, and nothing that is fetched.
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

    /// Who talked to whom, in a line.
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
