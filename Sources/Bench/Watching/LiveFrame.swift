/// What the view shows at one moment: a value, so that its lines can be looked at without a terminal.
///
/// ```
/// fanout ─► 127.0.0.1:1883, martlet version 0.2.0
/// measuring    ██████████████████████░░░░░░░░░░░░░░░░░░  2.8 of 5 s
/// delivered    43.3 M/s    ▅▆▇▇█▇▇▇▇▆▇
/// published    433 k/s
/// latency      p50 1.21 ms   p99 3.40 ms
/// ```
struct LiveFrame {
    var title: String
    var stage: String
    /// How much of the stage is over, 0 to 1; nil if nobody knows.
    var fraction: Double?
    /// The same in words.
    var extent = ""
    /// The first is the rate.
    var figures: [(label: String, value: String)] = []
    /// The rates so far, oldest first.
    var rates: [Double] = []
    /// Something that should not be.
    var alarm: String?

    init(title: String, stage: String) { (self.title, self.stage) = (title, stage) }

    /// A part of a line, and how it stands out.
    struct Span: Equatable {
        enum Look { case plain, strong, faint, bar, alarm }
        var text: String
        var look = Look.plain
    }

    /// The lines of a terminal that has so many columns.
    ///
    /// - Parameter isUnicode: whether the terminal has more than ASCII.
    func lines(columns: Int, isUnicode: Bool) -> [[Span]] {
        var lines = [[Span(text: title, look: .strong)]]
        var head = [Span(text: padded(stage), look: .faint)]
        if let fraction {
            let length = max(8, min(40, columns - Self.labelColumns - extent.count - 3))
            let full = Int((max(0, min(1, fraction)) * Double(length)).rounded())
            head.append(Span(text: String(repeating: isUnicode ? "█" : "#", count: full), look: .bar))
            head.append(Span(text: String(repeating: isUnicode ? "░" : "-", count: length - full), look: .faint))
            head.append(Span(text: "  " + extent))
        }
        lines.append(head)
        for (index, figure) in figures.enumerated() {
            var line = [Span(text: padded(figure.label), look: .faint), Span(text: figure.value, look: .strong)]
            if index == 0, isUnicode, rates.count > 1 {
                line.append(Span(text: String(repeating: " ", count: max(1, 12 - figure.value.count)) + spark, look: .bar))
            }
            lines.append(line)
        }
        if let alarm { lines.append([Span(text: alarm, look: .alarm)]) }
        return lines.map { Self.cut($0, to: columns - 1) }
    }

    /// The same in one line for a log.
    var plain: String {
        let told = figures.map { "\($0.label) \($0.value)" } + (alarm.map { [$0] } ?? [])
        return "\(stage)\(extent.isEmpty ? "" : ", \(extent)"): \(told.joined(separator: ", "))"
    }

    private var spark: String {
        let top = rates.max() ?? 0
        guard top > 0 else { return "" }
        return String(rates.map { Self.steps[min(7, Int($0 / top * 7.999))] })
    }

    private func padded(_ label: String) -> String {
        label + String(repeating: " ", count: max(1, Self.labelColumns - label.count))
    }

    /// A line that is longer than the terminal is wide would be two, and the next frame not stand where this one stood.
    private static func cut(_ line: [Span], to columns: Int) -> [Span] {
        var left = max(0, columns)
        return line.compactMap { span in
            guard left > 0 else { return nil }
            let text = String(span.text.prefix(left))
            left -= text.count
            return Span(text: text, look: span.look)
        }
    }

    private static let labelColumns = 13
    private static let steps: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
}
