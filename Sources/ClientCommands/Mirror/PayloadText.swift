internal import Platform

/// A payload as a piece of one line: nothing in it moves the cursor or changes colours.
enum PayloadText {
    /// Text as it is, control characters as blanks or their pictures, bytes that are no text as hexadecimal digits; cut with `…`.
    static func line(_ payload: [UInt8], columns: Int) -> String {
        guard !payload.isEmpty else { return "(empty)" }
        guard let text = text(payload) else {
            let digits = payload.prefix(columns / 2 + 1).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            return TerminalText.shortened("0x" + digits.joined(), columns)
        }
        return TerminalText.line(text, columns: columns)
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
}
