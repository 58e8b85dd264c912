internal import MQTTCodec

/// The figures of a measurement, in the order in which they are printed.
public struct BenchResult: Sendable, Equatable {
    /// A figure with its name in JSON and the words for people.
    public struct Entry: Sendable, Equatable {
        /// Its key in JSON, which says the unit where there is one: `drain_ms`.
        public let name: String
        /// What people call it.
        public let label: String
        /// What the figure counts, for people.
        public let unit: Unit
        public let figure: Figure
    }

    public private(set) var entries: [Entry] = []

    mutating func add(_ name: String, _ label: String, _ figure: Figure, unit: Unit = "") {
        entries.append(Entry(name: name, label: label, unit: unit, figure: figure))
    }

    mutating func add(_ name: String, _ label: String, _ value: Double, digits: Int, unit: Unit = "") {
        add(name, label, .number(value.isFinite ? value : 0, digits: digits), unit: unit)
    }

    mutating func add(_ name: String, _ label: String, _ value: some BinaryInteger, unit: Unit = "") {
        add(name, label, .count(Int(clamping: value)), unit: unit)
    }

    /// The figure of that name, nil if there is none.
    func entry(_ name: String) -> Entry? { entries.first { $0.name == name } }
}

/// One value of a result.
public enum Figure: Sendable, Equatable {
    case text(String)
    case count(Int)
    /// A number with that many digits behind the point.
    case number(Double, digits: Int)
    case flag(Bool)
    case group([BenchResult.Entry])
    case list([Figure])

    /// Of a number; nil for anything else.
    var value: Double? {
        switch self {
        case .count(let count): Double(count)
        case .number(let number, _): number
        case .text, .flag, .group, .list: nil
        }
    }

    /// For people, without a unit; a list has none.
    var plainText: String {
        switch self {
        case .text(let text): text
        case .count(let count): count.groupedText
        case .number(let number, let digits): number.decimalText(digits: digits)
        case .flag(let isSo): isSo ? "yes" : "no"
        case .group(let entries): entries.map { "\($0.label) \($0.unit.text($0.figure))" }.joined(separator: "  ")
        case .list: ""
        }
    }
}

extension BenchResult {
    /// The result for people: a line for each figure.
    public var table: String {
        let width = entries.map(\.label.count).max() ?? 0
        return entries.map { entry in
            let padding = String(repeating: " ", count: width - entry.label.count)
            return "  \(entry.label)\(padding)  \(entry.unit.text(entry.figure))"
        }.joined(separator: "\n")
    }
}

extension BenchResult {
    /// The result as one line of JSON.
    public var json: String { Self.object(entries) }

    private static func object(_ entries: [Entry]) -> String {
        "{" + entries.map { "\(quoted($0.name)):\(value($0.figure))" }.joined(separator: ",") + "}"
    }

    private static func value(_ figure: Figure) -> String {
        switch figure {
        case .text(let text): quoted(text)
        case .count(let count): String(count)
        case .number(let number, let digits): number.decimalText(digits: digits)
        case .flag(let isSo): isSo ? "true" : "false"
        case .group(let entries): object(entries)
        case .list(let figures): "[" + figures.map(value).joined(separator: ",") + "]"
        }
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\u{0}"..."\u{1f}":
                let hexadecimal = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hexadecimal.count) + hexadecimal
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

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
        var result = BenchResult()
        if !point.part.isEmpty { result.add("part", "part", .text(point.part)) }
        result.add("t", "until", point.seconds, digits: 3, unit: "s")
        if let rate = point.inPerSecond { result.add("in_per_s", "published", Int(rate.rounded()), unit: "/s") }
        result.add(flow.name, flow.label, Int(point.outPerSecond.rounded()), unit: "/s")
        if let latency = point.latency {
            result.add("p50_us", "p50", latency.p50 / 1000, digits: 1, unit: .microseconds())
            result.add("p90_us", "p90", latency.p90 / 1000, digits: 1, unit: .microseconds())
            result.add("p99_us", "p99", latency.p99 / 1000, digits: 1, unit: .microseconds())
            result.add("p99.9_us", "p99.9", latency.p999 / 1000, digits: 1, unit: .microseconds())
            result.add("max_us", "max", latency.max / 1000, digits: 1, unit: .microseconds())
        }
        if let load = point.brokerLoadPercent { result.add("broker_cpu_percent", "broker load", load, digits: 1, unit: "%") }
        if let bytes = point.brokerResidentBytes { result.add("broker_rss_kib", "broker memory", bytes / 1024, unit: .kibibytes) }
        result.add("load_cpu_percent", "load generator", point.loadPercent, digits: 1, unit: "%")
        result.add("connections_lost", "connections lost", point.connectionsLost)
        return result.entries
    }
}

