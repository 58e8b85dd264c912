/// Text that others have written, as a piece of one line of a terminal: nothing in it moves the cursor, changes colours or turns the direction
/// of writing.
public enum TerminalText {
    /// Control characters as blanks or their pictures; cut with `…`.
    public static func line(_ text: String, columns: Int) -> String {
        // Three quarters of a long text are never looked at.
        shortened(safe(text.unicodeScalars.prefix(columns * 4 + 4)), columns)
    }

    /// The whole text, control characters as blanks or their pictures.
    public static func line(_ text: String) -> String { safe(text.unicodeScalars[...]) }

    /// The same of bytes; what is no UTF-8 becomes U+FFFD.
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
