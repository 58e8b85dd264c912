internal import HTTP
internal import JSON

extension Control {
    /// `ctl alarms`: what is wrong with the broker, or has been.
    ///
    /// - `state`: `active`, `cleared` or `all`.
    /// - `count`: rows at most, nil for all.
    public func alarms(_ state: String, count: Int?) throws(ControlError) {
        try list(
            ["alarms"], query: [("state", state)], count: count,
            [
                .number("NUMBER"), .text("SEVERITY"), .text("ALARM"), .text("OF"), .text("RAISED (UTC)"), .text("CLEARED (UTC)"),
                .text("ACKNOWLEDGED BY"), .text("MESSAGE"),
            ],
            orSay: state == "active" ? "No alarms are active." : "There were no alarms."
        ) { alarm in
            [
                alarm["number"].cell, alarm["severity"].cell, alarm["name"].cell, alarm["of"].string ?? "–",
                alarm["raised_at"].time,
                alarm["cleared_at"].string.map(Figures.time) ?? "–", alarm["acknowledged_by"].string ?? "–", alarm["message"].cell,
            ]
        }
    }

    /// `ctl alarms ack NUMBER`.
    public func acknowledgeAlarm(_ number: Int) throws(ControlError) {
        try order(ControlRequest(.post, ["alarms", "\(number)", "acknowledge"])) { alarm in
            "Alarm \(alarm["number"].cell) (\(alarm["name"].cell)) is acknowledged by \(alarm["acknowledged_by"].cell)."
        }
    }
}
