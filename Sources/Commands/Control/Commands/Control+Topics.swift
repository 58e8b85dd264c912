internal import Administration
internal import Bytes
internal import HTTP
internal import JSON

extension Control {
    /// `ctl subscriptions`.
    ///
    /// - Parameters:
    ///   - query: `clientid`, `filter`, `matches`, `share` of the API.
    ///   - count: nil for all.
    public func subscriptions(_ query: [(String, String?)], count: Int?) throws(ControlError) {
        let subscription = ResourceDescription.subscription
        try list(
            ["subscriptions"], query: query, count: count,
            [
                subscription.column("clientid"), subscription.column("filter"), subscription.column("share"),
                subscription.column("qos"),
                ResourceColumn(.text("OPTIONS")) { row in
                    let options = [
                        row["no_local"].boolean == true ? "no local" : nil,
                        row["retain_as_published"].boolean == true ? "retain as published" : nil,
                        row["identifier"].text.map { "identifier \($0)" },
                    ]
                    return options.compactMap { $0 }.joined(separator: ", ")
                },
            ], orSay: "There are none.")
        sayOfOneNode()
    }

    /// `ctl retained`.
    public func retained(filter: String?, count: Int?) throws(ControlError) {
        let columns = ["topic", "qos", "bytes", "expires_at", "publisher"].map { ResourceDescription.retainedMessage.column($0) }
        try list(["retained"], query: [("filter", filter)], count: count, columns, orSay: "There are none.")
    }

    /// `ctl retained TOPIC --payload`: the payload's bytes, to be written as they are; nil where JSON was.
    public func retainedPayload(of topic: String) throws(ControlError) -> [UInt8]? {
        let answer = try ask(ControlRequest(.get, ["retained", "message"], query: [("topic", topic)]))
        if output.isJSON {
            output.put(answer.body)
            return nil
        }
        guard let payload = try value(answer)["payload"].string.flatMap({ Base64.decode($0) }) else {
            throw ControlError(.notAllowed, "You may not see payloads.")
        }
        return payload
    }

    /// `ctl retained FILTER --delete`.
    public func deleteRetained(filter: String, isDryRun: Bool) throws(ControlError) {
        let query: [(String, String?)] = [("filter", filter), ("dry_run", isDryRun ? "true" : nil)]
        try perform(ControlRequest(.delete, ["retained"], query: query)) { answer in
            guard isDryRun else { return Self.removed(answer, "retained message") }
            let count = answer["removed"].integer ?? 0
            return "\(count) retained message\(count == 1 ? "" : "s") would be removed."
        }
    }
}
