internal import Platform

/// Rows under titles for a person: columns as wide as what stands in them, on a terminal no wider than that. Nothing that the
/// broker's clients have named moves the cursor.
struct TextTable {
    struct Column {
        var title: String
        /// To the right.
        var isNumber = false

        static func text(_ title: String) -> Column { Column(title: title) }
        static func number(_ title: String) -> Column { Column(title: title, isNumber: true) }
    }

    var columns: [Column]
    /// Each with as many cells as there are columns.
    var rows: [[String]] = []

    init(_ columns: [Column]) { self.columns = columns }

    /// The titles and the rows.
    ///
    /// - Parameter width: of the terminal; nil cuts nothing.
    func lines(width: Int?) -> [String] {
        let cells = [columns.map(\.title)] + rows.map { $0.map { TerminalText.line($0) } }
        let widths = widths(of: cells, in: width)
        return cells.map { row in
            var line = ""
            for (index, cell) in row.enumerated() where widths[index] > 0 {
                let text = TerminalText.shortened(cell, widths[index])
                let padding = String(repeating: " ", count: widths[index] - TerminalText.columns(of: text))
                let isLast = index == row.count - 1
                line += columns[index].isNumber ? padding + text : text + (isLast ? "" : padding)
                if !isLast { line += "  " }
            }
            return width.map { TerminalText.cut(line, to: $0) } ?? line
        }
    }

    /// The widest column of text gives way, then the next; numbers keep theirs.
    private func widths(of cells: [[String]], in width: Int?) -> [Int] {
        var widths = columns.indices.map { index in cells.map { TerminalText.columns(of: $0[index]) }.max() ?? 0 }
        guard let width else { return widths }
        var excess = widths.reduce(2 * (widths.count - 1), +) - width
        while excess > 0 {
            let shrinkable = widths.indices.filter { !columns[$0].isNumber && widths[$0] > Self.narrowest }
            guard let widest = shrinkable.max(by: { widths[$0] < widths[$1] }) else { break }
            let next = shrinkable.map { widths[$0] }.filter { $0 < widths[widest] }.max() ?? Self.narrowest
            let step = min(excess, widths[widest] - max(next, Self.narrowest))
            widths[widest] -= max(1, step)
            excess -= max(1, step)
        }
        return widths
    }

    /// Columns of text that are always left.
    private static let narrowest = 8
}

/// Names and what is to be said of them, one below the other.
struct FactList {
    private var facts: [(name: String, value: String)] = []

    /// Without a value it is left out.
    mutating func add(_ name: String, _ value: String?) {
        if let value { facts.append((name, value)) }
    }

    func lines(width: Int?) -> [String] {
        let nameWidth = facts.map { TerminalText.columns(of: $0.name) }.max() ?? 0
        return facts.map { name, value in
            let line =
                name + String(repeating: " ", count: nameWidth - TerminalText.columns(of: name) + 2) + TerminalText.line(value)
            return width.map { TerminalText.shortened(line, $0) } ?? line
        }
    }
}
