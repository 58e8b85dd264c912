package import JSON

/// The access rules that a login brings, in either of the forms that EMQX reads from a token's `acl` and from the
/// answer of its HTTP back end.
///
///     {"pub": ["a/%c"], "sub": ["b/#"], "all": ["c/+"]}                      what is not in it is denied
///     [{"permission": "allow", "action": "publish", "topic": "a/%c"}, …]     the first that fits counts; else others are asked
package struct TokenAccess: Sendable, Equatable {
    /// What a rule is about.
    package enum Action: Sendable, Equatable {
        case publish
        case subscribe
        case all
    }

    package struct Rule: Sendable, Equatable {
        package let allows: Bool
        package let action: Action
        /// A topic filter in which `%c`, `%u` and `${…}` stand for the client.
        package let topic: String
        /// Whether wildcards in it are meant to the letter: `eq a/#`.
        package let isLiteral: Bool
        package let conditions: Conditions

        package init(
            allows: Bool, action: Action, topic: String, isLiteral: Bool = false, conditions: Conditions = Conditions()
        ) {
            (self.allows, self.action, self.topic, self.isLiteral) = (allows, action, topic, isLiteral)
            self.conditions = conditions
        }
    }

    /// What a rule asks beside its topic.
    package struct Conditions: Sendable, Equatable {
        /// The QoS that a message may have, or a subscription ask for.
        package var qos: Set<UInt8> = [0, 1, 2]
        /// Whether a message that is published is retained; nil for either.
        package var retain: Bool?
        /// Addresses or networks that the client must come from, one of them; empty for anywhere.
        package var addresses: [String] = []

        package init() {}
    }

    /// In the order in which they are asked.
    package let rules: [Rule]
    /// Whether what no rule fits is denied; else others are asked.
    package let decidesAll: Bool

    /// Reads either form.
    ///
    /// - Parameters:
    ///   - value: of the claim.
    ///   - claim: its name, for words.
    /// - Throws: for rules that cannot be kept, such as those with a regular expression: who has them is not let in,
    ///   rather than let do more or less than they say.
    package init(_ value: JSONValue, claim: String) throws(TokenRefusal) {
        var reader = Reader(claim: claim)
        switch value {
        case .object(let members):
            for name in members.names {
                let action: Action
                switch name {
                case "pub": action = .publish
                case "sub": action = .subscribe
                case "all": action = .all
                default: throw reader.refusal("has a \"\(Shown.text(name))\"; pub, sub and all are known")
                }
                for topic in try reader.texts(members[name] ?? .null, of: "topics", "\"\(name)\"") {
                    try reader.add(topic, allows: true, action)
                }
            }
            decidesAll = true
        case .array(let elements):
            for (index, element) in elements.enumerated() { try reader.read(element, number: index + 1) }
            decidesAll = false
        default: throw reader.refusal("is neither an object nor an array")
        }
        rules = reader.rules
    }

    private struct Reader {
        let claim: String
        var rules: [Rule] = []

        init(claim: String) { self.claim = claim }

        func refusal(_ words: String) -> TokenRefusal { TokenRefusal(.claims, "its \"\(claim)\" \(words)") }

        mutating func add(
            _ topic: String, allows: Bool, _ action: Action, _ conditions: Conditions = Conditions()
        ) throws(TokenRefusal) {
            guard rules.count < Limits.accessRulesMax else { throw refusal("has more than \(Limits.accessRulesMax) rules") }
            let isLiteral = topic.hasPrefix("eq ")
            let filter = isLiteral ? String(topic.dropFirst(3)) : topic
            guard !filter.isEmpty, !filter.utf8.contains(0) else { throw refusal("has an empty topic, or one with a NUL") }
            rules.append(Rule(allows: allows, action: action, topic: filter, isLiteral: isLiteral, conditions: conditions))
        }

        /// One text, or several.
        func texts(_ value: JSONValue, of what: String, _ name: String) throws(TokenRefusal) -> [String] {
            if let text = value.string { return [text] }
            guard let list = value.array else { throw refusal("has a \(name) that is no list of \(what)") }
            var texts: [String] = []
            for element in list {
                guard let text = element.string else { throw refusal("has a \(name) that holds something else than \(what)") }
                texts.append(text)
            }
            return texts
        }

        mutating func read(_ value: JSONValue, number: Int) throws(TokenRefusal) {
            let name = "rule \(number)"
            guard let rule = value.object else { throw refusal("has a \(name) that is no object") }
            let allows: Bool
            switch rule["permission"]?.string {
            case "allow"?: allows = true
            case "deny"?: allows = false
            default: throw refusal("has a \(name) whose \"permission\" is neither allow nor deny")
            }
            let action: Action
            switch rule["action"]?.string {
            case "publish"?, "pub"?: action = .publish
            case "subscribe"?, "sub"?: action = .subscribe
            case "all"?: action = .all
            default: throw refusal("has a \(name) whose \"action\" is neither publish nor subscribe nor all")
            }
            for member in rule.names {
                switch member {
                case "clientid_re", "username_re", "clientid", "username", "zone", "zone_re", "listener", "listener_re", "who":
                    throw refusal(
                        "has a \(name) that asks for \"\(member)\", which is not known here; qos, retain and ipaddr are")
                default: break
                }
            }
            let topics = try texts(rule["topic"] ?? rule["topics"] ?? .null, of: "topics", "\"topic\" in \(name)")
            var conditions = Conditions()
            conditions.qos = try qos(rule["qos"] ?? .null, name)
            conditions.retain = try retain(rule["retain"] ?? .null, name)
            let addresses = rule["ipaddr"] ?? rule["ipaddrs"] ?? .null
            if addresses != .null { conditions.addresses = try texts(addresses, of: "addresses", "\"ipaddr\" in \(name)") }
            for topic in topics { try add(topic, allows: allows, action, conditions) }
        }

        /// One number, several, or a text of them: `1`, `[0, 1]`, `"0,1"`. Nothing said means any.
        private func qos(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> Set<UInt8> {
            let values: [JSONValue]
            switch value {
            case .null, .string("all"): return [0, 1, 2]
            case .array(let several): values = several
            case .string(let text):
                values = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
                    .map { .string(String(decoding: $0, as: UTF8.self)) }
            default: values = [value]
            }
            var found: Set<UInt8> = []
            for value in values {
                switch value {
                case .integer(0), .string("0"): found.insert(0)
                case .integer(1), .string("1"): found.insert(1)
                case .integer(2), .string("2"): found.insert(2)
                default: throw refusal("has a \(name) whose \"qos\" is none of 0, 1 and 2, and no list of them")
                }
            }
            guard !found.isEmpty else { throw refusal("has a \(name) whose \"qos\" is an empty list, so that it is about nothing") }
            return found
        }

        private func retain(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> Bool? {
            switch value {
            case .null, .string("all"): return nil
            case .boolean(let isRetained): return isRetained
            case .integer(1), .string("1"), .string("true"): return true
            case .integer(0), .string("0"), .string("false"): return false
            default: throw refusal("has a \(name) whose \"retain\" is neither true nor false nor \"all\"")
            }
        }
    }
}
