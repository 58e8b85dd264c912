internal import Glibc
internal import Platform

/// One line on the terminal that is written over each second. Silent when standard error is no terminal.
final class ProgressLine {
    private let isShown: Bool
    private var lastShown: UInt64 = 0
    private var isDirty = false

    init(isQuiet: Bool) {
        isShown = !isQuiet && isatty(2) == 1
    }

    /// Shows the text if the last is a second old.
    func show(_ text: @autoclosure () -> String) {
        guard isShown else { return }
        let now = MonotonicClock.nanoseconds()
        guard now - lastShown >= 1_000_000_000 else { return }
        lastShown = now
        isDirty = true
        write("\r\u{1b}[K" + text())
    }

    /// Wipes it.
    func clear() {
        guard isDirty else { return }
        isDirty = false
        write("\r\u{1b}[K")
    }

    private func write(_ text: String) {
        var text = text
        text.withUTF8 { _ = Glibc.write(2, $0.baseAddress, $0.count) }
    }
}
