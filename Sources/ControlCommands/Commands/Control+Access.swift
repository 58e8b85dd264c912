internal import HTTP
internal import JSON

extension Control {
    // MARK: Bans

    /// `ctl ban`: who is banned.
    public func bans(count: Int?) throws(ControlError) {
        try list(
            ["bans"], count: count,
            [.text("KIND"), .text("WHO"), .text("SINCE (UTC)"), .text("UNTIL (UTC)"), .text("BY"), .text("REASON")],
            orSay: "Nobody is banned."
        ) { ban in
            [
                ban["as"].cell, ban["who"].cell, ban["at"].time, ban["until"].string.map(Figures.time) ?? "for ever",
                ban["by"].cell, ban["reason"].cell,
            ]
        }
    }

    /// `ctl ban add WHO`: whoever is connected is disconnected.
    ///
    /// - Parameters:
    ///   - kind: `clientid`, `username`, `peerhost` or `peerhost_net`.
    ///   - seconds: nil for ever.
    public func ban(_ kind: String, _ who: String, seconds: Int?, reason: String?) throws(ControlError) {
        var body = JSONObject()
        body.set("as", kind)
        body.set("who", who)
        if let reason { body.set("reason", reason) }
        if let seconds { body.set("until", Figures.timeAfter(seconds: seconds)) }
        try order(ControlRequest(.post, ["bans"], body: body.text)) { ban in
            "\(kind) \(who) is banned " + (ban["until"].string.map { "until \(Figures.time($0)) UTC." } ?? "for ever.")
        }
    }

    /// `ctl ban remove WHO`.
    public func liftBan(_ kind: String, _ who: String) throws(ControlError) {
        try order(ControlRequest(.delete, ["bans", kind, who])) { _ in "\(kind) \(who) is banned no more." }
    }

    // MARK: Tokens

    /// `ctl token`: the tokens of programs, without their secrets.
    public func tokens() throws(ControlError) {
        let answer = try ask(ControlRequest(["tokens"]))
        if output.isJSON { return output.put(answer.body) }
        var table = TextTable([.text("NAME"), .text("ROLE"), .text("EXPIRES (UTC)")])
        for token in try value(answer).rows {
            table.rows.append([token["name"].cell, token["role"].cell, token["expires_at"].string.map(Figures.time) ?? "never"])
        }
        output.show(table, orSay: "There are none.")
    }

    /// `ctl token create NAME`: writes the token, which is shown this once.
    ///
    /// - Parameter seconds: nil for one that does not expire.
    public func createToken(_ name: String, role: String, seconds: Int?) throws(ControlError) {
        var body = JSONObject()
        body.set("name", name)
        body.set("role", role)
        if let seconds { body.set("expires_at", Figures.timeAfter(seconds: seconds)) }
        try order(ControlRequest(.post, ["tokens"], body: body.text)) { $0["token"].cell }
    }

    /// `ctl token revoke NAME`.
    public func revokeToken(_ name: String) throws(ControlError) {
        try order(ControlRequest(.delete, ["tokens", name])) { _ in "The token \(name) is worth nothing any more." }
    }
}
