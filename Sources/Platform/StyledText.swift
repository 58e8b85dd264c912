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