/// Numbers for people: three digits, and the unit that makes them so.
///
/// KB, MB and GB are 1,000, a million and a thousand million bytes.
enum Scaled {
    /// `850 ns`, `12.3 µs`, `1.25 ms`, `3.10 s`.
    static func time(_ nanoseconds: Double) -> String {
        scaled(nanoseconds, [" ns", " µs", " ms", " s"], smallest: "0 ns")
    }

    /// `64 bytes`, `1.32 KB`, `2.76 GB`; whole bytes below 10,000.
    static func bytes(_ bytes: Double) -> String {
        if bytes.magnitude < 9999.5 {
            let whole = Int(bytes.rounded())
            return whole == 1 ? "1 byte" : "\(whole.groupedText) bytes"
        }
        return scaled(bytes, [" bytes", " KB", " MB", " GB", " TB"], smallest: "0 bytes")
    }

    /// `850`, `6,736`, `43.3 k`, `1.20 M`; whole below 10,000, except for what is less than 100 and not whole.
    static func count(_ count: Double) -> String {
        if count.magnitude < 9999.5, count.rounded() == count || count.magnitude >= 99.95 {
            return Int(count.rounded()).groupedText
        }
        return scaled(count, ["", " k", " M", " G"], smallest: "0")
    }

    /// A round number beside an axis: `0`, `250 k`, `40 M`.
    static func axis(_ count: Double) -> String { rounded(count, ["", " k", " M", " G"]) }

    /// A round time beside an axis, in nanoseconds: `100 µs`, `20 ms`.
    static func axisTime(_ nanoseconds: Double) -> String { rounded(nanoseconds, [" ns", " µs", " ms", " s"]) }

    private static func rounded(_ value: Double, _ units: [String]) -> String {
        var (value, place) = (value, 0)
        while value.magnitude >= 999.999, place + 1 < units.count {
            value /= 1000
            place += 1
        }
        return value.shortText + units[place]
    }

    /// The value in the largest unit that leaves something before the point, each unit 1,000 of the one before.
    private static func scaled(_ value: Double, _ units: [String], smallest: String) -> String {
        guard value.isFinite, value != 0 else { return smallest }
        var (value, place) = (value, 0)
        while value.magnitude >= 999.5, place + 1 < units.count {
            value /= 1000
            place += 1
        }
        return threeDigits(value) + units[place]
    }

    private static func threeDigits(_ value: Double) -> String {
        switch value.magnitude {
        case ..<9.995: value.decimalText(digits: 2)
        case ..<99.95: value.decimalText(digits: 1)
        default: Int(value.rounded()).groupedText
        }
    }
}

/// What a figure is counted in, and so how people read it.
public enum Unit: Sendable, Equatable {
    /// These words stand behind the number; empty for a bare number.
    case words(String)
    /// A time: how many nanoseconds one is, and words behind it.
    case time(nanoseconds: Double, String)
    /// A size: how many bytes one is, and words behind it.
    case size(bytes: Double, String)

