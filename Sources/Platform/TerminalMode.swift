internal import Glibc

/// The state of the terminal while a program draws on it: no echo, keys without Enter, the alternate screen, no cursor.
///
/// One for the process, because a crash must find what to put back. The lock is the caller's.
public enum TerminalMode {
    /// What was there before. Written while no crash handler is set, read by the handler.
    nonisolated(unsafe) private static var before = termios()
    nonisolated(unsafe) private static var isTaken = false

    /// Returns whether it was possible.
    public static func takeOver() -> Bool {
        guard !isTaken, tcgetattr(0, &before) == 0 else { return isTaken }
        var mode = before
        mode.c_lflag &= ~tcflag_t(ICANON | ECHO)
        guard tcsetattr(0, TCSADRAIN, &mode) == 0 else { return false }
        isTaken = true
        for number in crashes {
            signal(number) { number in
                TerminalMode.giveBack()
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        put("\u{1b}[?1049h\u{1b}[?25l\u{1b}[H\u{1b}[2J")
        return true
    }

    /// Safe in a signal handler.
    public static func giveBack() {
        guard isTaken else { return }
        isTaken = false
        put("\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l")
        tcsetattr(0, TCSADRAIN, &before)
    }

    private static func put(_ text: StaticString) { _ = write(1, text.utf8Start, text.utf8CodeUnitCount) }

    private static let crashes = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGTRAP, SIGFPE]
}
