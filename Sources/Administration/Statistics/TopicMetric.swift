internal import BrokerModel
internal import JSON

/// A topic filter whose messages are counted, and how fast they come.
struct TopicMetric {
    /// Since when, in milliseconds since 1970.
    let since: UInt64
    /// Where the counts stood when somebody asked for the rates, and when that was, in milliseconds.
    private var mark: TopicMeterRow
    private var markedAt: UInt64
    private var rates = (received: 0.0, sent: 0.0, dropped: 0.0)

    init(_ row: TopicMeterRow, since now: Moment) {
        (since, mark, markedAt) = (now.wallMilliseconds, row, now.milliseconds)
    }

    /// The rates are those since somebody asked last, at least a second ago: so little says nothing of a rate.
    mutating func json(_ row: TopicMeterRow, at now: Moment) -> JSONObject {
        let elapsed = now.milliseconds - min(now.milliseconds, markedAt)
        if elapsed >= 1000 {
            func rate(_ count: KeyPath<TopicMeterRow, UInt64>) -> Double {
                (Double(row[keyPath: count] - min(row[keyPath: count], mark[keyPath: count])) * 10_000 / Double(elapsed)).rounded()
                    / 10
            }
            rates = (rate(\.received), rate(\.sent), rate(\.dropped))
            (mark, markedAt) = (row, now.milliseconds)
        }
        var object = JSONObject()
        object.set("filter", "\(row.filter)")
        object.set("since", Timestamp.text(since))
        object.set("in_messages", row.received)
        object.set("in_bytes", row.receivedBytes)
        object.set("out_messages", row.sent)
        object.set("out_bytes", row.sentBytes)
        object.set("dropped", row.dropped)
        object.set("in_rate", rates.received)
        object.set("out_rate", rates.sent)
        object.set("dropped_rate", rates.dropped)
        return object
    }
}
