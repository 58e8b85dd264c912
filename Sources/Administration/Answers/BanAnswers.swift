internal import BrokerModel
internal import HTTP
internal import JSON

/// The bans.
struct BanAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    func listBans(_ call: Call) throws(APIError) {
        let after = try call.cursor.map { text throws(APIError) in
            guard let bytes = Base64URL.decode(text), let place = String(validating: bytes, as: UTF8.self) else {
                throw .badRequest("The cursor does not belong to this list.")
            }
            return place
        }
        let kind = call.text("as")
        let bans = broker.bans.all.filter { kind == nil || $0.target.kind.rawValue == kind }
        let rest = after.map { after in bans.filter { $0.target.sortKey > after } } ?? bans
        var page = PageRows(call)
        page.fill(rest) { Self.banResource.json($0) }
        let last = rest.prefix(page.count).last
        let next = rest.count > page.count ? last.map { Base64URL.encode(Array($0.target.sortKey.utf8)) } : nil
        administration.answer(call, page: page.rows, cursor: next, count: bans.count) { object in
            object.set("kept", !broker.bansEndWithBroker)
        }
    }

    func ban(_ call: Call) throws(APIError) {
        let body = try call.body()
        guard let kind = try body.choice("as", BanKind.allCases.map(\.rawValue)).flatMap({ BanKind(rawValue: $0) }) else {
            throw .badRequest("as is missing.")
        }
        let who = try body.required("who")
        call.target = "\(kind.rawValue) \(who)"
        let target = try Self.target(kind, who)
        let reason = try body.text("reason", 0...Limits.banReasonBytesMax) ?? ""
        let until = try body.time("until")
        let now = call.startedAt.wallMilliseconds
        guard until.map({ $0 > now }) ?? true else { throw .badRequest("until is in the past.") }
        let ban = Ban(target, by: name(of: call.who), reason: reason, at: now, until: until)
        let isNew = broker.bans[target] == nil
        let isBanned = broker.ban(ban) { failure in
            if let failure { return call.answer(Self.refused(failure)) }
            call.answer(Self.banResource.json(ban), status: isNew ? .created : .ok)
        }
        guard isBanned else {
            throw APIError(
                .conflict,
                broker.bans.administratorsCount < BanList.largestCount
                    ? "The bans take \(BanList.largestBytes) bytes, the maximum."
                    : "There are \(BanList.largestCount) bans, the maximum.")
        }
    }

    func liftBan(_ call: Call) throws(APIError) {
        guard let kind = call.path["as"].flatMap({ BanKind(rawValue: $0) }) else { throw .notFound("kind of ban") }
        let isThere = broker.liftBan(try Self.target(kind, call.path["who"] ?? ""), by: name(of: call.who)) { failure in
            call.answer(failure.map { Self.refused($0) } ?? HTTPResponse(.noContent))
        }
        guard isThere else { throw .notFound("ban") }
    }

    private static func refused(_ reason: String) -> HTTPResponse {
        APIError(
            .serviceUnavailable, "Nothing was changed: \(reason).", fields: ["Retry-After": String(Limits.retryAfterSeconds)]
        ).response
    }

    private static func target(_ kind: BanKind, _ who: String) throws(APIError) -> BanTarget {
        guard let target = BanTarget(kind, who) else {
            let words =
                switch kind {
                case .client: "who is not a valid Client Identifier."
                case .user: "who is not a valid user name."
                case .address: "who is not an address such as 192.0.2.7 or 2001:db8::7; for a network use peerhost_net."
                case .network: "who is not a network such as 192.0.2.0/24 or 2001:db8::/32; all addresses cannot be banned."
                }
            throw .badRequest(words)
        }
        return target
    }

    /// What an administrator is called in what they have done: nothing that the broker does by itself.
    private func name(of who: Identity) -> String {
        let name = who.name ?? who.means.rawValue
        return BanOption(rawValue: name) == nil ? name : "user \(name)"
    }

    static let banResource = Resource<Ban>(
        "Ban",
        [
            .text("as", as: .named("BanKind"), column: "KIND", \.target.kind.rawValue),
            .text("who", help: "Addresses and networks in one spelling.", \.target.who),
            banUserField,
            .textIfAny(
                "address",
                help: "With `user`: from this address, or network of 64 bits, alone. `martlet_flapping` bans so."
            ) { $0.target.scope?.party },
            .text("by", help: "An administrator, or the option by which the broker did it itself.", \.by),
            .text("reason", \.reason),
            .time("at", column: "SINCE (UTC)", \.at),
            .timeOrNull("until", column: "UNTIL (UTC)", help: "Null for ever.", \.until),
        ])

    private static let banUserField = Field<Ban>.textOrNullIfAny(
        "user",
        help: "With `address`: the ban is only for this user with the client's identifier; null for clients without a user name."
    ) { ban in ban.target.scope.map { scope in scope.user.map { "\($0)" } } }
}

/// What has become of a ban.
public enum BanChange: String, Sendable {
    case added
    case lifted
    /// Its time is over.
    case expired
}

extension Limits {
    /// Bytes of the words why somebody is banned: more are refused.
    static let banReasonBytesMax = 4096
}
