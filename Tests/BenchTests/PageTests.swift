import MQTTCodec
import Testing

@testable import Bench

@Suite struct PageTests {
    private func report(
        _ scenario: Scenario = .fanout, points: [SeriesPoint] = PageTests.points(12),
        brokerVersion: String? = "martlet version 0.2.0",
        _ change: (inout BenchOptions) -> Void = { _ in }
    ) throws -> BenchReport {
        var options = BenchOptions()
        options.scenario = scenario
        change(&options)
        let workload = try Workload(options)
        var result = BenchResult(heading: workload)
        result.add("out_per_s", "delivered", 43_312_345, unit: "messages/s")
        result.add("lost", "lost", 0)
        var histogram = LatencyHistogram()
        for value in 1...10_000 { histogram.record(UInt64(value) * 1000) }
        result.add("latency_us", "latency", .group(StreamResult.percentiles(histogram)))
        let machine = Machine(processor: "A processor", processorCount: 2, memoryBytes: 1 << 30, system: "Linux", kernel: "6.1")
        let facts = RunFacts(
            options: options, workload: workload, programVersion: "0.2.0", started: "2026-01-31T12:00:00Z",
            brokerVersion: brokerVersion,
            brokerProcess: nil, machine: machine)
        return BenchReport(
            result: result, facts: facts, series: points,
            distributions: [LatencyDistribution(histogram, part: "")].compactMap { $0 })
    }

    private static func points(_ count: Int, part: String = "") -> [SeriesPoint] {
        (0..<count).map { index in
            let base = 1e6 * Double(1 + index % 4)
            return SeriesPoint(
                part: part, seconds: 0.25 * Double(index + 1), interval: 0.25, inPerSecond: 430_000, outPerSecond: 43e6,
                latency: LatencyPercentiles(p50: base, p90: base * 2, p99: base * 4, p999: base * 6, max: base * 10),
                brokerLoadPercent: 98, brokerResidentBytes: 26 << 20, loadPercent: 60, connectionsLost: 0)
        }
    }

    private func count(_ part: String, in text: String) -> Int {
        text.split(separator: part, omittingEmptySubsequences: false).count - 1
    }

    @Test func `a page has a chart of the rate, of latencies over time, of all latencies, and of the CPU`() throws {
        let page = try report().html
        #expect(count("<svg", in: page) == 4 && count("role=\"img\"", in: page) == 4 && count("<figcaption>", in: page) == 4)
        for title in ["Messages delivered per second", "Latency, from publisher to subscriber", "CPU of the broker"] {
            #expect(page.contains("<h2>\(title)"))
        }
        for name in ["max", "p99", "p90", "p50"] { #expect(page.contains(">\(name)</text>")) }
        #expect(page.contains("<h1>fanout: 43.3 M messages a second delivered</h1>"))
    }

    @Test func `a page fetches nothing, runs nothing, and looks right in the dark and on paper`() throws {
        let page = try report().html
        for piece in ["<script", "http://", "https://", "src=", "href=", "url(", "@import", "<img", "<link"] {
            #expect(!page.contains(piece), "\(piece)")
        }
        #expect(page.contains("default-src 'none'"))
        #expect(page.contains("prefers-color-scheme: dark") && page.contains("@media print"))
    }

    @Test func `every value of a chart is in the table too`() throws {
        let page = try report(points: Self.points(7)).html
        let table = try #require(page.split(separator: "id=\"series\"").last)
        #expect(count("<tr>", in: String(table)) == 8)
        for label in ["until", "published", "delivered", "p50", "p90", "p99", "p99.9", "max", "broker load", "broker memory"] {
            #expect(table.contains("<th scope=\"col\">\(label)</th>"))
        }
    }

    @Test func `what strangers say stays text`() throws {
        let page = try report(brokerVersion: "<b>\"x\" & 'y'</b>\u{1}") { $0.user = "</code><script>" }.html
        #expect(!page.contains("<b>") && !page.contains("<script"))
        #expect(page.contains("&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39;&lt;/b&gt;\u{fffd}"))
    }

    @Test func `a run that was over at once has a page without charts of its course`() throws {
        let page = try report(.retained, points: []).html
        #expect(page.contains("over too soon") || page.contains("<svg"))
        #expect(!page.contains("id=\"series\""))
    }

    @Test func `a chart of one point draws it as a dot`() throws {
        let page = try report(points: Self.points(1)).html
        #expect(page.contains("<circle"))
        #expect(!page.contains("nan") && !page.contains("inf,"))
    }

    @Test func `an interval in which nothing arrived breaks the line and the table has a dash`() throws {
        var points = Self.points(9)
        points[4].latency = nil
        let page = try report(points: points).html
        #expect(count("class=\"line two\"", in: page) == 2 + 1 + 1)
        #expect(page.contains("<td>–</td>"))
    }

    @Test func `parts of a run stand one behind the other, each named`() throws {
        let points = Self.points(4, part: "alone") + Self.points(4, part: "beside the flood")
        let page = try report(.flood, points: points).html
        #expect(count(">beside the flood</text>", in: page) == 3)
        #expect(page.contains(">2 s</text>"))
    }

    @Test func `a password is nowhere`() throws {
        let report = try report {
            $0.user = "somebody"
            $0.password = "secret-of-hers"
        }
        #expect(!report.html.contains("secret-of-hers") && !report.json.contains("secret-of-hers"))
        #expect(report.json.contains("\"password\":true"))
    }

    @Test func `the command says what is not as it is by itself`() throws {
        #expect(try report().facts.command == "martlet bench -s fanout")
        let command = try report(.pair) {
            $0.host = "broker.example"
            $0.port = 8883
            $0.subscriberPort = 8884
            $0.qos = .atLeastOnce
            $0.rate = 2000.5
            $0.seconds = 0.5
            $0.version = .v5
            $0.transport.usesTLS = true
            $0.transport.authoritiesFile = "/etc/my ca's.crt"
            $0.password = "x"
            $0.threads = 2
        }.facts.command
        #expect(
            command == "martlet bench -s pair --host broker.example --port 8883 --subscriber-port 8884 --qos 1 --rate 2000.5 "
                + "--mqtt-version 5 --seconds 0.5 --password … --threads 2 --tls --cafile '/etc/my ca'\\''s.crt'")
    }

