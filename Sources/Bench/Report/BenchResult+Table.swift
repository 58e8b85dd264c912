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
