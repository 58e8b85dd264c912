public import BrokerModel
public import MQTTCodec
internal import Platform

/// The rules that a login brings along, as services and tokens write them: from a list of them to what the core asks.
public struct GrantedRule: Sendable, Equatable {
    public var allows: Bool
    public var isForPublishing: Bool
    public var isForSubscribing: Bool
    /// A topic filter. `%c`, `%u`, `${clientid}` and `${username}` stand for the client where they fill a level.
    public var filter: String
    /// Whether a SUBSCRIBE has to ask for this very filter, wildcards and all: `eq a/#`.
    public var isLiteral: Bool

    public init(allows: Bool, isForPublishing: Bool, isForSubscribing: Bool, filter: String, isLiteral: Bool = false) {
        (self.allows, self.isForPublishing, self.isForSubscribing) = (allows, isForPublishing, isForSubscribing)
        (self.filter, self.isLiteral) = (filter, isLiteral)
    }

    /// What a list of rules says, the first that fits first; nil if one of them has no topic filter.
    ///
    /// - Parameters:
    ///   - rules: in the order in which they are asked.
    ///   - name: what the log calls the list.
    public static func rights(_ rules: [GrantedRule], name: EncodedString) -> RoleRights? {
        var (sending, receiving): ([RoleRule], [RoleRule]) = ([], [])
        var (subscribing, unsubscribing) = (RoleRules.Filters(), RoleRules.Filters())
        for rule in rules {
            let text = rule.filter.replacing(every: "${clientid}", by: "%c").replacing(every: "${username}", by: "%u")
            guard let filter = AccessFilter(Array(text.utf8), isPattern: true) else { return nil }
            if rule.isForPublishing { sending.append(RoleRule(filter, allows: rule.allows)) }
            guard rule.isForSubscribing else { continue }
            receiving.append(RoleRule(filter, allows: rule.allows))
            if rule.isLiteral {
                guard let literal = EncodedString(text) else { return nil }
                subscribing.add(literal: literal, allows: rule.allows)
            } else {
                subscribing.patterns.append(RoleRule(filter, allows: rule.allows))
            }
        }
        // Who may be subscribed may end it.
        if let all = AccessFilter("#".utf8, isPattern: false) { unsubscribing.patterns = [RoleRule(all, allows: true)] }
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        let role = RoleRules(
            name: name, allowsWildcards: true, sending: sending, receiving: receiving, subscribing: subscribing,
            unsubscribing: unsubscribing)
        return RoleRights(roles: [role], defaults: defaults)
    }
}
