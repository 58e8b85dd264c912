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
        try list(
            ["subscriptions"], query: query, count: count,
            [.text("CLIENT"), .text("FILTER"), .text("SHARE"), .number("QOS"), .text("OPTIONS")], orSay: "There are none."
        ) { subscription in
            let options = [
                subscription["no_local"].boolean == true ? "no local" : nil,
                subscription["retain_as_published"].boolean == true ? "retain as published" : nil,
                subscription["identifier"].text.map { "identifier \($0)" },
            ]
            return [
                subscription["clientid"].cell, subscription["filter"].cell, subscription["share"].cell, subscription["qos"].cell,
                options.compactMap { $0 }.joined(separator: ", "),
            ]
        }
        sayOfOneNode()
    }

    /// `ctl retained`.
    public func retained(filter: String?, count: Int?) throws(ControlError) {
        try list(
            ["retained"], query: [("filter", filter)], count: count,
            [.text("TOPIC"), .number("QOS"), .number("SIZE"), .text("EXPIRES (UTC)"), .text("PUBLISHER")],
            orSay: "There are none."
        ) { message in
            [
                message["topic"].cell, message["qos"].cell, message["bytes"].integer.map { Figures.bytes($0) } ?? "-",
                message["expires_at"].time, message["publisher"].cell,
            ]
        }
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
        try order(ControlRequest(.delete, ["retained"], query: query)) { answer in
            guard isDryRun else { return Self.removed(answer, "retained message") }
            let count = answer["removed"].integer ?? 0
            return "\(count) retained message\(count == 1 ? "" : "s") would be removed."
        }
    }
}
