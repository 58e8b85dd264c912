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
        /// Addresses or networks that the client must come from, one of them; empty for anywhere.
        package let addresses: [String]

        package init(allows: Bool, action: Action, topic: String, isLiteral: Bool = false, addresses: [String] = []) {
            (self.allows, self.action, self.topic, self.isLiteral) = (allows, action, topic, isLiteral)
            self.addresses = addresses
        }
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
    /// - Throws: for rules that cannot be kept, such as those that ask for a QoS: who has them is not let in, rather
    ///   than let do more or less than they say.
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
                for topic in try reader.topics(members[name] ?? .null, "\"\(name)\"") {
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

        mutating func add(_ topic: String, allows: Bool, _ action: Action, addresses: [String] = []) throws(TokenRefusal) {
            guard rules.count < Limits.accessRulesMax else { throw refusal("has more than \(Limits.accessRulesMax) rules") }
            let isLiteral = topic.hasPrefix("eq ")
            let filter = isLiteral ? String(topic.dropFirst(3)) : topic
            guard !filter.isEmpty, !filter.utf8.contains(0) else { throw refusal("has an empty topic, or one with a NUL") }
            rules.append(Rule(allows: allows, action: action, topic: filter, isLiteral: isLiteral, addresses: addresses))
        }

        /// One text, or several.
        func topics(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> [String] {
            if let text = value.string { return [text] }
            guard let list = value.array else { throw refusal("has a \(name) that is no list of topics") }
            var topics: [String] = []
            for element in list {
                guard let text = element.string else { throw refusal("has a \(name) that holds something else than topics") }
                topics.append(text)
            }
            return topics
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
                case "permission", "action", "topic", "topics", "ipaddr", "ipaddrs": break
                case "qos" where Self.isAnyQoS(rule[member] ?? .null): break
                case "retain" where rule[member] == .null || rule[member]?.string == "all": break
                case "qos", "retain", "clientid_re", "username_re", "clientid", "username", "zone", "zone_re", "listener",
                    "listener_re", "who":
                    throw refusal("has a \(name) that asks for \"\(member)\", which is not known here")
                default: break
                }
            }
            let topics = try self.topics(rule["topic"] ?? rule["topics"] ?? .null, "\(name) whose \"topic\"")
            let addresses = try self.addresses(rule["ipaddr"] ?? rule["ipaddrs"] ?? .null, name)
            for topic in topics { try add(topic, allows: allows, action, addresses: addresses) }
        }

        private func addresses(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> [String] {
            if value == .null { return [] }
            return try topics(value, "\(name) whose \"ipaddr\"")
        }

        /// Whether all of them are meant.
        private static func isAnyQoS(_ value: JSONValue) -> Bool {
            switch value {
            case .null: return true
            case .string(let text):
                let digits = text.utf8.split(separator: UInt8(ascii: ","))
                return text == "all" || ["0", "1", "2"].allSatisfy { digit in digits.contains { $0.elementsEqual(digit.utf8) } }
            case .array(let values):
                return (0...2).allSatisfy { level in values.contains { $0 == .integer(level) || $0.string == String(level) } }
            default: return false
            }
        }
    }
}
