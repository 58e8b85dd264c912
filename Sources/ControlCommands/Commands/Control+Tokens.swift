internal import HTTP
internal import JSON

extension Control {
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
    /// - `seconds`: nil for one that does not expire.
    public func createToken(_ name: String, role: String, seconds: Int?) throws(ControlError) {
        var body = JSONObject()
        body.set("name", name)
        body.set("role", role)
        if let seconds { body.set("expires_at", Figures.timeAfter(seconds: seconds)) }
        try order(ControlRequest(.post, ["tokens"], body: body.text)) { $0["token"].cell }
        guard !output.isJSON, let seconds else { return }
        output.note("It ends on \(Figures.time(Figures.timeAfter(seconds: seconds))) UTC; --for says otherwise.")
    }

    /// `ctl token revoke NAME`.
    public func revokeToken(_ name: String) throws(ControlError) {
        try order(ControlRequest(.delete, ["tokens", name]), about: name) { _ in "The token \(name) is revoked." }
    }
}
