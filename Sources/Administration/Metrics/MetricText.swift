internal import BrokerModel
internal import HTTP

/// The metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics 1.0.
struct MetricText {
    enum Format {
        case prometheus
        case openMetrics

        var mediaType: String {
            switch self {
            case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
            case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
        }
    }

    /// A measurement with the trace that it belongs to.
    struct Exemplar {
        let trace: String
        let seconds: Double
    }

    typealias Labels = [(String, String)]

    private let format: Format
    private var text = ""

    init(_ format: Format) { self.format = format }

    /// All that was written.
    var whole: String { format == .openMetrics ? text + "# EOF\n" : text }

    mutating func gauge(_ name: String, _ help: String, _ samples: [(Labels, Double)]) {
        guard !samples.isEmpty else { return }
        head(name, "gauge", help)
        for (labels, value) in samples { line(name, labels, Self.number(value)) }
    }

    mutating func gauge(_ name: String, _ help: String, _ value: some BinaryInteger) { gauge(name, help, [([], Double(value))]) }

    /// - Parameter name: with `_total` at its end.
    mutating func counter(_ name: String, _ help: String, _ samples: [(Labels, Double)]) {
        guard !samples.isEmpty else { return }
        head(format == .openMetrics ? String(name.dropLast("_total".utf8.count)) : name, "counter", help)
        for (labels, value) in samples { line(name, labels, Self.number(value)) }
    }

    mutating func counter(_ name: String, _ help: String, _ value: some BinaryInteger) {
        counter(name, help, [([], Double(value))])
    }

    /// - Parameter samples: each with an exemplar, which only OpenMetrics has a place for.
    mutating func histogram(_ name: String, _ help: String, _ samples: [(Labels, Histogram, Exemplar?)]) {
        guard !samples.isEmpty else { return }
        head(name, "histogram", help)
        for (labels, histogram, exemplar) in samples {
            var count: UInt64 = 0
            var lower = 0.0
            for bucket in 0...Histogram.boundsMicroseconds.count {
                count += histogram.count(inBucket: bucket)
                let isLast = bucket == Histogram.boundsMicroseconds.count
                let upper = isLast ? Double.infinity : Double(Histogram.boundsMicroseconds[bucket]) / 1_000_000
                let isExemplars = exemplar.map { $0.seconds > lower && $0.seconds <= upper } ?? false
                line(
                    name + "_bucket", labels + [("le", isLast ? "+Inf" : Self.number(upper))], "\(count)",
                    exemplar: isExemplars ? exemplar : nil)
                lower = upper
            }
            line(name + "_sum", labels, Self.number(Double(histogram.sumMicroseconds) / 1_000_000))
            line(name + "_count", labels, "\(count)")
        }
    }

    private mutating func head(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

    private mutating func line(_ name: String, _ labels: Labels, _ value: String, exemplar: Exemplar? = nil) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.0)=\"\(Self.escaped($0.1, quotes: true))\"" }.joined(separator: ",") + "}"
        }
        text += " " + value
        if let exemplar, format == .openMetrics {
            text += " # {trace_id=\"\(exemplar.trace)\"} \(Self.number(exemplar.seconds))"
        }
        text += "\n"
    }

    /// Writes whole numbers without a fraction.
    static func number(_ value: Double) -> String {
        Int64(exactly: value).map { String($0) } ?? "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

/// How many requests there were, and how long they took. By route: what is no route counts as one.
struct RequestCounts {
    struct Kind: Hashable {
        let route: String
        let method: String
        let status: Int
    }

    private(set) var counts: [Kind: UInt64] = [:]
    private(set) var durations: [String: (histogram: Histogram, exemplar: MetricText.Exemplar?)] = [:]

    /// - Parameters:
    ///   - route: the path of the table's row, nil for none.
    ///   - trace: of the field `traceparent`.
    mutating func add(_ route: Route?, _ method: HTTPMethod, _ status: Int, milliseconds: UInt64, trace: String?) {
        let path = route?.path ?? "none"
        let word = route == nil ? "other" : method.rawValue
        counts[Kind(route: path, method: word, status: status), default: 0] += 1
        var (histogram, exemplar) = durations[path] ?? (Histogram(), nil)
        histogram.record(milliseconds * 1000)
        if let trace { exemplar = MetricText.Exemplar(trace: trace, seconds: Double(milliseconds) / 1000) }
        durations[path] = (histogram, exemplar)
    }

    /// The trace that W3C's field names, `00-TRACE-PARENT-FLAGS`; nil for none.
    static func trace(_ field: String?) -> String? {
        let parts = field?.split(separator: "-", omittingEmptySubsequences: false) ?? []
        guard parts.count >= 4, parts[1].utf8.count == 32, parts[1].utf8.allSatisfy(isHexDigit),
            parts[1].utf8.contains(where: { $0 != UInt8(ascii: "0") })
        else { return nil }
        return String(parts[1])
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }
}

/// The names that mosquitto has for what is counted.
extension Administration {
    /// What mosquitto counts, by its names below `$SYS/broker/`, in its order: for its own route and for boards that
    /// are made for it. Nil of a broker that ends.
    public func systemTopics(_ done: @escaping ([(String, UInt64)]?) -> Void) {
        broker.statistics { [self] shards in done(shards.isEmpty ? nil : systemTopics(ShardStatistics.sum(of: shards))) }
    }

    func systemTopics(_ sum: ShardStatistics) -> [(String, UInt64)] {
        systemMaxima.record(sum)
        return systemMaxima.topics(of: sum)
    }
}
