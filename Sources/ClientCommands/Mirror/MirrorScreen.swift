internal import Glibc
internal import MartletClient
internal import Platform

/// The terminal of `martlet mirror`: draws the model some times a second on the alternate screen, and hands it keys.
///
/// What it changes of the terminal is put back when it leaves, whoever calls: the end of the command, a signal, Ctrl-Z, or a crash.
final class MirrorScreen: Sendable {
    private struct State {
        var model: MirrorModel
        var isEntered = false
        var isSuspended = false
    }

    private let state: Locked<State>
    private let look: TerminalScreen
    private let thread = Locked<NamedThread?>(nil)

    /// nil where standard output or standard input is no terminal, or lines are wanted.
    init?(_ arguments: ClientArguments) {
        guard arguments.output == .payload, !arguments.isDebugging, isatty(0) == 1, let look = TerminalScreen(1) else { return nil }
        self.look = look
        let filters = arguments.filters.map { "\($0)" }.joined(separator: " ")
        state = Locked(State(model: MirrorModel(title: "\(filters) on \(arguments.place)")))
    }

    /// Whether the tree is shown.
    var isShown: Bool { state.withLock(\.isEntered) }

    /// Takes the terminal. `ending` hears when a key ends it.
    func enter(endingWith ending: Ending) {
        guard !ending.hasEnded else { return }
        state.withLock { state in
            guard TerminalMode.takeOver() else { return }
            state.isEntered = true
        }
        guard isShown else { return }
        draw()
        thread.replace(with: try? NamedThread.start(name: "screen") { [self] in watchKeys(ending) })
    }

    /// Gives the terminal back. A second call does nothing.
    func leave() {
        state.withLock { state in
            guard state.isEntered else { return }
            state.isEntered = false
            TerminalMode.giveBack()
        }
    }

    /// SIGWINCH, SIGTSTP or SIGCONT came.
    func handle(_ number: Int32) {
        switch number {
        case SIGTSTP:
            state.withLock { state in
                if state.isEntered { TerminalMode.giveBack() }
                state.isSuspended = state.isEntered
            }
            raise(SIGSTOP)
            resume()
        case SIGCONT: resume()
        default: draw()
        }
    }

    private func resume() {
        state.withLock { state in
            if state.isSuspended, state.isEntered { _ = TerminalMode.takeOver() }
            state.isSuspended = false
        }
        draw()
    }

    func take(_ message: ReceivedMessage) {
        let payload = Array(message.payload.prefix(TopicTree.payloadBytesMax))
        let arrival = TopicTree.Arrival(
            topic: message.topic, payload: payload, qos: message.qos.rawValue, isRetained: message.retain)
        let now = MonotonicClock.milliseconds()
        state.withLock { $0.model.take(arrival, at: now) }
    }

    func show(_ connection: ConnectionState) {
        let status: String =
            switch connection {
            case .online: ""
            case .connecting: "connecting"
            case .waiting(_, let error): "no connection: \(error)"
            case .offline, .refused, .ended: "no connection"
            }
        state.withLock { $0.model.status = PayloadText.line(Array(status.utf8), columns: 200).replacingEmpty(status) }
    }

    // MARK: The thread that reads keys

    private func watchKeys(_ ending: Ending) {
        var reader = KeyReader()
        var pause = Self.framePauseMilliseconds
        while isShown, !ending.hasEnded {
            var entry = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
            let isPressed = poll(&entry, 1, Int32(pause)) > 0
            var keys: [TerminalKey] = []
            if isPressed {
                let bytes = [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
                    count = max(0, read(0, buffer.baseAddress, buffer.count))
                }
                // The terminal has gone.
                if bytes.isEmpty, entry.revents & Int16(POLLIN) == 0 || entry.revents & Int16(POLLHUP) != 0 {
                    ending.end(.signal(SIGHUP))
                    return
                }
                keys = reader.take(bytes, isPause: false)
            } else {
                keys = reader.take([], isPause: true)
            }
            let rows = TerminalScreen.size(of: 1).rows
            for key in keys where state.withLock({ $0.model.press(key, rows: rows) }) == .end {
                ending.end(.done)
                return
            }
            let start = MonotonicClock.milliseconds()
            draw()
            // A large tree takes its time; no more than a third of it goes into drawing.
            pause = max(Self.framePauseMilliseconds, 2 * Int(MonotonicClock.milliseconds() - start))
        }
    }

    private func draw() {
        let (columns, rows) = TerminalScreen.size(of: 1)
        let now = MonotonicClock.milliseconds()
        state.withLock { state in
            guard state.isEntered, !state.isSuspended else { return }
            let lines = state.model.lines(columns: columns, rows: rows, at: now, isUnicode: look.isUnicode)
            var text = "\u{1b}[H"
            for (index, line) in lines.prefix(rows).enumerated() {
                text += line.map { look.isColored ? $0.colored : $0.text }.joined() + "\u{1b}[K"
                if index < min(rows, lines.count) - 1 { text += "\r\n" }
            }
            _ = CommandConsole.write(Array(text.utf8), to: 1)
        }
    }

    private static let framePauseMilliseconds = 100
}

extension String {
    fileprivate func replacingEmpty(_ original: String) -> String { original.isEmpty ? "" : self }
}