    static func microseconds(_ each: String = "") -> Unit { .time(nanoseconds: 1e3, each) }
    static func milliseconds(_ each: String = "") -> Unit { .time(nanoseconds: 1e6, each) }
    static func bytes(_ each: String = "") -> Unit { .size(bytes: 1, each) }
    static var kibibytes: Unit { .size(bytes: 1024, "") }
    static var megabytesPerSecond: Unit { .size(bytes: 1e6, "/s") }

    /// The number for people, its unit behind it.
    func text(_ figure: Figure) -> String {
        switch self {
        case .words(let words): return figure.plainText + Self.behind(words)
        case .time(let scale, let words): return scaled(figure, Scaled.time, scale, words)
        case .size(let scale, let words): return scaled(figure, Scaled.bytes, scale, words)
        }
    }

    /// `/s` stands close to its number, words do not.
    private static func behind(_ words: String) -> String { words.isEmpty || words.hasPrefix("/") ? words : " \(words)" }

    private func scaled(_ figure: Figure, _ text: (Double) -> String, _ scale: Double, _ words: String) -> String {
        guard let value = figure.value else { return figure.plainText }
        return text(value * scale) + Self.behind(words)
    }
}

extension Unit: ExpressibleByStringLiteral {
    /// Words behind a number.
    ///
    /// - Parameter words: such as `messages/s`; empty for a bare number.
    public init(stringLiteral words: String) { self = .words(words) }
}

/// What a result is a result of: the program, the broker, the machine and what was asked for.
struct RunFacts: Sendable {
    let options: BenchOptions
    let workload: Workload
    let programVersion: String
    /// In UTC, as ISO 8601 has it.
    let started: String
    /// What the broker calls itself; nil if it does not say.
    let brokerVersion: String?
    /// Of the broker's process, where it is known.
    let brokerProcess: String?
    let machine: Machine

    /// The broker that was measured, in words.
    var broker: String {
        let name = brokerVersion ?? brokerProcess.map { "process \($0)" }
        return options.brokerAddress + (name.map { ", \($0)" } ?? "")
    }

    /// The command that does it again: the options that are not as they are by themselves. A password is not result.
    var command: String {
        let usual = BenchOptions()
        var words = ["martlet", "bench", "-s", options.scenario.rawValue]
        func add(_ name: String, _ value: String?) { if let value { words += [name, Self.quoted(value)] } }
        func flag(_ name: String, _ isSet: Bool) { if isSet { words.append(name) } }
        add("--host", options.host == usual.host ? nil : options.host)
        add("--port", options.port.map(String.init))
        add("--subscriber-port", options.subscriberPort.map(String.init))
        add("--pid", options.process.map(String.init))
        add("--publishers", options.publishers.map(String.init))
        add("--subscribers", options.subscribers.map(String.init))
        add("--qos", options.qos == usual.qos ? nil : String(options.qos.rawValue))
        add("--subscriber-qos", options.subscriberQoS.map { String($0.rawValue) })
        add("--size", options.size == usual.size ? nil : String(options.size))
        add("--rate", options.rate?.shortText)
        add("--mqtt-version", options.version == usual.version ? nil : String(options.version.rawValue))
        add("--topics", options.topics == usual.topics ? nil : String(options.topics))
        add("--inflight", options.inFlight == usual.inFlight ? nil : String(options.inFlight))
        add("--window", options.window.map(String.init))
        add("--seconds", options.seconds == usual.seconds ? nil : options.seconds.shortText)
        add("--warmup", options.warmupSeconds == usual.warmupSeconds ? nil : options.warmupSeconds.shortText)
        add("--user", options.user)
        add("--password", options.password.map { _ in "…" })
        flag("--persistent", options.keepsSessions)
        add("--group", options.group == usual.group ? nil : options.group)
        add("--threads", options.threads == usual.threads ? nil : String(options.threads))
        let transport = options.transport
        flag("--tls", transport.usesTLS)
        add("--cafile", transport.authoritiesFile)
        flag("--insecure", !transport.verifiesBroker)
        add("--cert", transport.certificateFile)
        add("--key", transport.keyFile)
        flag("--resume", transport.resumesSessions)
        flag("--websocket", transport.usesWebSocket)
        return words.joined(separator: " ")
    }

