import BrokerModel
import JSON
import JSONReader
import MQTTCodec
import Platform
import ServerLoops

extension BanEntry {
    /// Reads a ban; nil for bytes that are none.
    init?(reading payload: [UInt8], isLifted: Bool) {
        guard let members = (try? JSONValue(reading: payload))?.object, let target = Self.target(members),
            let by = members["by"]?.string
        else { return nil }
        if isLifted {
            self.init(lifted: target, by: by)
            return
        }
        guard let at = members["at"]?.integer, at >= 0 else { return nil }
        var until: UInt64?
        if let end = members["until"], end != .null {
            guard let milliseconds = end.integer, milliseconds >= 0 else { return nil }
            until = UInt64(milliseconds)
        }
        self.init(Ban(target, by: by, reason: members["reason"]?.string ?? "", at: UInt64(at), until: until))
    }

    var payload: [UInt8] {
        var object = JSONObject()
        object.set("as", target.scope == nil ? target.kind.rawValue : Self.scopedKind)
        object.set("who", target.who)
        if let scope = target.scope {
            object.set("user", orNull: scope.user.map { "\($0)" })
            object.set("address", scope.party)
        }
        object.set("by", by)
        if let ban {
            object.set("reason", ban.reason)
            object.set("at", ban.at)
            object.set("until", orNull: ban.until)
        }
        return Array(object.text.utf8)
    }

    /// The key of a ban is a digest, because a banned client's name may have any length and characters.
    var key: String { "bans." + Self.digest(target.sortKey) }

    private static func target(_ members: JSONMembers) -> BanTarget? {
        guard let kind = members["as"]?.string, let who = members["who"]?.string else { return nil }
        guard kind == scopedKind else { return BanKind(rawValue: kind).flatMap { BanTarget($0, who) } }
        guard let client = EncodedString(who), !client.isEmpty, let party = members["address"]?.string, let name = members["user"]
        else { return nil }
        let user = name.string.flatMap { EncodedString($0) }
        guard user != nil || name == .null else { return nil }
        return BanTarget(client: client, BanScope(user: user, party: party))
    }

    /// No kind of ban, so that a node of an earlier version does not take it for one of everybody with that name.
    private static let scopedKind = "clientid_of"

    /// For how long servers keep it; nil for ever.
    ///
    /// - Parameter now: milliseconds since 1970.
    func secondsToLive(at now: UInt64) -> UInt64? {
        guard let ban else { return Limits.liftedBanSeconds }
        return ban.until.flatMap { until in
            let seconds = (until - min(until, now)) / 1000 + 1 + Limits.banGraceSeconds
            return seconds > Limits.banSecondsMax ? nil : seconds
        }
    }

    static func digest(_ text: String) -> String {
        HashFunction.sha256.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Limits {
    /// Seconds for which the tombstone of a lifted ban is kept: whoever does not follow reads everything anew.
    static let liftedBanSeconds: UInt64 = 600

    /// Seconds that servers keep a ban at most; one that is to last longer they keep for ever, and nodes end it by
    /// themselves.
    static let banSecondsMax: UInt64 = 100 * 365 * 86_400

    /// Seconds that a ban is kept longer than it lasts, for nodes whose clocks are behind.
    static let banGraceSeconds: UInt64 = 5
}
