import Glibc

/// Whether somebody watches a descriptor, and in colour.
public enum Terminal {
    /// Whether a descriptor is a terminal.
    public static func isAttached(to descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Whether colours are wanted there: not where NO_COLOR has a value, and not where the terminal calls itself dumb.
    public static func takesColour(_ descriptor: Int32) -> Bool {
        guard isAttached(to: descriptor) else { return false }
        if let wish = getenv("NO_COLOR"), wish.pointee != 0 { return false }
        return getenv("TERM").map { String(cString: $0) != "dumb" } ?? false
    }

    /// A text between the sequences that give it a colour and take it away.
    public static func coloured(_ text: String, _ colour: Colour) -> String { "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" }

    /// The colours in use, by their numbers in ECMA-48.
    public enum Colour: String {
        case red = "31"
        case yellow = "33"
        case faint = "2"
    }
}
