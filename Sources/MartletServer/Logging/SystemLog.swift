import BrokerModel
import Platform
import ServerLoops

/// Lines to the machine's log. The time is the machine log's business.
final class SystemLog: LogSink {
    private let format: LogLayout

    /// `localFacility`: N of LOCALN; nil is DAEMON.
    init(localFacility: Int?, layout: LogLayout) {
        var format = layout
        format.hasTimestamp = false
        self.format = format
        Syslog.open(name: "martlet", localFacility: localFacility)
    }

    func write(_ line: LogLine) { Syslog.write(Self.severity(of: line.topic), format.render(line)) }

    private static func severity(of topic: LogTopics) -> Syslog.Severity {
        switch topic {
        case .error: .error
        case .warning: .warning
        case .information: .information
        case .debug, .internalEvents, .webSockets: .debug
        default: .notice
        }
    }
}
