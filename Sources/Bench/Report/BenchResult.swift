/// What was measured, in the order in which it is told.
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
