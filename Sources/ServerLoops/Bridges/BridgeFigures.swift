import BrokerCore
package import Federation
import MQTTCodec

/// The figures of a bridge below `$SYS/broker/bridges/NAME/`, and its messages a second. Belongs to a runner.
struct BridgeFigures {
    private var published: [String: String] = [:]
    private var last: (at: UInt64, out: UInt64, into: UInt64)?
    private var latest = BridgeRates()

    /// Messages a second since the last call, which was a second ago or longer; what they were before, if that was
    /// less.
    mutating func rates(of report: BridgeReport, now: UInt64) -> BridgeRates {
        if let last {
            guard now >= last.at + Self.millisecondsMin else { return latest }
            let seconds = Double(now - last.at) / 1000
            latest = BridgeRates(
                out: Double(report.messagesOut - last.out) / seconds, into: Double(report.messagesIn - last.into) / seconds)
        }
        last = (now, report.messagesOut, report.messagesIn)
        return latest
    }

    /// Bridges are asked once a second, give or take.
    private static let millisecondsMin: UInt64 = 500

    /// The topics whose value is another than it was, in a fixed order.
    mutating func changes(to status: BridgeStatus) -> [(topic: String, value: String)] {
        let root = Self.root(status.name)
        let (report, backlog) = (status.report, status.backlog)
        let values: [(String, String)] = [
            ("state", report.state.word), ("address", status.address ?? ""),
            ("queue/messages", "\(backlog.messages)"), ("queue/bytes", "\(backlog.bytes)"),
            ("queue/on_disk", "\(backlog.storedMessages)"), ("lag", "\(backlog.oldestMilliseconds / 1000)"),
            ("messages/sent", "\(report.messagesOut)"), ("messages/received", "\(report.messagesIn)"),
            ("messages/dropped", "\(report.droppedOut + report.droppedIn)"),
            ("load/sent", "\(UInt64(status.rates.out.rounded()))"), ("load/received", "\(UInt64(status.rates.into.rounded()))"),
        ]
        var changed: [(topic: String, value: String)] = []
        for (name, value) in values where published[name] ?? "" != value {
            published[name] = value
            changed.append((root + name, value))
        }
        return changed
    }

    /// The topics that have a value.
    func systemTopics(name: String) -> [String] {
        let root = Self.root(name)
        return published.filter { !$0.value.isEmpty }.keys.sorted().map { root + $0 }
    }

    private static func root(_ name: String) -> String {
        "$SYS/broker/bridges/\(EncodedString(name).map { BrokerShard.topicLevel(of: $0) } ?? "")/"
    }
}

/// Messages a second.
package struct BridgeRates: Sendable, Equatable {
    package var out = 0.0
    package var into = 0.0

    package init(
        out: Double = 0.0, into: Double = 0.0
    ) {
        self.out = out
        self.into = into
    }
}

extension BridgeReport.State {
    /// As administrators know it.
    package var word: String { self == .idle ? "lazy" : rawValue }
}
