internal import HTTP
internal import JSON

extension Control {
    /// `ctl topic-metrics`: what is counted of chosen topics.
    public func topicMetrics() throws(ControlError) {
        let answer = try ask(ControlRequest(["topic-metrics"]))
        if output.isJSON { return output.put(answer.body) }
        var table = TextTable([
            .text("FILTER"), .number("IN"), .number("IN/s"), .number("OUT"), .number("OUT/s"), .number("DROPPED"),
            .number("IN SIZE"),
            .number("OUT SIZE"), .text("SINCE (UTC)"),
        ])
        for metric in try value(answer).rows {
            table.rows.append([
                metric["filter"].cell, metric["in_messages"].cell, metric["in_rate"].cell, metric["out_messages"].cell,
                metric["out_rate"].cell, metric["dropped"].cell, metric["in_bytes"].integer.map { Figures.bytes($0) } ?? "-",
                metric["out_bytes"].integer.map { Figures.bytes($0) } ?? "-", metric["since"].time,
            ])
        }
        output.show(table, orSay: "No topic is counted.")
    }

    /// `ctl topic-metrics add FILTER`.
    public func addTopicMetric(_ filter: String) throws(ControlError) {
        var body = JSONObject()
        body.set("filter", filter)
        try order(ControlRequest(.post, ["topic-metrics"], body: body.text)) { _ in "\(filter) is counted." }
    }

    /// `ctl topic-metrics remove FILTER`.
    public func removeTopicMetric(_ filter: String) throws(ControlError) {
        try order(ControlRequest(.delete, ["topic-metrics"], query: [("filter", filter)])) { _ in
            "\(filter) is not counted any more."
        }
    }
}
