internal import CLinux
internal import Glibc

/// Text that others have written, as a piece of one line of a terminal: nothing in it moves the cursor, changes colours
/// or turns the direction of writing.
public enum TerminalText {
    /// Control characters as blanks or their pictures; cut with `…`.
    public static func line(_ text: String, columns: Int) -> String {
        // Three quarters of a long text are never looked at.
        shortened(safe(text.unicodeScalars.prefix(columns * 4 + 4)), columns)
    }

    /// The whole text, control characters as blanks or their pictures.
    public static func line(_ text: String) -> String { safe(text.unicodeScalars[...]) }

    /// Makes bytes a piece of one line; what is no UTF-8 becomes U+FFFD.
    public static func line(_ bytes: some Collection<UInt8>) -> [UInt8] {
        bytes.allSatisfy { (32..<127).contains($0) } ? Array(bytes) : Array(line(String(decoding: bytes, as: UTF8.self)).utf8)
    }

    /// Text of several lines: their ends and tabs stay; what is no UTF-8 becomes U+FFFD.
    public static func lines(_ bytes: some Collection<UInt8>) -> [UInt8] {
        // Most text is printable ASCII.
        if bytes.allSatisfy({ (32..<127).contains($0) || $0 == 10 }) { return Array(bytes) }
        let scalars = String(decoding: bytes, as: UTF8.self).unicodeScalars.map { $0 == "\n" || $0 == "\t" ? $0 : safe($0) }
        return Array(String(String.UnicodeScalarView(scalars)).utf8)
    }

    /// JSON, where what would do something to the terminal is escaped: the same JSON.
    public static func json(_ bytes: some Collection<UInt8>) -> [UInt8] {
        if bytes.allSatisfy({ $0 < 127 }) { return Array(bytes) }
        var text = ""
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            if scalar.value < 127 || isSafe(scalar) {
                text.unicodeScalars.append(scalar)
            } else {
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            }
        }
        return Array(text.utf8)
    }

    private static func safe(_ scalars: Substring.UnicodeScalarView) -> String {
        String(String.UnicodeScalarView(scalars.map { safe($0) }))
    }

    /// Whether a terminal would show something else than the character.
    public static func isSafe(_ scalar: UnicodeScalar) -> Bool { safe(scalar) == scalar }

    private static func safe(_ scalar: UnicodeScalar) -> UnicodeScalar {
        switch scalar.value {
        case 9, 10, 13: " "
        case 0..<32: UnicodeScalar(0x2400 + scalar.value) ?? "?"
        case 127: "\u{2421}"
        case 128..<160, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF, 0x061C, 0xE0000...0xE007F: "\u{FFFD}"
        default: scalar
        }
    }

    /// Cut with `…` if it has more columns.
    public static func shortened(_ text: String, _ columns: Int) -> String {
        Self.columns(of: text) <= columns ? text : cut(text, to: max(0, columns - 1)) + "…"
    }

    /// The beginning that has so many columns.
    public static func cut(_ text: String, to columns: Int) -> String {
        var left = columns
        var end = text.startIndex
        for index in text.indices {
            let width = width(of: text[index])
            guard width <= left else { break }
            left -= width
            end = text.index(after: index)
        }
        return String(text[..<end])
    }

    public static func columns(of text: String) -> Int {
        // Most lines are ASCII.
        text.utf8.count == text.unicodeScalars.count ? text.utf8.count : text.reduce(0) { $0 + width(of: $1) }
    }

    /// East Asian and pictures take two columns.
    private static func width(of character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first else { return 0 }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return character.unicodeScalars.contains { $0.value == 0xFE0F } ? 2 : 1
        }
    }
}

/// A part of a line, and how it stands out.
public struct StyledText: Equatable, Sendable {
    public enum Look: Sendable {
        case plain, strong, faint
        /// What has just changed.
        case fresh
        /// That the broker keeps the message.
        case mark
    }

    public var text: String
    public var look: Look

    public init(_ text: String, _ look: Look = .plain) { (self.text, self.look) = (text, look) }

    /// A line that is longer than the terminal is wide would be two.
    public static func cut(_ line: [StyledText], to columns: Int) -> [StyledText] {
        var left = max(0, columns)
        return line.compactMap { span in
            guard left > 0, !span.text.isEmpty else { return nil }
            let text = TerminalText.cut(span.text, to: left)
            left -= TerminalText.columns(of: text)
            return StyledText(text, span.look)
        }
    }

    /// The sequences of ECMA-48 around the text.
    public var colored: String {
        switch look {
        case .plain: text
        case .strong: "\u{1b}[1m\(text)\u{1b}[0m"
        case .faint: "\u{1b}[2m\(text)\u{1b}[0m"
        case .fresh: "\u{1b}[1;32m\(text)\u{1b}[0m"
        case .mark: "\u{1b}[33m\(text)\u{1b}[0m"
        }
    }
}

/// A key of a terminal that was pressed.
public enum TerminalKey: Equatable, Sendable {
    case up, down, left, right, pageUp, pageDown, home, end, escape, backspace
    /// Ctrl-C.
    case interrupt
    case character(Character)
}

/// Makes keys of what a terminal sends.
public struct KeyReader {
    private var rest: [UInt8] = []

    public init() {}

