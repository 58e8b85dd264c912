/// A payload as a piece of one line: nothing in it moves the cursor or changes colours.
enum PayloadText {
    /// Text as it is, control characters as blanks or their pictures, bytes that are no text as hexadecimal digits; cut with `…`.
    static func line(_ payload: [UInt8], columns: Int) -> String {
        guard !payload.isEmpty else { return "(empty)" }
        guard let text = text(payload) else {
            let digits = payload.prefix(columns / 2 + 1).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            return shortened("0x" + digits.joined(), columns)
        }
        // Three quarters of a long payload are never looked at.
        let shown = text.unicodeScalars.prefix(columns * 4 + 4).map { safe($0) }
        return shortened(String(String.UnicodeScalarView(shown)), columns)
    }

    /// nil for bytes that are no text. A character that is cut at the end is left out.
    private static func text(_ payload: [UInt8]) -> String? {
        if let text = String(validating: payload, as: UTF8.self) { return text }
        guard payload.count == TopicTree.payloadBytesMax else { return nil }
        for missing in 1...3 {
            if let text = String(validating: payload.dropLast(missing), as: UTF8.self) { return text }
        }
        return nil
    }

    private static func safe(_ scalar: UnicodeScalar) -> UnicodeScalar {
        switch scalar.value {
        case 9, 10, 13: " "
        case 0..<32: UnicodeScalar(0x2400 + scalar.value) ?? "?"
        case 127: "\u{2421}"
        case 128..<160, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF: "\u{FFFD}"
        default: scalar
        }
    }

    private static func shortened(_ text: String, _ columns: Int) -> String {
        Self.columns(of: text) <= columns ? text : cut(text, to: max(0, columns - 1)) + "…"
    }

    /// The beginning that has so many columns.
    static func cut(_ text: String, to columns: Int) -> String {
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

    static func columns(of text: String) -> Int {
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
