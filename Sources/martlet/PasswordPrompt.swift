import Commands
import Glibc
import MartletServer

/// Asks the person at the terminal for a password.
enum PasswordPrompt {
    /// A new password: typed twice at a terminal, or one line of whatever standard input is instead.
    static func newPassword() throws -> String {
        guard isatty(STDIN_FILENO) == 1 else { return try password() }
        let first = try ask("Password: ")
        let second = try ask("Reenter password: ")
        guard first == second else { throw complaint("the passwords do not match; nothing is changed.") }
        return first
    }

    /// One that is there already: typed once at a terminal, or one line of whatever standard input is instead.
    static func password() throws -> String {
        guard isatty(STDIN_FILENO) == 1 else {
            guard let line = readLine(strippingNewline: true) else { throw complaint("standard input ends without a password.") }
            return line
        }
        return try ask("Password: ")
    }

    /// One line, which the terminal does not show while it is typed.
    private static func ask(_ prompt: String) throws -> String {
        var shown = termios()
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else {
            throw complaint("the terminal's echo cannot be switched off.")
        }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else {
            throw complaint("the terminal's echo cannot be switched off.")
        }
        // An interrupt at the prompt must not leave the terminal mute: it ends the read, and the command after the
        // terminal is as before.
        var interrupted = sigaction()
        interrupted.__sigaction_handler.sa_handler = { _ in }
        var before = sigaction()
        sigaction(SIGINT, &interrupted, &before)
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            sigaction(SIGINT, &before, nil)
            Console.complain("")
        }
        Console.prompt(prompt)
        guard let line = readTypedLine() else { throw complaint("no password was typed.") }
        return line
    }

    /// Reads what is typed, up to the end of the line; nil after an interrupt, or at the end of the input.
    private static func readTypedLine() -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(STDIN_FILENO, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }

    private static func complaint(_ message: String) -> ExitCode {
        Console.complain("Error: \(message)")
        return ExitCode(1)
    }
}

/// Lines to the person at the terminal.
enum Console {
    static func say(_ line: String) { write(line, to: 1) }

    /// To standard error.
    static func complain(_ line: String) { write(marked(line), to: 2) }

    /// The line with its severity in a colour, where somebody sees it.
    private static func marked(_ line: String) -> String {
        guard Terminal.supportsColour(2) else { return line }
        for (word, colour) in [("Error:", Terminal.Colour.red), ("Warning:", .yellow)] where line.hasPrefix(word) {
            return Terminal.coloured(word, colour) + line.dropFirst(word.count)
        }
        return line
    }

    /// To standard error, and the cursor stays behind it.
    static func prompt(_ text: String) { put(text, to: 2) }

    private static func write(_ line: String, to descriptor: Int32) {
        put(line + "\n", to: descriptor)
    }

    /// The text as it is. What does not go out is lost: whoever read it has gone.
    static func put(_ text: String, to descriptor: Int32) { put(Array(text.utf8), to: descriptor) }

    static func put(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }
}
