internal import BrokerModel

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

    /// Whole numbers without a fraction.
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
