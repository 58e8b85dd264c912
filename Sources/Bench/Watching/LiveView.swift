internal import Glibc
internal import Platform

/// Shows on standard error how a run goes: on a terminal in place, once or more a second; elsewhere as lines, a
/// minute's worth at most.
///
/// On a terminal the cursor stays behind the last line that is shown, and nothing of the terminal is changed: a run
/// that is ended by a signal leaves its last figures, and the prompt below them.
final class LiveView {
    enum Form: Equatable {
        case silent
        /// A line now and then.
        case lines
        case terminal(isColored: Bool, isUnicode: Bool)
    }

    /// The first line on a terminal.
    var title = ""
    private let form: Form
    private let write: (String) -> Void
    private let columns: () -> Int
    private let lineSeconds: Double
    private var lineCount = 0
    private var lastShown: UInt64 = 0

    /// - Parameters:
    ///   - form: how to show it.
    ///   - seconds: how long the run is to take, which decides how often there is a line.
    ///   - columns: the width of the terminal.
    ///   - write: puts text out.
    init(
        _ form: Form, seconds: Double, columns: @escaping () -> Int = LiveView.terminalColumns,
        write: @escaping (String) -> Void = LiveView.writeToStandardError
    ) {
        (self.form, self.columns, self.write) = (form, columns, write)
        lineSeconds = max(1, seconds / Self.linesMax)
        if case .terminal = form { Self.leaveLineOnSignal() }
    }

    /// What standard error can show, and what its user wants: `NO_COLOR`, `TERM` and the locale are obeyed.
    static func form(isQuiet: Bool) -> Form {
        if isQuiet { return .silent }
        guard let screen = TerminalScreen(2) else { return .lines }
        return .terminal(isColored: screen.isColored, isUnicode: screen.isUnicode)
    }

    var isShown: Bool { form != .silent }

    func show(_ frame: LiveFrame) {
        switch form {
        case .silent: break
        case .lines: if isDue(lineSeconds) { write(frame.plain + "\n") }
        case .terminal(let isColored, let isUnicode):
            draw(frame.lines(columns: columns(), isUnicode: isUnicode), isColored: isColored)
        }
    }

    /// Shows words, not more often than can be read.
    func show(_ text: @autoclosure () -> String) {
        switch form {
        case .silent: break
        case .lines: if isDue(lineSeconds) { write(text() + "\n") }
        case .terminal(let isColored, let isUnicode):
            guard isDue(Self.reportSeconds) else { return }
            draw(LiveFrame(title: title, stage: text()).lines(columns: columns(), isUnicode: isUnicode), isColored: isColored)
        }
    }

    /// Wipes what is shown on a terminal.
    func clear() {
        guard lineCount > 0 else { return }
        write(home + "\u{1b}[J")
        lineCount = 0
    }

    /// To the beginning of the first line that was drawn.
    private var home: String { "\r" + (lineCount > 1 ? "\u{1b}[\(lineCount - 1)A" : "") }

    private func draw(_ lines: [[LiveFrame.Span]], isColored: Bool) {
        let text = lines.map { line in line.map { Self.text($0, isColored: isColored) }.joined() + "\u{1b}[K" }.joined(
            separator: "\n")
        write(home + text + "\u{1b}[J")
        lineCount = lines.count
    }

    private static func text(_ span: LiveFrame.Span, isColored: Bool) -> String {
        guard isColored else { return span.text }
        switch span.look {
        case .plain: return span.text
        case .strong: return "\u{1b}[1m\(span.text)\u{1b}[0m"
        case .faint: return "\u{1b}[2m\(span.text)\u{1b}[0m"
        case .bar: return "\u{1b}[36m\(span.text)\u{1b}[0m"
        case .alarm: return "\u{1b}[1;31m\(span.text)\u{1b}[0m"
        }
    }

    private func isDue(_ seconds: Double) -> Bool {
        let now = MonotonicClock.nanoseconds()
        if lastShown == 0, form == .lines { lastShown = now }
        guard now &- lastShown >= UInt64(seconds * 0.98e9) else { return false }
        lastShown = now
        return true
    }

    static func terminalColumns() -> Int { TerminalScreen.size(of: 2).columns }

    static func writeToStandardError(_ text: String) {
        var text = text
        text.withUTF8 { _ = Glibc.write(2, $0.baseAddress, $0.count) }
    }

    /// A run that a signal ends leaves the cursor in a line of its own; then the signal does what it does.
    private static func leaveLineOnSignal() {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            var before = sigaction()
            guard sigaction(number, nil, &before) == 0, unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self) == 0
            else {
                continue
            }
            signal(number) { number in
                let line: StaticString = "\u{1b}[0m\n"
                _ = Glibc.write(2, line.utf8Start, line.utf8CodeUnitCount)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }

    private static let linesMax = 60.0
    private static let reportSeconds = 0.1
}

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
    /// The progress in words.
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

    /// The view as one line, for a log.
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
