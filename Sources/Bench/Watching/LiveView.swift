internal import Glibc
internal import Platform

/// Shows on standard error how a run goes: on a terminal in place, once or more a second; elsewhere as lines, a minute's worth at most.
///
/// On a terminal the cursor stays behind the last line that is shown, and nothing of the terminal is changed: a run that is ended by a
/// signal leaves its last figures, and the prompt below them.
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
    func tell(_ text: @autoclosure () -> String) {
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
