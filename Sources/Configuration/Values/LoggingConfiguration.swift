/// The settings of logging: what is logged, how, and where to.
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
