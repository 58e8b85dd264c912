import BrokerModel
import ServerLoops

/// Lines as messages below `$SYS/broker/log`.
///
/// Lines about packets are left out, as mosquitto leaves them out: each message would make new ones.
final class TopicLog: LogSink {
    private let layout: LogLayout
    private let outlet: LogOutlet

    init(layout: LogLayout, outlet: LogOutlet) {
        self.layout = layout
        self.outlet = outlet
    }

    func write(_ line: LogLine) {
        guard let topic = Self.topic(of: line.topic) else { return }
        outlet.publish(topic, layout.render(line))
    }

    /// mosquitto's name for where a line goes; nil for lines that are not published.
    static func topic(of topic: LogTopics) -> String? {
        switch topic {
        case .error: "$SYS/broker/log/E"
        case .warning: "$SYS/broker/log/W"
        case .notice: "$SYS/broker/log/N"
        case .information: "$SYS/broker/log/I"
        case .subscribe: "$SYS/broker/log/M/subscribe"
        case .unsubscribe: "$SYS/broker/log/M/unsubscribe"
        case .webSockets: "$SYS/broker/log/WS"
        default: nil
        }
    }
}
