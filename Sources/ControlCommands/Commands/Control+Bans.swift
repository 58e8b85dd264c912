internal import HTTP
internal import JSON

extension Control {
    /// `ctl ban`: who is banned.
    public func bans(count: Int?) throws(ControlError) {
        try list(
            ["bans"], count: count,
            [.text("KIND"), .text("WHO"), .text("SINCE (UTC)"), .text("UNTIL (UTC)"), .text("BY"), .text("REASON")],
            orSay: "Nobody is banned."
        ) { ban in
            [
                Self.word(ban["as"].cell), Self.who(ban), ban["at"].time, ban["until"].string.map(Figures.time) ?? "for ever",
                ban["by"].cell, ban["reason"].cell,
            ]
        }
    }

    /// Of a client that is banned for one user and address alone, both too.
    private static func who(_ ban: JSONValue) -> String {
        guard let address = ban["address"].string else { return ban["who"].cell }
        return ban["who"].cell + (ban["user"].string.map { " of \($0)" } ?? "") + " from \(address)"
    }

    /// What one types for a kind of ban; the API has EMQX's words.
    private static func word(_ kind: String) -> String {
        switch kind {
        case "clientid": "client"
        case "username": "user"
        case "peerhost": "address"
        case "peerhost_net": "network"
        default: kind
        }
    }

    /// `ctl ban add WHO`: whoever is connected is disconnected.
    ///
    /// - `kind`: `clientid`, `username`, `peerhost` or `peerhost_net`.
    /// - `seconds`: nil for ever.
    public func ban(_ kind: String, _ who: String, seconds: Int?, reason: String?) throws(ControlError) {
        var body = JSONObject()
        body.set("as", kind)
        body.set("who", who)
        if let reason { body.set("reason", reason) }
        if let seconds { body.set("until", Figures.timeAfter(seconds: seconds)) }
        try order(ControlRequest(.post, ["bans"], body: body.text)) { ban in
            "The \(Self.word(ban["as"].cell)) \(ban["who"].cell) is banned "
                + (ban["until"].string.map { "until \(Figures.time($0)) UTC." } ?? "for ever.")
        }
    }

    /// `ctl ban remove WHO`.
    public func liftBan(_ kind: String, _ who: String) throws(ControlError) {
        try order(ControlRequest(.delete, ["bans", kind, who]), about: who) { _ in
            "The \(Self.word(kind)) \(who) is not banned any more."
        }
    }
}