    /// Takes bytes.
    ///
    /// - Parameters:
    ///   - bytes: what the terminal has sent.
    ///   - isPause: nothing followed them for a moment: an escape that stands alone is the key, not the begin of a
    ///     sequence.
    public mutating func take(_ bytes: some Sequence<UInt8>, isPause: Bool) -> [TerminalKey] {
        rest += bytes
        var keys: [TerminalKey] = []
        while let first = rest.first {
            guard let (key, count) = next(first, isPause: isPause) else { break }
            rest.removeFirst(count)
            if let key { keys.append(key) }
        }
        return keys
    }

    /// The key at the front and how many bytes it takes; nil if more are to come.
    private func next(_ first: UInt8, isPause: Bool) -> (TerminalKey?, Int)? {
        switch first {
        case 0x1B: sequence(isPause: isPause)
        case 3: (.interrupt, 1)
        case 8, 127: (.backspace, 1)
        case 10, 13: (.character("\n"), 1)
        case 0..<32: (nil, 1)
        default: character(first, isPause: isPause)
        }
    }

    /// `ESC [ A`, `ESC O A`, `ESC [ 5 ~`.
    private func sequence(isPause: Bool) -> (TerminalKey?, Int)? {
        guard rest.count > 1 else { return isPause ? (.escape, 1) : nil }
        guard rest[1] == UInt8(ascii: "[") || rest[1] == UInt8(ascii: "O") else { return (.escape, 1) }
        guard let end = rest[2...].firstIndex(where: { (0x40...0x7E).contains($0) }) else {
            return isPause || rest.count > Self.longestSequence ? (nil, rest.count) : nil
        }
        let parameter = String(decoding: rest[2..<end], as: UTF8.self)
        let key: TerminalKey? =
            switch (Character(UnicodeScalar(rest[end])), parameter) {
            case ("A", _): .up
            case ("B", _): .down
            case ("C", _): .right
            case ("D", _): .left
            case ("H", _), ("~", "1"), ("~", "7"): .home
            case ("F", _), ("~", "4"), ("~", "8"): .end
            case ("~", "5"): .pageUp
            case ("~", "6"): .pageDown
            default: nil
            }
        return (key, end + 1)
    }

    private func character(_ first: UInt8, isPause: Bool) -> (TerminalKey?, Int)? {
        guard first < 0x80 || (0xC2..<0xF5).contains(first) else { return (nil, 1) }
        let count = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
        guard rest.count >= count else { return isPause ? (nil, rest.count) : nil }
        guard let text = String(validating: rest[..<count], as: UTF8.self), let character = text.first else { return (nil, 1) }
        return (.character(character), count)
    }

    /// Bytes; what is longer is no key that is known.
    private static let longestSequence = 32
}

/// The state of the terminal while a program draws on it: no echo, keys without Enter, the alternate screen, no cursor.
///
/// One for the process, because a crash must find what to put back. The lock is the caller's.
public enum TerminalMode {
    /// What was there before. Written while no crash handler is set, read by the handler.
    nonisolated(unsafe) private static var before = termios()
    nonisolated(unsafe) private static var isTaken = false

    /// Returns whether it was possible.
    public static func enter() -> Bool {
        guard !isTaken, tcgetattr(0, &before) == 0 else { return isTaken }
        var mode = before
        mode.c_lflag &= ~tcflag_t(ICANON | ECHO)
        guard tcsetattr(0, TCSADRAIN, &mode) == 0 else { return false }
        isTaken = true
        for number in crashes {
            signal(number) { number in
                TerminalMode.leave()
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        put("\u{1b}[?1049h\u{1b}[?25l\u{1b}[H\u{1b}[2J")
        return true
    }

    /// Safe in a signal handler.
    public static func leave() {
        guard isTaken else { return }
        isTaken = false
        put("\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l")
        tcsetattr(0, TCSADRAIN, &before)
    }

    private static func put(_ text: StaticString) { _ = write(1, text.utf8Start, text.utf8CodeUnitCount) }

    private static let crashes = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGTRAP, SIGFPE]
}

/// What a terminal can show, and what its user wants: `NO_COLOR`, `TERM` and the locale are obeyed.
public struct TerminalScreen: Equatable, Sendable {
    public let isColored: Bool
    /// Whether it shows more than ASCII.
    public let isUnicode: Bool

    /// nil where the descriptor is no terminal, or one that cannot move its cursor.
    public init?(_ descriptor: Int32) {
        guard isatty(descriptor) == 1, Self.variable("TERM") != "dumb" else { return nil }
        let locale = [Self.variable("LC_ALL"), Self.variable("LC_CTYPE"), Self.variable("LANG")].first { !$0.isEmpty } ?? ""
        isUnicode = locale.lowercased().holds("utf-8") || locale.lowercased().holds("utf8")
        isColored = Self.variable("NO_COLOR").isEmpty
    }

    /// How large it is; 80 × 24 where nobody knows.
    public static func size(of descriptor: Int32) -> (columns: Int, rows: Int) {
        let (columns, rows) = (Int(linux_terminal_columns(descriptor)), Int(linux_terminal_rows(descriptor)))
        return (columns > 0 ? columns : 80, rows > 0 ? rows : 24)
    }

    private static func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
}
