/// What was measured, in the order in which it is told.
public struct BenchResult: Sendable, Equatable {
    /// A figure with its name in JSON and the words for people.
    public struct Entry: Sendable, Equatable {
        public let name: String
        public let label: String
        public let unit: String
        public let figure: Figure
    }

    public private(set) var entries: [Entry] = []

    mutating func add(_ name: String, _ label: String, _ figure: Figure, unit: String = "") {
        entries.append(Entry(name: name, label: label, unit: unit, figure: figure))
    }

    mutating func add(_ name: String, _ label: String, _ value: Double, digits: Int, unit: String = "") {
        add(name, label, .number(value.isFinite ? value : 0, digits: digits), unit: unit)
    }

    mutating func add(_ name: String, _ label: String, _ value: some BinaryInteger, unit: String = "") {
        add(name, label, .count(Int(clamping: value)), unit: unit)
    }
}

/// One value of a result.
public enum Figure: Sendable, Equatable {
    case text(String)
    case count(Int)
    /// A number with that many digits behind the point.
    case number(Double, digits: Int)
    case group([BenchResult.Entry])
}
