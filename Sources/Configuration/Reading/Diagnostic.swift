/// One thing that the reader has to say about a configuration: what, where, and whether the broker may start in spite of it.
public struct Diagnostic: Sendable, Equatable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// The configuration is not usable.
        case error
        /// The configuration is usable; something in it has no effect, is outdated, or is probably not what was meant.
        case warning
    }

    public var severity: Severity
    /// The file as it was named on the command line or by `include_dir`; empty when there is none.
    public var file: String
    /// Counted from 1; nil when the whole file is meant.
    public var line: Int?
    /// The option that the line names, as it is written there.
    public var option: String?
    /// A sentence with its full stop, or several.
    public var message: String

    public init(severity: Severity, file: String, line: Int? = nil, option: String? = nil, message: String) {
        self.severity = severity
        self.file = file
        self.line = line
        self.option = option
        self.message = message
    }

    /// One line for the log: `Error: martlet.conf:12: max_qos: found "7", expected 0, 1 or 2.`
    public var description: String {
        var text = severity == .error ? "Error: " : "Warning: "
        if !file.isEmpty { text += line.map { "\(file):\($0): " } ?? "\(file): " }
        if let option { text += "\(option): " }
        return text + message
    }
}