    /// What was asked for, with what a scenario adds where nothing was; a password only as having been given.
    var arguments: [BenchResult.Entry] {
        var result = BenchResult()
        result.add("scenario", "scenario", .text(options.scenario.rawValue))
        result.add("host", "host", .text(options.host))
        result.add("port", "port", Double(options.brokerPort), digits: 0)
        if let port = options.subscriberPort { result.add("subscriber_port", "port of subscribers", Double(port), digits: 0) }
        if let process = options.process { result.add("pid", "broker's process", Double(process), digits: 0) }
        result.add("publishers", "publishers", workload.publisherCount)
        result.add("subscribers", "subscribers", workload.awayCount > 0 ? workload.awayCount : workload.subscriberCount)
        if workload.floodCount > 0 { result.add("flooders", "clients that flood", workload.floodCount) }
        result.add("qos", "QoS of messages", Int(workload.qos.rawValue))
        result.add("subscriber_qos", "QoS of subscriptions", Int(workload.subscriberQoS.rawValue))
        result.add("size", "payload", options.size, unit: .bytes())
        if let rate = workload.rate { result.add("rate", "messages asked for", rate, digits: Self.digits(rate), unit: "/s") }
        result.add("mqtt_version", "MQTT", .text(options.version == .v5 ? "5.0" : options.version == .v31 ? "3.1" : "3.1.1"))
        result.add("topics", "topics of a publisher", workload.topicsPerPublisher)
        result.add("inflight", "unacknowledged at most", options.inFlight)
        result.add("window", "on their way at most", workload.window)
        result.add("seconds", "measured for", options.seconds, digits: Self.digits(options.seconds), unit: "s")
        result.add("warmup", "after a warm-up of", options.warmupSeconds, digits: Self.digits(options.warmupSeconds), unit: "s")
        if let user = options.user { result.add("user", "user", .text(user)) }
        result.add("password", "with a password", .flag(options.password != nil))
        result.add("persistent", "sessions outlive connections", .flag(options.keepsSessions))
        result.add("group", "share group", .text(options.group))
        result.add("threads", "threads of the load", options.threads)
        result.add("tls", "TLS", .flag(options.transport.usesTLS))
        result.add("resume", "TLS sessions resumed", .flag(options.transport.resumesSessions))
        result.add("websocket", "WebSocket", .flag(options.transport.usesWebSocket))
        return result.entries
    }

    /// The broker, as a result's object.
    var brokerEntries: [BenchResult.Entry] {
        var result = BenchResult()
        result.add("address", "address", .text(options.brokerAddress))
        if let brokerVersion { result.add("version", "version", .text(brokerVersion)) }
        if let brokerProcess { result.add("process", "process", .text(brokerProcess)) }
        return result.entries
    }

    /// The machine, as a result's object.
    var machineEntries: [BenchResult.Entry] {
        var result = BenchResult()
        if !machine.processor.isEmpty { result.add("processor", "processor", .text(machine.processor)) }
        result.add("processors", "processors that the load may use", machine.processorCount)
        result.add("memory_bytes", "memory", machine.memoryBytes, unit: .bytes())
        if !machine.system.isEmpty { result.add("system", "system", .text(machine.system)) }
        if !machine.kernel.isEmpty { result.add("kernel", "kernel", .text(machine.kernel)) }
        return result.entries
    }

    private static func digits(_ number: Double) -> Int { number.rounded() == number ? 0 : 3 }

    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty
            && word.unicodeScalars.allSatisfy { scalar in
                scalar.value >= 0x80
                    || "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-".unicodeScalars.contains(scalar)
            }
        return isPlain ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
