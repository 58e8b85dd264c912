public import MQTTCodec

/// What rules say of something that a client wants to do.
package enum AccessVerdict: Sendable {
    case granted
    case denied
    /// The rules say nothing: others are asked.
    case deferred
}

/// One rule of a role: the topics that it is about, in which `%c` and `%u` stand for the client, and what it says of
/// them.
public struct RoleRule: Sendable {
    public let filter: AccessFilter
    public let allows: Bool
    /// The messages that a rule about publishing is about; of one about subscribing, the QoS that are asked for.
    public let messages: AccessPermission
    /// The networks of which the client comes from one; empty for a rule that holds from anywhere.
    public let networks: [AddressRange]

    public init(
        _ filter: AccessFilter, allows: Bool, messages: AccessPermission = .someWrite, networks: [AddressRange] = []
    ) {
        (self.filter, self.allows, self.messages, self.networks) = (filter, allows, messages, networks)
    }

    package var isConditional: Bool { !networks.isEmpty || messages != .someWrite }
}

/// What a role of dynamic security says, ready to be asked: in each list the first rule that matches decides.
///
/// Immutable; shared by all sessions whose clients have the role, on every loop. A role that changes is a new one.
public final class RoleRules: Sendable {
    /// What a role has for SUBSCRIBE, or for UNSUBSCRIBE.
    public struct Filters: Sendable {
        /// Filters that are meant to the letter, whatever wildcards they hold; asked before the patterns.
        private var literals: [EncodedString: [Literal]] = [:]
        /// Filters that stand for all that they cover.
        public var patterns: [RoleRule] = []

        private struct Literal: Sendable {
            let allows: Bool
            let messages: AccessPermission
            let networks: [AddressRange]
        }

        public init() {}

        /// Adds a filter that is meant to the letter: behind those of the same text, of which the first that holds
        /// counts.
        ///
        /// - Parameters:
        ///   - text: the filter.
        ///   - allows: what the rule says.
        ///   - messages: with the QoS that are asked for.
        ///   - networks: of which the client comes from one; empty for anywhere.
        public mutating func add(
            literal text: EncodedString, allows: Bool, messages: AccessPermission = .someWrite, networks: [AddressRange] = []
        ) {
            literals[text, default: []].append(Literal(allows: allows, messages: messages, networks: networks))
        }

        fileprivate var literalCount: Int { literals.count }
        fileprivate var asksAddress: Bool {
            literals.values.contains { $0.contains { !$0.networks.isEmpty } } || patterns.contains { !$0.networks.isEmpty }
        }

