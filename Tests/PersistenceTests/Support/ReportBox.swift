import BrokerModel
import Platform

/// What a store has reported, to be waited for.
final class ReportBox: @unchecked Sendable {
    private let monitor = Monitor()
    private var reports: [(shard: Int, report: StoreReport)] = []
    private var lines: [(LogTopics, String)] = []

    func add(_ shard: Int, _ report: StoreReport) {
        monitor.withLock {
            reports.append((shard, report))
            monitor.signal()
        }
    }

    func log(_ topics: LogTopics, _ line: String) { monitor.withLock { lines.append((topics, line)) } }

    var logged: [String] { monitor.withLock { lines.map(\.1) } }

    /// Each report in a word, with its shard.
    var words: [String] {
        monitor.withLock { reports.map { "\($0.shard) \(Self.word($0.report))" } }
    }

    /// The rows of the answers so far.
    var answers: [StoreRows] {
        monitor.withLock {
            reports.compactMap { if case .rows(let rows) = $0.report { rows } else { nil } }
        }
    }

    /// Waits until so many reports are there; false when half a minute goes by without one.
    func wait(for count: Int) -> Bool {
        monitor.withLock {
            while reports.count < count {
                let before = reports.count
                monitor.wait(milliseconds: 30_000)
                if reports.count == before { return false }
            }
            return true
        }
    }

    private static func word(_ report: StoreReport) -> String {
        switch report {
        case .committed(let sequence): "committed \(sequence)"
        case .full: "full"
        case .hasRoom: "room"
        case .failed: "failed"
        case .rows: "rows"
        }
    }
}
