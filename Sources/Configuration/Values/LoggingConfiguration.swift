/// What is logged, how, and where to.
public struct LoggingConfiguration: Sendable, Equatable {
    /// `log_dest`, each once, in the order of the file. Empty: nothing is logged.
    public var destinations: [LogDestination] = [.standardError]
    /// `log_type`.
    public var types: LogTypes = .standard
    /// `connection_messages`: connects and disconnects are logged.
    public var logsConnections = true
    /// `log_timestamp`.
    public var hasTimestamp = true
    /// `log_timestamp_format`, as of strftime; nil is seconds since 1970.
    public var timestampFormat: String?
    /// `log_facility`: N of syslog's LOCALN; nil is DAEMON.
    public var syslogLocalFacility: Int?
    /// `martlet_log_format`.
    public var format = LogFormat.text

    public init() {}
}

/// A place that log lines go to.
public enum LogDestination: Sendable, Hashable {
    case standardOutput
    case standardError
    case syslog
    /// Messages below `$SYS/broker/log`.
    case topic
    case file(path: String)
}

/// The shape of a log line.
public enum LogFormat: String, Sendable, Equatable, CaseIterable {
    case text
    case json
}

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

    /// What is logged when the file names no `log_type`.
    public static let standard: LogTypes = [.error, .warning, .notice, .information]
    public static let all = LogTypes(rawValue: (1 << 9) - 1)
}