    @Test func `a load generator at its limit is told`() throws {
        var options = BenchOptions()
        options.process = 1
        let workload = try Workload(options)
        var result = BenchResult()
        result.add("load_cpu_percent", "load", 97.0, digits: 0)
        let facts = RunFacts(
            options: options, workload: workload, programVersion: "", started: "", brokerVersion: nil, brokerProcess: nil,
            machine: Machine())
        let report = BenchReport(result: result, facts: facts, series: [], distributions: [])
        #expect(report.notes == ["the load generator was at its limit: the broker may be able to do more; try --threads 2"])
    }
}

@Suite struct ChartScaleTests {
    @Test(
        arguments: [
            (0.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]), (1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (1.01, ["0", "0.5", "1", "1.5"]),
            (43e6, ["0", "10 M", "20 M", "30 M", "40 M", "50 M"]), (100, ["0", "20", "40", "60", "80", "100"]),
        ] as [(Double, [String])])
    func `a linear axis begins at zero and has round marks`(top: Double, labels: [String]) {
        let scale = ChartScale.linear(top: top, label: Scaled.axis)
        #expect(scale.ticks.map(\.label) == labels)
        #expect(scale.position(0) == 0 && scale.position(top) <= 1)
    }

    @Test(
        arguments: [
            (1.2e6, 8.1e6, ["1 ms", "2 ms", "5 ms", "10 ms"]), (90e3, 100e6, ["100 µs", "1 ms", "10 ms", "100 ms"]),
            (1e6, 1e6, ["1 ms", "2 ms"]),
        ] as [(Double, Double, [String])])
    func `a logarithmic axis is as long as its values`(bottom: Double, top: Double, labels: [String]) {
        let scale = ChartScale.logarithmic(bottom: bottom, top: top, label: Scaled.axisTime)
        #expect(scale.ticks.map(\.label) == labels)
        #expect(scale.position(bottom) >= 0 && scale.position(top) <= 1 && scale.position(bottom) <= scale.position(top))
    }

    @Test(
        arguments: [
            (3.0, ["0 s", "1 s", "2 s", "3 s"]), (0.5, ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"]),
            (600, ["0 min", "2 min", "4 min", "6 min", "8 min", "10 min"]), (86_400, ["0 h", "5 h", "10 h", "15 h", "20 h"]),
        ] as [(Double, [String])])
    func `a time axis ends with the run`(end: Double, labels: [String]) {
        let scale = ChartScale.time(end: end)
        #expect(scale.ticks.map(\.label) == labels && scale.position(end) == 1)
    }
}

@Suite struct LatencyExchangeTests {
    private func recorder(_ values: UInt64...) -> LatencyRecorder {
        let recorder = LatencyRecorder()
        recorder.isRecording = true
        for value in values {
            recorder.now = value
            recorder.record(since: 0)
        }
        return recorder
    }

    @Test func `what was recorded is handed over when it is asked for, and once`() {
        let (exchange, recorder) = (LatencyExchange(), recorder(1000, 2000))
        var taken = LatencyHistogram()
        exchange.handOverIfAsked(recorder)
        #expect(recorder.histogram.totalCount == 2)
        exchange.ask()
        #expect(!exchange.take(into: &taken))
        exchange.handOverIfAsked(recorder)
        #expect(recorder.histogram.totalCount == 0)
        #expect(exchange.take(into: &taken) && exchange.take(into: &taken))
        #expect(taken.totalCount == 2)
    }

    @Test func `what nobody took is not lost when more is asked for`() {
        let (exchange, recorder) = (LatencyExchange(), recorder(1000))
        exchange.ask()
        exchange.handOverIfAsked(recorder)
        recorder.record(3, since: 0)
        exchange.ask()
        exchange.handOverIfAsked(recorder)
        var taken = recorder.histogram
        exchange.takeAll(into: &taken)
        #expect(taken.totalCount == 4)
    }
}
