public import MQTTCodec

/// What rules say of something that a client wants to do.
package enum AccessVerdict: Sendable {
    case granted
    case denied
    /// Nothing: others are asked.
    case deferred
}

/// One rule of a role: the topics that it is about, in which `%c` and `%u` stand for the client, and what it says of them.
public struct RoleRule: Sendable {
    public let filter: AccessFilter
    public let allows: Bool

    public init(_ filter: AccessFilter, allows: Bool) { (self.filter, self.allows) = (filter, allows) }
}

/// What a role of dynamic security says, ready to be asked: in each list the first rule that matches decides.
///
/// Immutable; shared by all sessions whose clients have the role, on every loop. A role that changes is a new one.
public final class RoleRules: Sendable {
    /// What a role has for SUBSCRIBE, or for UNSUBSCRIBE.
    public struct Filters: Sendable {
        /// Filters that are meant to the letter, whatever wildcards they hold; asked before the patterns.
        public var literals: [EncodedString: Bool] = [:]
        /// Filters that stand for all that they cover.
        public var patterns: [RoleRule] = []

        public init() {}

        fileprivate func verdict(_ filter: TopicFilterText, _ identity: AccessIdentity) -> AccessVerdict {
            if let allows = literals[filter.text] { return allows ? .granted : .denied }
            guard let asked = filter.levels else { return .deferred }
            let rule = patterns.first { rule in
                guard rule.filter.isPersonal else { return AccessOverlap.covers(rule.filter.levels, asked) }
                // Put in place of %c or %u, a name with a wildcard could open other clients' topics.
                guard !rule.allows || !identity.isDangerous else { return false }
                guard let levels = rule.filter.levels(for: identity, rule.allows ? .read : .deny) else { return false }
                return AccessOverlap.covers(levels, asked)
            }
            return rule.map { $0.allows ? .granted : .denied } ?? .deferred
        }
    }

    package let name: EncodedString
    private let allowsWildcards: Bool
    private let sending: RankedRules
    private let receiving: RankedRules
    private let subscribing: Filters
    private let unsubscribing: Filters

    /// - Parameters:
    ///   - name: what the log calls it.
    ///   - allowsWildcards: whether a subscription may hold `+` or `#`; else the role denies such a one before its rules are asked.
    ///   - sending: what a client may publish, the first that matches counts.
    ///   - receiving: what may reach it, likewise.
    ///   - subscribing: what it may subscribe to.
    ///   - unsubscribing: what it may unsubscribe from.
    public init(
        name: EncodedString, allowsWildcards: Bool, sending: [RoleRule], receiving: [RoleRule], subscribing: Filters,
        unsubscribing: Filters
    ) {
        self.name = name
        self.allowsWildcards = allowsWildcards
        self.sending = RankedRules(sending)
        self.receiving = RankedRules(receiving)
        self.subscribing = subscribing
        self.unsubscribing = unsubscribing
    }

    @inline(__always)
    package func mayPublish(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        sending.ranks(for: topic, identity).verdict
    }

    @inline(__always)
    package func mayReceive(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        receiving.ranks(for: topic, identity).verdict
    }

    /// Whether the role may receive a topic that tells of clients: only a rule that begins with `$SYS/brokers/` grants
    /// that.
    package func mayReceivePresence(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        let verdict = mayReceive(topic, identity)
        guard case .granted = verdict else { return verdict }
        return receiving.ranksBelow("$SYS", "brokers", for: topic, identity).granting < RankedRules.Ranks.none
            ? .granted : .deferred
    }

    package func maySubscribe(_ filter: TopicFilterText, _ identity: AccessIdentity) -> AccessVerdict {
        guard allowsWildcards || !filter.hasWildcard else { return .denied }
        return subscribing.verdict(filter, identity)
    }

    package func mayUnsubscribe(_ filter: TopicFilterText, _ identity: AccessIdentity) -> AccessVerdict {
        unsubscribing.verdict(filter, identity)
    }
}

/// A topic filter that a client asks for, as rules look at it.
package struct TopicFilterText {
    package let text: EncodedString
    package let levels: [AccessFilter.Level]?
    package let hasWildcard: Bool

    package init?(_ bytes: some Collection<UInt8>) {
        guard let text = EncodedString(bytes) else { return nil }
        self.text = text
        levels = AccessFilter(bytes, isPattern: false)?.levels
        hasWildcard = bytes.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
    }
}
