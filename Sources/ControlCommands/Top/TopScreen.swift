internal import Glibc
internal import Platform

/// The terminal of `martlet ctl top`: asks, draws and reads keys, until a key or a signal ends it. What it changes of the terminal
/// is put back, also after Ctrl-Z and a crash.
public struct TopScreen {
    private let look: TerminalScreen
    private let control: Control
    private let intervalMilliseconds: UInt64

    /// nil where standard input or output is no terminal.
    public init?(_ control: Control, intervalMilliseconds: UInt64) {
        guard isatty(0) == 1, let look = TerminalScreen(1) else { return nil }
        (self.look, self.control, self.intervalMilliseconds) = (look, control, intervalMilliseconds)
    }

    /// Throws only when the first question has no answer.
    public func run(_ first: TopModel) throws(ControlError) {
        var model = first
        try control.refresh(&model, rows: TerminalScreen.size(of: 1).rows, at: MonotonicClock.milliseconds())
        guard TerminalMode.takeOver() else { throw ControlError(.refused, "This terminal does not support full-screen output.") }
        defer { TerminalMode.giveBack() }
        Self.handleSignals()
        var keys = KeyReader()
        var next = MonotonicClock.milliseconds() + intervalMilliseconds
        while true {
            draw(model)
            guard let pressed = wait(until: next, &keys) else { return }
            var asks = !model.isPaused && MonotonicClock.milliseconds() >= next
            for key in pressed {
                switch model.press(key) {
                case .end: return
                case .ask: asks = true
                case .nothing: break
                }
            }
            guard asks else {
                if MonotonicClock.milliseconds() >= next { next = MonotonicClock.milliseconds() + intervalMilliseconds }
                continue
            }
            do throws(ControlError) {
                try control.refresh(&model, rows: TerminalScreen.size(of: 1).rows, at: MonotonicClock.milliseconds())
            } catch {
                model.take(error)
            }
            next = MonotonicClock.milliseconds() + intervalMilliseconds
        }
    }

    /// The keys that are pressed before that time, as soon as there are some; nil when the terminal has gone.
    private func wait(until time: UInt64, _ reader: inout KeyReader) -> [TerminalKey]? {
        var entry = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        let now = MonotonicClock.milliseconds()
        guard poll(&entry, 1, now < time ? Int32(clamping: min(time - now, Self.keyPauseMilliseconds)) : 0) > 0 else {
            return reader.take([], isPause: true)
        }
        let bytes = [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
            count = max(0, read(0, buffer.baseAddress, buffer.count))
        }
        return bytes.isEmpty ? nil : reader.take(bytes, isPause: false)
    }

    private func draw(_ model: TopModel) {
        let (columns, rows) = TerminalScreen.size(of: 1)
        var text = "\u{1b}[H"
        for (index, line) in model.lines(columns: columns, rows: rows).prefix(rows).enumerated() {
            let spans = look.isUnicode ? line : line.map { StyledText(Self.ascii($0.text), $0.look) }
            text += spans.map { look.isColored ? $0.colored : $0.text }.joined() + "\u{1b}[K" + (index < rows - 1 ? "\r\n" : "")
        }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }

    private static func ascii(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isASCII ? $0 : "?" }))
    }

    /// Everything that is called here is safe in a signal handler.
    private static func handleSignals() {
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal(number) { number in
                TerminalMode.giveBack()
                _exit(128 + number)
            }
        }
        signal(SIGTSTP) { _ in
            TerminalMode.giveBack()
            raise(SIGSTOP)
            _ = TerminalMode.takeOver()
        }
        signal(SIGWINCH) { _ in }
    }

    /// An escape that nothing follows for so long is the key.
    private static let keyPauseMilliseconds: UInt64 = 250
}