        fileprivate func verdict(
            _ filter: TopicFilterText, _ identity: AccessIdentity, _ asking: AccessPermission
        ) -> AccessVerdict {
            let literal = literals[filter.text]?.first {
                !$0.messages.isDisjoint(with: asking) && identity.isMeant(by: $0.networks, denies: !$0.allows)
            }
            if let literal { return literal.allows ? .granted : .denied }
            guard let asked = filter.levels else { return .deferred }
            let rule = patterns.first { rule in
                guard !rule.messages.isDisjoint(with: asking), identity.isMeant(by: rule.networks, denies: !rule.allows) else {
                    return false
                }
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
    /// Whether a rule asks from where the client comes.
    package let asksAddress: Bool
    /// Whether what may be published depends on its QoS and RETAIN.
    package let distinguishesMessages: Bool
    private let allowsWildcards: Bool
    private let judgesSharedByTopics: Bool
    private let sending: RankedRules
    private let receiving: RankedRules
    private let subscribing: Filters
    private let unsubscribing: Filters
    /// What its rules take of memory, about.
    package let byteCount: Int

    /// - Parameters:
    ///   - name: what the log calls it.
    ///   - allowsWildcards: whether a subscription may hold `+` or `#`; else the role denies such a one before its
    ///     rules are asked.
    ///   - sending: what a client may publish, the first that matches counts.
    ///   - receiving: what may reach it, likewise.
    ///   - subscribing: what it may subscribe to.
    ///   - unsubscribing: what it may unsubscribe from.
    ///   - judgesSharedByTopics: whether a shared subscription, of which no rule says anything as it is written, is
    ///     judged as one of its filter alone.
    public init(
        name: EncodedString, allowsWildcards: Bool, sending: [RoleRule], receiving: [RoleRule], subscribing: Filters,
        unsubscribing: Filters, judgesSharedByTopics: Bool = false
    ) {
        self.name = name
        (self.allowsWildcards, self.judgesSharedByTopics) = (allowsWildcards, judgesSharedByTopics)
        self.sending = RankedRules(sending)
        self.receiving = RankedRules(receiving)
        self.subscribing = subscribing
        self.unsubscribing = unsubscribing
        let literals = subscribing.literalCount + unsubscribing.literalCount
        let rules = sending + receiving + subscribing.patterns + unsubscribing.patterns
        asksAddress =
            subscribing.asksAddress || unsubscribing.asksAddress || sending.contains { !$0.networks.isEmpty }
            || receiving.contains { !$0.networks.isEmpty }
        distinguishesMessages = sending.contains { $0.messages != .someWrite }
        byteCount = literals * 64 + rules.reduce(200) { $0 + 64 + $1.filter.levels.count * 64 }
    }

    /// - Parameter messages: of what kind; of those that a rule says something about one is enough.
    @inline(__always)
    package func mayPublish(
        _ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> AccessVerdict {
        sending.ranks(for: topic, identity, messages).verdict
    }

    @inline(__always)
    package func mayReceive(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        receiving.ranks(for: topic, identity, .someWrite).verdict
    }

    /// Whether the role may receive a topic that tells of clients: only a rule that begins with `$SYS/brokers/` grants
    /// that.
    package func mayReceivePresence(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        let verdict = mayReceive(topic, identity)
        guard case .granted = verdict else { return verdict }
        return receiving.ranksBelow("$SYS", "brokers", for: topic, identity).granting < RankedRules.Ranks.none
            ? .granted : .deferred
    }

    /// - Parameter asking: what the subscription asks for, as messages of its QoS.
    package func maySubscribe(
        _ filter: TopicFilterText, _ identity: AccessIdentity, _ asking: AccessPermission
    ) -> AccessVerdict {
        guard allowsWildcards || !filter.hasWildcard else { return .denied }
        let verdict = subscribing.verdict(filter, identity, asking)
        guard verdict == .deferred, judgesSharedByTopics, let plain = filter.behindShareName else { return verdict }
        return maySubscribe(plain, identity, asking)
    }

    package func mayUnsubscribe(_ filter: TopicFilterText, _ identity: AccessIdentity) -> AccessVerdict {
        unsubscribing.verdict(filter, identity, .someWrite)
    }
}

/// A topic filter that a client asks for, as rules look at it.
package struct TopicFilterText {
    package let text: EncodedString
    /// Where the filter begins behind `$share/NAME/`; 0 for one that is not shared.
    private var shareEnd = 0
    package let levels: [AccessFilter.Level]?
    package let hasWildcard: Bool

    package init?(_ bytes: some Collection<UInt8>) {
        guard let text = EncodedString(bytes) else { return nil }
        self.text = text
        levels = AccessFilter(bytes, isPattern: false)?.levels
        hasWildcard = bytes.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
    }

    package init?(_ filter: TopicFilter) {
        self.init(filter.bytes)
        shareEnd = filter.bytes.count - filter.matchingBytes.count
    }

    /// Of a shared subscription the filter itself; nil of any other.
    fileprivate var behindShareName: TopicFilterText? {
        shareEnd > 0 ? TopicFilterText(text.bytes.dropFirst(shareEnd)) : nil
    }
}

/// A list of rules in which the first that matches a topic decides, ready to be asked: a tree of their filters, where
/// every end carries the index of its rule in the list.
///
/// One walk down the tree finds the first rule that grants and the first that denies, whatever their number. Immutable.
package struct RankedRules: Sendable {
    /// Where the first matching rules of each kind stand in the list; `none` for no such rule.
    package struct Ranks: Sendable {
        package static let none = Int32.max

        package var granting = none
        package var denying = none

        /// The verdict of the list.
        package var verdict: AccessVerdict {
            if granting == denying { return .deferred }
            return granting < denying ? .granted : .denied
        }

        @inline(__always)
        package mutating func merge(_ other: Ranks) {
            granting = min(granting, other.granting)
            denying = min(denying, other.denying)
        }
    }

    private let nodes: [AccessNode]
    /// By node: the rules that end there, and those that go on with `#`.
    private var here: [Ranks]
    private var rest: [Ranks]
    private let edges: AccessEdges
    private let attributes: [AccessTreeBuilder.AttributeEdge]
    private let conditions: [AccessConditionEnd]

    /// - Parameter rules: the first of several that match counts.
    package init(_ rules: [RoleRule]) {
        var builder = AccessTreeBuilder()
        var ends: [(node: Int, isRest: Bool)] = []
        for rule in rules { ends.append(builder.insert(rule.filter.levels)) }
        let count = builder.nodes.count
        here = Array(repeating: Ranks(), count: count)
        rest = here
        for (rank, (rule, end)) in zip(rules, ends).enumerated() {
            var ranks = Ranks()
            if rule.allows { ranks.granting = Int32(rank) } else { ranks.denying = Int32(rank) }
            if rule.isConditional {
                builder.add(
                    AccessConditionEnd(isRest: end.isRest, permission: rule.messages, networks: rule.networks, ranks: ranks),
                    at: end.node)
            } else if end.isRest {
                rest[end.node].merge(ranks)
            } else {
                here[end.node].merge(ranks)
            }
        }
        nodes = builder.nodes
        edges = AccessEdges(builder.edges)
        (attributes, conditions) = (builder.attributes, builder.conditions)
    }

    /// The first rules that match a topic.
    @inline(__always)
    package func ranks(
        for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> Ranks {
        guard !topic.isEmpty else { return Ranks() }
        guard topic[0] == UInt8(ascii: "$") else { return walk(from: 0, topic, 0, identity, messages) }
        // Only a rule that says so with its first character is about such topics.
        let end = AccessRules.levelEnd(topic, 0)
        guard let child = edges.child(of: 0, level: UnsafeRawBufferPointer(rebasing: topic[0..<end])) else { return Ranks() }
        return walk(from: child, topic, end &+ 1, identity, messages)
    }

    /// The first of those rules whose first two levels are these, which are the topic's too.
    package func ranksBelow(_ first: String, _ second: String, for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity)
        -> Ranks
    {
        let (first, second) = (Array(first.utf8), Array(second.utf8))
        guard let parent = first.withUnsafeBytes({ edges.child(of: 0, level: $0) }),
            let child = second.withUnsafeBytes({ edges.child(of: parent, level: $0) })
        else { return Ranks() }
        return walk(from: child, topic, first.count + second.count + 2, identity, .someWrite)
    }

    /// What the rules below a node say of the levels from `offset` on; past the topic's end when none is left.
    private func walk(
        from index: Int32, _ topic: UnsafeRawBufferPointer, _ offset: Int, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> Ranks {
        let node = nodes[Int(index)]
        // `a/#` is about `a` too.
        var found = rest[Int(index)]
        if node.conditions != AccessNode.none {
            found.merge(conditional(node.conditions, isEnd: offset > topic.count, identity, messages))
        }
        guard offset <= topic.count else {
            found.merge(here[Int(index)])
            return found
        }
        guard node.hasChildren else { return found }
        let end = AccessRules.levelEnd(topic, offset)
        if node.single != AccessNode.none { found.merge(walk(from: node.single, topic, end &+ 1, identity, messages)) }
        if node.clientIdentifier != AccessNode.none,
            let end = AccessRules.end(of: identity.clientIdentifier, in: topic, from: offset)
        {
            var below = walk(from: node.clientIdentifier, topic, end &+ 1, identity, messages)
            if !identity.clientIdentifierPermissions.contains(.read) { below.granting = Ranks.none }
            found.merge(below)
        }
        if node.userName != AccessNode.none, let end = AccessRules.end(of: identity.userName, in: topic, from: offset) {
            var below = walk(from: node.userName, topic, end &+ 1, identity, messages)
            if !identity.userNamePermissions.contains(.read) { below.granting = Ranks.none }
            found.merge(below)
        }
        if node.attributes != AccessNode.none {
            found.merge(walkAttributes(from: node.attributes, topic, offset, identity, messages))
        }
        if node.hasLiterals,
            let child = edges.child(of: index, level: UnsafeRawBufferPointer(rebasing: topic[offset..<end]))
        {
            found.merge(walk(from: child, topic, end &+ 1, identity, messages))
        }
        return found
    }

    @inline(never)
    private func walkAttributes(
        from first: Int32, _ topic: UnsafeRawBufferPointer, _ offset: Int, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> Ranks {
        var found = Ranks()
        var place = first
        while place != AccessNode.none {
            let edge = attributes[Int(place)]
            place = edge.next
            guard let (end, permissions) = identity.end(ofAttribute: edge.name, in: topic, from: offset) else { continue }
            var below = walk(from: edge.child, topic, end &+ 1, identity, messages)
            if !permissions.contains(.read) { below.granting = Ranks.none }
            if !permissions.contains(.deny) { below.denying = Ranks.none }
            found.merge(below)
        }
        return found
    }

    /// Those rules of a node that do not always hold, and do now.
    @inline(never)
    private func conditional(
        _ first: Int32, isEnd: Bool, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> Ranks {
        var found = Ranks()
        var place = first
        while place != AccessNode.none {
            let rule = conditions[Int(place)]
            place = rule.next
            guard isEnd || rule.isRest, !rule.permission.isDisjoint(with: messages),
                identity.isMeant(by: rule.networks, denies: rule.ranks.granting == Ranks.none)
            else { continue }
            found.merge(rule.ranks)
        }
        return found
    }
}

/// The identity of a session's client, as far as patterns ask.
package struct AccessIdentity: Sendable {
    package let clientIdentifier: [UInt8]
    /// Empty for a client without one.
    package let userName: [UInt8]
    /// Whether a value holds `+` or `#`: put in place of `%c` or `%u` it could open other clients' topics, so patterns
    /// give such a client nothing.
    package let isDangerous: Bool
    /// What patterns may say that hold `%c` or `%u`: all they do; or no more than that something is denied where the
    /// name holds a `/`, with which it could make its way into topics that are somebody else's.
    package let clientIdentifierPermissions: AccessPermission
    package let userNamePermissions: AccessPermission
    /// What the login has said of the client. With a value that holds a wildcard no rule holds, with one that holds a
    /// `/` only those that deny something.
    private let attributes: [Attribute]
    /// From where the client comes; nil where no rule asks for it, and for who comes from no address, or an unknown
    /// one.
    package let address: AddressRange?
    /// Whether it is somebody of whom neither attributes nor the address are known any more: what one of them might be
    /// granted they are.
    package let isAnyone: Bool
    /// Whether nobody knows from where it comes: nothing is allowed by that, and all is denied that might be.
    private let isFromAnywhere: Bool

    package struct Attribute: Sendable {
        package let name: [UInt8]
        package let value: [UInt8]
        package let permissions: AccessPermission
    }

    /// - Parameters:
    ///   - spansLevels: whether a name that holds a `/` stands for as many levels, also where a pattern grants
    ///     something.
    ///   - attributes: the first of several with one name counts.
    package init(
        clientIdentifier: EncodedString, userName: EncodedString?, spansLevels: Bool,
        attributes: [(name: String, value: String)] = [], origin: AccessOrigin = .unknown
    ) {
        self.attributes = attributes.map { attribute in
            let value = Array(attribute.value.utf8)
            var permissions: AccessPermission = value.contains(UInt8(ascii: "/")) ? .deny : [.read, .someWrite, .deny]
            if value.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") || $0 == 0 }) { permissions = [] }
            return Attribute(name: Array(attribute.name.utf8), value: value, permissions: permissions)
        }
        (isAnyone, isFromAnywhere) = (origin == .anyone, origin == .unknown)
        if case .address(let text) = origin { address = AddressRange(text) } else { address = nil }
        self.clientIdentifier = clientIdentifier.bytes
        self.userName = userName?.bytes ?? []
        func permissions(_ name: [UInt8]) -> AccessPermission {
            spansLevels || !name.contains(UInt8(ascii: "/")) ? [.read, .someWrite, .deny] : .deny
        }
        clientIdentifierPermissions = permissions(self.clientIdentifier)
        userNamePermissions = permissions(self.userName)
        let wildcards = [UInt8(ascii: "+"), UInt8(ascii: "#")]
        isDangerous = (self.clientIdentifier + self.userName).contains { wildcards.contains($0) }
    }

    package func attribute(_ name: [UInt8]) -> Attribute? { attributes.first { $0.name == name } }

    /// Where the value of an attribute ends, if it stands at `offset`, and what rules with it may say.
    package func end(
        ofAttribute name: [UInt8], in topic: UnsafeRawBufferPointer, from offset: Int
    ) -> (end: Int, permissions: AccessPermission)? {
        if isAnyone { return (AccessRules.levelEnd(topic, offset), [.read, .someWrite]) }
        guard let known = attribute(name), let end = AccessRules.end(of: known.value, in: topic, from: offset) else { return nil }
        return (end, known.permissions)
    }

    /// Whether a rule that asks for these networks holds.
    ///
    /// - Parameter denies: whether the rule denies something.
    package func isMeant(by networks: [AddressRange], denies: Bool) -> Bool {
        if networks.isEmpty { return true }
        if isAnyone { return !denies }
        guard let address else { return isFromAnywhere && denies }
        return networks.contains { $0.contains(address) }
    }
}

/// From where a client comes, for rules that ask for its address.
public enum AccessOrigin: Sendable, Equatable {
    /// An address as the log prints it. The path of a Unix socket is none: no rule that asks for an address holds.
    case address(String)
    /// Nobody knows: of the rules that ask for an address only those hold that deny something.
    case unknown
    /// It was known once, as the attributes of the client were, and is not any more: a rule that allows something holds
    /// whatever it asks for, one that denies does not.
    case anyone
}
