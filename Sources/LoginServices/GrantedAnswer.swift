internal import BrokerModel
internal import Bytes
internal import JSON
internal import JSONReader
internal import MQTTCodec
internal import Platform
internal import Security

/// What a service answers about a login, in the JSON of EMQX's HTTP authentication:
///
///     {"result": "allow", "is_superuser": false, "client_attrs": {"floor": "2"}, "expire_at": 1800000000,
///      "acl": [{"permission": "allow", "action": "publish", "topic": "sensors/${clientid}/#"}]}
struct GrantedAnswer {
    enum Verdict {
        case allowed
        case denied
        case ignored
    }

    var verdict = Verdict.ignored
    var isSuperuser = false
    var attributes: [(name: String, value: String)] = []
    /// In milliseconds since 1970.
    var expiresAt: UInt64?
    /// nil where the service says nothing of it.
    var rules: [GrantedRule]?
    /// Whether what no rule names is refused.
    var decidesAll = false

    /// Throws what is wrong with it, to follow "answers".
    init(_ body: [UInt8]) throws(GrantedAnswerError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: body, bytesMax: Limits.answerBytesMax)
        } catch {
            throw GrantedAnswerError("what is no JSON: \(error)")
        }
        guard let object = value.object else { throw GrantedAnswerError("JSON that is no object") }
        switch object["result"]?.string {
        case "allow"?: verdict = .allowed
        case "deny"?: verdict = .denied
        case "ignore"?: verdict = .ignored
        default: throw GrantedAnswerError("without a \"result\" that is allow, deny or ignore")
        }
        if let superuser = object["is_superuser"], superuser != .null {
            guard let superuser = superuser.boolean else {
                throw GrantedAnswerError("an \"is_superuser\" that is neither true nor false")
            }
            isSuperuser = superuser
        }
        if let end = object["expire_at"], end != .null {
            guard let end = end.integer, end > 0, end < Int64.max / 1000 else {
                throw GrantedAnswerError("an \"expire_at\" that is no number of seconds since 1970")
            }
            expiresAt = UInt64(end) * 1000
        }
        if let attributes = object["client_attrs"], attributes != .null { self.attributes = try Self.attributes(attributes) }
        if let list = object["acl"], list != .null { (rules, decidesAll) = try Self.rules(list) }
    }

    /// - Parameter source: what the log calls whoever answered.
    func grant(source: String) throws(GrantedAnswerError) -> LoginGrant {
        var rights: RoleRights?
        if let rules {
            rights = GrantedRule.rights(rules, name: EncodedString(source) ?? EncodedString())
            if rights == nil { throw GrantedAnswerError("an \"acl\" with a topic whose wildcards do not fill their levels") }
        }
        return LoginGrant(
            source: source, rights: rights, decidesAll: decidesAll, isSuperuser: isSuperuser, attributes: attributes,
            expiresAt: expiresAt)
    }

    private static func attributes(_ value: JSONValue) throws(GrantedAnswerError) -> [(name: String, value: String)] {
        guard let members = value.object, members.names.count <= Limits.attributesMax else {
            throw GrantedAnswerError("\"client_attrs\" that are no object of at most \(Limits.attributesMax) texts")
        }
        var attributes: [(name: String, value: String)] = []
        for name in members.names {
            guard let text = members[name]?.string else { throw GrantedAnswerError("\"client_attrs\" that are not all texts") }
            attributes.append((name, text))
        }
        return attributes
    }

    /// Both forms: an object of lists, in which what is not named is refused, and a list of rules, the first that fits
    /// first.
    private static func rules(_ value: JSONValue) throws(GrantedAnswerError) -> (rules: [GrantedRule], decidesAll: Bool) {
        var rules: [GrantedRule] = []
        func add(_ topic: String, allows: Bool, publishes: Bool, subscribes: Bool) throws(GrantedAnswerError) {
            guard rules.count < Limits.rulesMax else {
                throw GrantedAnswerError("an \"acl\" of more than \(Limits.rulesMax) rules")
            }
            let isLiteral = topic.hasPrefix("eq ")
            rules.append(
                GrantedRule(
                    allows: allows, isForPublishing: publishes, isForSubscribing: subscribes,
                    filter: isLiteral ? String(topic.dropFirst(3)) : topic, isLiteral: isLiteral))
        }
        if let members = value.object {
            for name in members.names {
                guard ["pub", "sub", "all"].contains(name), let topics = texts(members[name]) else {
                    throw GrantedAnswerError("an \"acl\" with something else than lists of topics named pub, sub and all")
                }
                for topic in topics { try add(topic, allows: true, publishes: name != "sub", subscribes: name != "pub") }
            }
            return (rules, true)
        }
        guard let list = value.array else { throw GrantedAnswerError("an \"acl\" that is neither a list nor an object") }
        for (index, element) in list.enumerated() {
            let number = "rule \(index + 1) of its \"acl\""
            guard let rule = element.object else { throw GrantedAnswerError("a \(number) that is no object") }
            guard let permission = rule["permission"]?.string, ["allow", "deny"].contains(permission) else {
                throw GrantedAnswerError("a \(number) whose \"permission\" is neither allow nor deny")
            }
            guard let action = rule["action"]?.string, ["publish", "subscribe", "all"].contains(action) else {
                throw GrantedAnswerError("a \(number) whose \"action\" is neither publish, subscribe nor all")
            }
            // A rule that holds for less than it seems is no rule to go by.
            if let name = rule.names.first(where: { narrowing.contains($0) }) {
                throw GrantedAnswerError("a \(number) that asks for \"\(name)\", which is not known here")
            }
            guard let topics = texts(rule["topics"] ?? rule["topic"]) else {
                throw GrantedAnswerError("a \(number) without a \"topic\"")
            }
            for topic in topics {
                try add(topic, allows: permission == "allow", publishes: action != "subscribe", subscribes: action != "publish")
            }
        }
        return (rules, false)
    }

    private static let narrowing = [
        "qos", "retain", "clientid_re", "username_re", "ipaddr", "ipaddrs", "who", "clientid", "username", "listener",
    ]

    private static func texts(_ value: JSONValue?) -> [String]? {
        if let text = value?.string { return [text] }
        guard let list = value?.array else { return nil }
        let texts = list.compactMap(\.string)
        return texts.count == list.count ? texts : nil
    }
}

/// What is wrong with an answer, to follow "answers".
struct GrantedAnswerError: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
