internal import CLinux
internal import Glibc

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
