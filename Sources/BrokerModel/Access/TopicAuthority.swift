public import MQTTCodec

/// Whoever decides about a client's topics one by one, somewhere else: asked for what no rule grants.
public protocol TopicAuthority: AnyObject, Sendable {
    /// Decides. Called on a loop's thread, where it must take microseconds.
    ///
    /// - Parameters:
    ///   - question: the topic, and whose it is.
    ///   - reply: called once, now or later, on any thread.
    func decide(_ question: TopicQuestion, reply: @escaping @Sendable (TopicDecision) -> Void)
}

/// What a `TopicAuthority` is asked.
public struct TopicQuestion: Sendable {
    /// `publish` or `subscribe`.
    public let action: AccessAction
    /// A topic, or the topic filter of a subscription.
    public let topic: [UInt8]
    public let userName: EncodedString?
    public let clientIdentifier: EncodedString

    public init(action: AccessAction, topic: [UInt8], userName: EncodedString?, clientIdentifier: EncodedString) {
        (self.action, self.topic, self.userName, self.clientIdentifier) = (action, topic, userName, clientIdentifier)
    }
}

/// What a `TopicAuthority` answers.
public struct TopicDecision: Sendable {
    public let isAllowed: Bool
    /// For how long that holds.
    public let milliseconds: UInt64

    public init(isAllowed: Bool, milliseconds: UInt64) { (self.isAllowed, self.milliseconds) = (isAllowed, milliseconds) }
}

extension AccessPolicy {
    /// The policy of a client that receives what these filters match too, where no rule says no.
    package func receiving(_ filters: [AccessFilter]) -> AccessPolicy {
        guard let rights, !filters.isEmpty else { return self }
        let role = RoleRules(
            name: "subscriptions", allowsWildcards: true, sending: [], receiving: filters.map { RoleRule($0, allows: true) },
            subscribing: .init(), unsubscribing: .init())
        return AccessPolicy(
            self, rights: RoleRights(roles: rights.roles + [role], defaults: rights.defaults))
    }
}
