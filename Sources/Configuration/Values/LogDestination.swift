/// A place that log lines go to.
public enum LogDestination: Sendable, Hashable {
    case standardOutput
    case standardError
    case syslog
    /// Messages below `$SYS/broker/log`.
    case topic
    case file(path: String)
}
