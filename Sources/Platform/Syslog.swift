internal import CLinux

/// The machine's log. For any thread.
public enum Syslog {
    /// How bad it is, with the numbers of RFC 5424.
    public enum Severity: Int32, Sendable {
        case error = 3
        case warning = 4
        case notice = 5
        case information = 6
        case debug = 7
    }

    /// Names the process and its facility: LOCAL0 to LOCAL7, or DAEMON without a number.
    public static func open(name: String, localFacility: Int?) {
        linux_syslog_open(name, Int32(localFacility ?? -1))
    }

    public static func write(_ severity: Severity, _ text: String) {
        linux_syslog(severity.rawValue, text)
    }
}
