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
    /// The QoS that a message may have, or a subscription ask for; empty for any.
    public var qos: [QoS]
    /// Whether a message that is published is retained; nil for either.
    public var retain: Bool?

    public init(
        allows: Bool, isForPublishing: Bool, isForSubscribing: Bool, filter: String, isLiteral: Bool = false,
        qos: [QoS] = [], retain: Bool? = nil
    ) {
        (self.allows, self.isForPublishing, self.isForSubscribing) = (allows, isForPublishing, isForSubscribing)
        (self.filter, self.isLiteral, self.qos, self.retain) = (filter, isLiteral, qos, retain)
    }

    private var asksForQoS: Bool { !qos.isEmpty && qos.count < 3 }

    /// The messages that it is about.
    ///
    /// - Parameter retain: the values of RETAIN; nil for both.
    private func messages(retain: Bool?) -> AccessPermission {
        if !asksForQoS, retain == nil { return .someWrite }
        return .messages(
            qos: asksForQoS ? qos : [.atMostOnce, .atLeastOnce, .exactlyOnce], retain: retain.map { [$0] } ?? [true, false])
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
            if rule.isForPublishing {
                sending.append(RoleRule(filter, allows: rule.allows, messages: rule.messages(retain: rule.retain)))
            }
            guard rule.isForSubscribing else { continue }
            // A subscription of another QoS may be granted, and its messages have to arrive.
            if rule.allows || !rule.asksForQoS { receiving.append(RoleRule(filter, allows: rule.allows)) }
            let asking = rule.messages(retain: nil)
            if rule.isLiteral {
                guard let literal = EncodedString(text) else { return nil }
                subscribing.add(literal: literal, allows: rule.allows, messages: asking)
            } else {
                subscribing.patterns.append(RoleRule(filter, allows: rule.allows, messages: asking))
            }
        }
        // Who may be subscribed may end it.
        if let all = AccessFilter("#".utf8, isPattern: false) { unsubscribing.patterns = [RoleRule(all, allows: true)] }
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        let role = RoleRules(
            name: name, allowsWildcards: true, sending: sending, receiving: receiving, subscribing: subscribing,
            unsubscribing: unsubscribing, judgesSharedByTopics: true)
        return RoleRights(roles: [role], defaults: defaults)
    }
}
