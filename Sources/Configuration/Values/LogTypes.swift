/// A set of kinds of log lines.
public struct LogTypes: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    public static let error = LogTypes(rawValue: 1 << 0)
    public static let warning = LogTypes(rawValue: 1 << 1)
    public static let notice = LogTypes(rawValue: 1 << 2)
    public static let information = LogTypes(rawValue: 1 << 3)
    public static let debug = LogTypes(rawValue: 1 << 4)
    public static let subscribe = LogTypes(rawValue: 1 << 5)
    public static let unsubscribe = LogTypes(rawValue: 1 << 6)
    public static let webSockets = LogTypes(rawValue: 1 << 7)
    public static let `internal` = LogTypes(rawValue: 1 << 8)

    /// The types that are logged when the file names no `log_type`.
    public static let standard: LogTypes = [.error, .warning, .notice, .information]
    public static let all = LogTypes(rawValue: (1 << 9) - 1)
}
