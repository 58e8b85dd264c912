internal import BrokerModel
internal import HTTP

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
