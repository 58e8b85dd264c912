extension BenchResult {
    /// The result for people: a line for each figure.
    public var table: String {
        let width = entries.map(\.label.count).max() ?? 0
        return entries.map { entry in
            let padding = String(repeating: " ", count: width - entry.label.count)
            return "  \(entry.label)\(padding)  \(Self.words(entry))"
        }.joined(separator: "\n")
    }

    private static func words(_ entry: Entry) -> String {
        let unit = entry.unit.isEmpty ? "" : " \(entry.unit)"
        switch entry.figure {
        case .text(let text): return text + unit
        case .count(let count): return count.groupedText + unit
        case .number(let number, let digits): return number.decimalText(digits: digits) + unit
        case .group(let entries): return entries.map { "\($0.label) \(words($0))" }.joined(separator: "  ") + unit
        }
    }
}
