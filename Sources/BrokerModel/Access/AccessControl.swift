public import MQTTCodec

/// The access rules of a listener, which say who may read and write which topics: makes the policy of each session.
///
/// Loops share it: its lists are immutable, a new file on reload is a new one; its roles are asked anew for each
/// policy.
public final class AccessControl: Sendable {
    private let users: [EncodedString: AccessRules]
    private let anonymous: AccessRules
    private let patterns: AccessRules
    private let spansLevels: Bool
    private let file: String?
    private let roles: (any RoleSource)?
    private let hasLists: Bool
    /// The rules of those who have none of their own; nil for no such rules.
    private let defaults: AccessRules?

    /// - Parameters:
    ///   - anonymous: the rules of clients without a user name.
    ///   - users: the rules of each user that has any.
    ///   - patterns: the rules that hold for everybody.
    ///   - spansLevels: whether a name with a `/` in it stands for as many levels where a pattern grants something, as
    ///     in mosquitto 2.0. Else such a name is granted nothing there, as in 2.1: user `a/b` would be let into the
    ///     topics of user `a`.
    ///   - file: what the log calls the list; nil for one that comes from no file.
    public init(
        anonymous: [AccessRule], users: [EncodedString: [AccessRule]], patterns: [AccessRule], spansLevels: Bool = false,
        file: String? = nil
    ) {
        self.anonymous = AccessRules(anonymous)
        self.users = users.mapValues { AccessRules($0) }
        self.patterns = AccessRules(patterns)
        self.spansLevels = spansLevels
        self.file = file
        (roles, hasLists, defaults) = (nil, true, nil)
    }

    /// - Parameters:
    ///   - roles: dynamic security, which is asked first.
    ///   - lists: what is asked where that says nothing; nil for a listener without an access list, where that is a no.
    public init(roles: any RoleSource, lists: AccessControl?) {
        users = lists?.users ?? [:]
        anonymous = lists?.anonymous ?? AccessRules([])
        patterns = lists?.patterns ?? AccessRules([])
        spansLevels = lists?.spansLevels ?? false
        file = lists?.file
        self.roles = roles
        hasLists = lists != nil
        defaults = nil
    }

    /// The same, with rules for clients that have none of their own: no line of the list names their user, or, without
    /// a user name, none stands before the users; and dynamic security has no role for them. What holds for everybody
    /// holds for them too.
    ///
    /// - Parameters:
    ///   - control: nil for a listener that has no rules but these.
    ///   - rules: in which `%c`, `%u` and attributes stand for the client.
    public init(_ control: AccessControl?, defaults rules: [AccessRule]) {
        users = control?.users ?? [:]
        anonymous = control?.anonymous ?? AccessRules([])
        patterns = control?.patterns ?? AccessRules([])
        spansLevels = control?.spansLevels ?? false
        file = control?.file ?? "martlet_default_rule"
        roles = control?.roles
        hasLists = true
        defaults = AccessRules(rules)
    }

    /// The policy for a client. A user whom no list names has the patterns only; without any, everything is denied.
    ///
    /// - Parameters:
    ///   - userName: who has logged in; nil without a name.
    ///   - clientIdentifier: whose connection it is.
    ///   - attributes: what its login has said of it, for `%{client_attrs.NAME}`.
    ///   - origin: from where it comes, for rules that ask for it.
    ///   - memberships: groups and roles that it has beside those of the user.
    public func policy(
        userName: EncodedString?, clientIdentifier: EncodedString, attributes: [(name: String, value: String)] = [],
        origin: AccessOrigin = .unknown, memberships: AccessMemberships = AccessMemberships()
    ) -> AccessPolicy {
        let listed = userName.map { users[$0] } ?? anonymous
        let rights = roles?.rights(of: userName, in: memberships)
        let hasOwn = listed?.isEmpty == false || rights?.roles.isEmpty == false
        return AccessPolicy(
            own: hasOwn ? listed : defaults, isOwnPersonal: !hasOwn, patterns: patterns,
            client: AccessClient(
                clientIdentifier: clientIdentifier, userName: userName, attributes: attributes, origin: origin,
                spansLevels: spansLevels),
            file: file, rights: rights, hasLists: hasLists)
    }
}

extension AccessControl {
    /// The policy for a client whose login brought rules along; nil for one whom no rule binds.
    ///
    ///     the login's rules ─► the listener's, if the login does not decide all ─► no, where neither says anything
    ///
    /// - Parameters:
    ///   - control: the listener's rules; nil if it has none.
    ///   - userName: who has logged in; nil without a name.
    ///   - clientIdentifier: whose connection it is.
    ///   - grant: what the login brought along.
    ///   - origin: from where the client comes, for rules that ask for it.
    public static func policy(
        _ control: AccessControl?, userName: EncodedString?, clientIdentifier: EncodedString, grant: LoginGrant?,
        origin: AccessOrigin = .unknown
    ) -> AccessPolicy? {
        if grant?.isSuperuser == true { return nil }
        guard let grant, let rights = grant.rights else {
            return control?.policy(
                userName: userName, clientIdentifier: clientIdentifier, attributes: grant?.attributes ?? [], origin: origin,
                memberships: grant?.memberships ?? AccessMemberships())
        }
        let others = grant.decidesAll ? nil : control
        let known = others?.roles?.rights(of: userName, in: grant.memberships)
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        return AccessPolicy(
            own: others.map { others in userName.map { others.users[$0] } ?? others.anonymous } ?? nil,
            patterns: others?.patterns,
            client: AccessClient(
                clientIdentifier: clientIdentifier, userName: userName, attributes: grant.attributes, origin: origin,
                spansLevels: others?.spansLevels ?? false),
            file: others?.file,
            rights: RoleRights(roles: rights.roles + (known?.roles ?? []), defaults: known?.defaults ?? defaults),
            hasLists: others?.hasLists ?? false)
    }
}

/// Whose policy it is to be.
package struct AccessClient {
    package var clientIdentifier: EncodedString
    package var userName: EncodedString?
    package var attributes: [(name: String, value: String)] = []
    package var origin = AccessOrigin.unknown
    /// See `AccessControl`.
    package var spansLevels = false
}

/// What one session's client may do, by mosquitto's rules:
///
///     dynamic security:       a role's rule, or a default, that says yes or no    else the lists
///     the user's own lines:   one that denies ─► no    one that grants ─► yes    else the patterns
///     the patterns:           one that denies ─► no    one that grants ─► yes    else no
///
/// Immutable and small: two lists that it shares with other sessions, and the names that stand for `%c` and `%u`. An
/// answer costs one walk down each tree: 0.05 µs of CPU with a hundred lines in force.
public final class AccessPolicy: Sendable {
    package let own: AccessRules?
    package let patterns: AccessRules?
    package let identity: AccessIdentity
    /// What dynamic security says; nil where there is none, or of a user that it does not know.
    package let rights: RoleRights?
    /// Whether there are lists at all.
    package let hasLists: Bool
    /// What the log calls the list.
    package let file: String?
    /// Whether a rule asks from where the client comes.
    package let asksAddress: Bool
    /// Whether roles tell messages apart by QoS and RETAIN.
    private let rolesDistinguishMessages: Bool

    /// - Parameter isOwnPersonal: whether the client may stand in its own rules too, as in the patterns.
    package init(
        own: AccessRules?, isOwnPersonal: Bool = false, patterns: AccessRules?, client: AccessClient, file: String?,
        rights: RoleRights? = nil,
        hasLists: Bool = true
    ) {
        self.file = file
        self.rights = rights
        self.hasLists = hasLists
        asksAddress =
            own?.asksAddress == true || patterns?.asksAddress == true || rights?.roles.contains { $0.asksAddress } == true
        rolesDistinguishMessages = rights?.roles.contains { $0.distinguishesMessages } == true
        // The address takes room in every session: it is kept where it is asked for.
        let identity = AccessIdentity(
            clientIdentifier: client.clientIdentifier, userName: client.userName, spansLevels: client.spansLevels,
            attributes: client.attributes, origin: asksAddress || client.origin == .anyone ? client.origin : .unknown)
        self.own = own.flatMap { $0.isEmpty || isOwnPersonal && identity.isDangerous ? nil : $0 }
        self.patterns = identity.isDangerous ? nil : patterns.flatMap { $0.isEmpty ? nil : $0 }
        self.identity = identity
    }

    /// The same with other rights, which ask for no address but what the others ask for.
    init(_ other: AccessPolicy, rights: RoleRights) {
        (own, patterns, identity, hasLists, file) = (other.own, other.patterns, other.identity, other.hasLists, other.file)
        (asksAddress, rolesDistinguishMessages) = (other.asksAddress, other.rolesDistinguishMessages)
        self.rights = rights
    }

    /// Whether it holds for a client that comes from an address.
    package func holds(from address: String) -> Bool { !asksAddress || identity.address == AddressRange(address) }

    /// Whether the client may publish to a topic in some way; `topic` is a checked topic name.
    public func mayPublish(topic: UnsafeRawBufferPointer) -> Bool {
        guard rolesDistinguishMessages else { return mayPublish(topic, .someWrite) }
        return AccessPermission.everyMessage.contains { mayPublish(topic, [.write, $0]) }
    }

    /// Whether the client may publish such a message to a topic; `topic` is a checked topic name.
    public func mayPublish(topic: UnsafeRawBufferPointer, qos: QoS, retain: Bool) -> Bool {
        mayPublish(topic, [.write, .write(qos, retain: retain)])
    }

    @inline(__always)
    private func mayPublish(_ topic: UnsafeRawBufferPointer, _ wanted: AccessPermission) -> Bool {
        if let rights {
            let verdict = rights.mayPublish(topic, identity, wanted)
            if verdict != .deferred { return verdict == .granted }
        }
        return grants(wanted, on: topic)
    }

    /// Whether a rule that names topics below `$SYS` lets the client publish to one of them, and not just a default.
    package func allowsPublishing(below topic: UnsafeRawBufferPointer) -> Bool {
        func allows(_ wanted: AccessPermission) -> Bool {
            if let rights {
                let verdict = rights.mayPublishByRole(topic, identity, wanted)
                if verdict != .deferred { return verdict == .granted }
            }
            return grants(wanted, on: topic)
        }
        return rolesDistinguishMessages
            ? AccessPermission.everyMessage.contains { allows([.write, $0]) } : allows(.someWrite)
    }

    /// Whether messages of a topic may reach the client; `topic` is a checked topic name.
    public func mayReceive(topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayReceive(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        return grants(.read, on: topic)
    }

    /// Whether messages of a topic that tells of clients may reach the client: only a rule that begins with
    /// `$SYS/brokers/` grants that.
    package func mayReceivePresence(topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayReceivePresence(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        func grants(_ rules: AccessRules?) -> Bool? {
            guard let rules else { return nil }
            if rules.permissions(for: topic, identity).contains(.deny) { return false }
            return rules.permissionsBelow("$SYS", "brokers", for: topic, identity).contains(.read) ? true : nil
        }
        return grants(own) ?? grants(patterns) ?? false
    }

    /// - Parameter wanted: one of these is enough.
    @inline(__always)
    private func grants(_ wanted: AccessPermission, on topic: UnsafeRawBufferPointer) -> Bool {
        if let own {
            let found = own.permissions(for: topic, identity)
            if found.contains(.deny) { return false }
            if !found.isDisjoint(with: wanted) { return true }
        }
        guard let patterns else { return false }
        let found = patterns.permissions(for: topic, identity)
        return !found.isDisjoint(with: wanted) && !found.contains(.deny)
    }
}

/// Saying why something is denied. Walks through all lines: for the log, and not on the way of a message.
extension AccessPolicy {
    /// The rule that denies it, as a part of a sentence.
    ///
    /// - Parameters:
    ///   - wanted: what the client may not do.
    ///   - topic: a checked topic name or filter.
    package func reason(denying wanted: AccessPermission, topic: UnsafeRawBufferPointer) -> String {
        if !hasLists || rights != nil, let reason = roleReason(denying: wanted, topic: topic) { return reason }
        let file = file ?? "the access list"
        guard let asked = AccessFilter(topic, isPattern: false)?.levels, let rule = denial(own, asked) ?? denial(patterns, asked)
        else {
            if wanted == .write, grants(.someWrite, on: topic) { return "no line of \(file) allows it with this QoS and RETAIN" }
            let levels = AccessFilter(topic, isPattern: false)?.levels ?? []
            let isFromElsewhere = isAllowedFromElsewhere(wanted == .write ? .someWrite : .read, levels)
            return "no line of \(file) allows it\(isFromElsewhere ? " from this address" : "")"
        }
        return rule.line > 0 ? "line \(rule.line) of \(file) denies it" : "martlet_default_rule denies it"
    }

    /// Why a subscription is denied, as a part of a sentence.
    package func reason(denyingSubscription filter: TopicFilter) -> String {
        if maySubscribe(filter, qos: nil, asksLists: true) { return "no rule allows it with this QoS" }
        return Array(filter.matchingBytes).withUnsafeBytes { reason(denying: .read, topic: $0) }
    }

    private func isAllowedFromElsewhere(_ wanted: AccessPermission, _ asked: [AccessFilter.Level]) -> Bool {
        [own, patterns].contains { list in
            (list?.rules ?? []).contains { rule in
                guard !rule.networks.isEmpty, !rule.permission.isDisjoint(with: wanted) else { return false }
                return rule.filter.levels(for: identity, wanted).map { AccessOverlap.covers($0, asked) } ?? false
            }
        }
    }

    /// The reason why dynamic security denies it; nil when it leaves that to the lists.
    private func roleReason(denying wanted: AccessPermission, topic: UnsafeRawBufferPointer) -> String? {
        let culprit = rights?.roles.first { role in
            guard wanted == .write else { return role.mayReceive(topic, identity) == .denied }
            return AccessPermission.everyMessage.contains { role.mayPublish(topic, identity, $0) == .denied }
        }
        if let culprit { return "the role \(culprit.name) denies it" }
        if hasLists { return nil }
        if wanted == .write, rolesDistinguishMessages, mayPublish(topic: topic) {
            return "no role allows it with this QoS and RETAIN"
        }
        return rights == nil ? "dynamic security does not know the user" : "no role allows it"
    }

    private func denial(_ list: AccessRules?, _ asked: [AccessFilter.Level]) -> AccessRule? {
        (list?.rules ?? []).first { rule in
            guard rule.permission.contains(.deny), identity.isMeant(by: rule.networks, denies: true),
                let levels = rule.filter.levels(for: identity, .deny)
            else { return false }
            return AccessOverlap.covers(levels, asked)
        }
    }
}

/// What a client may subscribe to. Dynamic security says so; the lists accept every SUBSCRIBE as with mosquitto, unless
/// the operator wants refused what no delivery could follow on.
extension AccessPolicy {
    /// Whether a SUBSCRIBE to the filter is accepted.
    ///
    /// - Parameters:
    ///   - qos: the one that is asked for; nil to ask whether there is one with which it is.
    ///   - asksLists: whether the lists are to be asked too, where dynamic security says nothing.
    package func maySubscribe(_ filter: TopicFilter, qos: QoS?, asksLists: Bool) -> Bool {
        guard let qos else {
            return [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].contains { maySubscribe(filter, qos: $0, asksLists: asksLists) }
        }
        if let rights {
            let verdict = rights.maySubscribe(filter, identity, .subscribing(qos))
            if verdict != .deferred { return verdict == .granted }
        }
        guard hasLists else { return false }
        return !asksLists || filter.matchingBytes.withUnsafeBytes { maySubscribe(filter: $0) }
    }

    /// Whether an UNSUBSCRIBE of the filter is accepted.
    package func mayUnsubscribe(_ filter: TopicFilter) -> Bool {
        guard let rights else { return hasLists }
        let verdict = rights.mayUnsubscribe(filter, identity)
        return verdict == .deferred ? hasLists : verdict == .granted
    }

    /// Whether any topic that the filter matches may reach the client; `filter` is a checked topic filter, of a shared
    /// subscription the part behind $share/NAME/.
    ///
    /// Never refuses what could bring a message. What only several lines together deny is not seen, and accepted: its
    /// deliveries are denied one by one. O(lines that grant × lines that deny).
    public func maySubscribe(filter: UnsafeRawBufferPointer) -> Bool {
        // Of roles only a topic can tell.
        if rights != nil { return true }
        guard let asked = AccessFilter(filter, isPattern: false)?.levels else { return false }
        let ownDenied = denied(by: own)
        if overlaps(asked, readable(of: own), without: ownDenied) { return true }
        return overlaps(asked, readable(of: patterns), without: ownDenied + denied(by: patterns))
    }

    private func readable(of list: AccessRules?) -> [[AccessFilter.Level]] {
        levels(of: list, .read)
    }

    private func denied(by list: AccessRules?) -> [[AccessFilter.Level]] {
        levels(of: list, .deny)
    }

    private func levels(of list: AccessRules?, _ permission: AccessPermission) -> [[AccessFilter.Level]] {
        (list?.rules ?? []).compactMap { rule in
            guard rule.permission.contains(permission), identity.isMeant(by: rule.networks, denies: permission == .deny) else {
                return nil
            }
            return rule.filter.levels(for: identity, permission)
        }
    }

    private func overlaps(
        _ asked: [AccessFilter.Level], _ granted: [[AccessFilter.Level]], without denied: [[AccessFilter.Level]]
    ) -> Bool {
        granted.contains { filter in
            guard let common = AccessOverlap.intersection(asked, filter) else { return false }
            return !denied.contains { AccessOverlap.covers($0, common) }
        }
    }
}

/// What somebody asks of access rules.
public enum AccessAction: String, Sendable, CaseIterable {
    case publish
    case subscribe
    /// That messages of a topic reach the client.
    case receive
}

/// What access rules answer, and who has decided it.
public struct AccessExplanation: Sendable, Equatable {
    public enum Decider: Sendable, Equatable {
        /// A line of the access file, counted from 1.
        case line(Int)
        /// No line of the access file allows it.
        case noLine
        /// A `martlet_default_rule`: the client has no rules of its own.
        case defaultRule
        /// A role of dynamic security.
        case role(String)
        /// No role says anything: the default access of dynamic security does.
        case defaultAccess
        /// No role allows it, and there is no access file.
        case noRole
        /// Dynamic security does not know the user, and there is no access file.
        case unknownUser
    }

    public let isAllowed: Bool
    public let decider: Decider
    /// The access file, of `line` and `noLine`.
    public let file: String?

    public init(isAllowed: Bool, decider: Decider, file: String?) {
        (self.isAllowed, self.decider, self.file) = (isAllowed, decider, file)
    }
}

/// Saying what decides. Walks through all rules: for administrators, and not on the way of a message.
extension AccessPolicy {
    /// What decides whether the client may publish to a topic, or receive its messages; `topic` is one without
    /// wildcards.
    ///
    /// - Parameters:
    ///   - action: `publish` or `receive`.
    ///   - topic: without wildcards.
    ///   - messages: of what QoS and RETAIN the message is that is published; that one of them may be is enough.
    public func explanation(
        of action: AccessAction, topic: TopicName, messages: AccessPermission = .someWrite
    ) -> AccessExplanation {
        topic.bytes.withUnsafeBytes { bytes in
            let kinds = AccessPermission.everyMessage.filter { !messages.isDisjoint(with: $0) }
            let message = kinds.first { mayPublish(bytes, [.write, $0]) }
            let wanted: AccessPermission = action == .publish ? (message ?? messages).union(.write) : .read
            let isAllowed = action == .publish ? message != nil : mayReceive(topic: bytes)
            let byRole = explanationByRole(isAllowed) { role in
                action == .publish ? role.mayPublish(bytes, identity, wanted) : role.mayReceive(bytes, identity)
            }
            if let byRole { return byRole }
            let isDefault = action == .publish ? rights?.defaults.publishes : rights?.defaults.receives
            if isAllowed, isDefault == true, !bytes.starts(with: "$CONTROL".utf8) {
                return AccessExplanation(isAllowed: true, decider: .defaultAccess, file: nil)
            }
            return explanationByLists(isAllowed, wanted, AccessFilter(bytes, isPattern: false)?.levels ?? [])
        }
    }

    /// What decides whether the client may subscribe to a filter.
    ///
    /// Where lists decide it says what could come of it: the SUBSCRIBE itself they refuse only where
    /// `martlet_acl_check_subscribe` wants so.
    ///
    /// - Parameters:
    ///   - filter: what would be subscribed to.
    ///   - qos: the one that would be asked for; nil where it is enough that one of them may be.
    public func explanation(ofSubscribing filter: TopicFilter, qos: QoS? = nil) -> AccessExplanation {
        let possible = qos.map { [$0] } ?? [.atMostOnce, .atLeastOnce, .exactlyOnce]
        let allowed = possible.first { maySubscribe(filter, qos: $0, asksLists: true) }
        let isAllowed = allowed != nil
        let asking = (allowed ?? qos).map { AccessPermission.subscribing($0) } ?? .someWrite
        if let text = TopicFilterText(filter),
            let byRole = explanationByRole(isAllowed, { $0.maySubscribe(text, identity, asking) })
        {
            return byRole
        }
        return filter.matchingBytes.withUnsafeBytes { bytes in
            if isAllowed, rights?.defaults.subscribes == true, !bytes.starts(with: "$CONTROL".utf8) {
                return AccessExplanation(isAllowed: true, decider: .defaultAccess, file: nil)
            }
            return explanationByLists(isAllowed, .read, AccessFilter(bytes, isPattern: false)?.levels ?? [])
        }
    }

    /// The role that decides; nil where none does.
    private func explanationByRole(_ isAllowed: Bool, _ ask: (RoleRules) -> AccessVerdict) -> AccessExplanation? {
        let decider = rights?.roles.first { ask($0) != .deferred }
        return decider.map { AccessExplanation(isAllowed: isAllowed, decider: .role($0.name.description), file: nil) }
    }

    /// The line that decides. `asked` holds wildcards of a subscription only.
    private func explanationByLists(
        _ isAllowed: Bool, _ wanted: AccessPermission, _ asked: [AccessFilter.Level]
    ) -> AccessExplanation {
        guard hasLists else {
            return AccessExplanation(isAllowed: isAllowed, decider: rights == nil ? .unknownUser : .noRole, file: nil)
        }
        let line =
            isAllowed
            ? firstLine(that: wanted, in: own) { AccessOverlap.intersection($0, asked) != nil }
                ?? firstLine(that: wanted, in: patterns) { AccessOverlap.intersection($0, asked) != nil }
            : firstLine(that: .deny, in: own) { AccessOverlap.covers($0, asked) }
                ?? firstLine(that: .deny, in: patterns) { AccessOverlap.covers($0, asked) }
        let decider = line.map { $0 > 0 ? AccessExplanation.Decider.line($0) : .defaultRule } ?? .noLine
        return AccessExplanation(isAllowed: isAllowed, decider: decider, file: file)
    }

    private func firstLine(
        that says: AccessPermission, in list: AccessRules?, _ matches: ([AccessFilter.Level]) -> Bool
    ) -> Int? {
        list?.rules.first { rule in
            guard !rule.permission.isDisjoint(with: says), identity.isMeant(by: rule.networks, denies: says == .deny),
                let levels = rule.filter.levels(for: identity, says)
            else { return false }
            return matches(levels)
        }?.line
    }
}

/// What somebody may do by dynamic security: their roles in the order in which they are asked, and what holds where
/// none says anything.
///
///     each role, its rules in their order ─► the first that matches decides    else the defaults, which never grant $CONTROL
///                                                                               else the other rules of the listener are asked
public struct RoleRights: Sendable {
    /// The rights of users whom no rule speaks of. `defaultACLAccess`
    public struct Defaults: Sendable, Equatable {
        public var publishes = false
        public var receives = true
        public var subscribes = false
        public var unsubscribes = true

        public init() {}
    }

    package let roles: [RoleRules]
    package let defaults: Defaults

    /// - Parameters:
    ///   - roles: the one that is asked first stands first.
    ///   - defaults: what holds where no role says anything.
    public init(roles: [RoleRules], defaults: Defaults) { (self.roles, self.defaults) = (roles, defaults) }

    @inline(__always)
    package func mayPublish(
        _ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> AccessVerdict {
        let verdict = mayPublishByRole(topic, identity, messages)
        return verdict == .deferred ? fallback(defaults.publishes, topic) : verdict
    }

    /// Whether a role's rule lets the user publish; deferred where no rule says anything.
    @inline(__always)
    package func mayPublishByRole(
        _ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity, _ messages: AccessPermission
    ) -> AccessVerdict {
        for role in roles {
            let verdict = role.mayPublish(topic, identity, messages)
            if verdict != .deferred { return verdict }
        }
        return .deferred
    }

    @inline(__always)
    package func mayReceive(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        for role in roles {
            let verdict = role.mayReceive(topic, identity)
            if verdict != .deferred { return verdict }
        }
        return fallback(defaults.receives, topic)
    }

    /// Whether the user may receive a topic that tells of clients, which no default grants.
    package func mayReceivePresence(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        roles.lazy.map { $0.mayReceivePresence(topic, identity) }.first { $0 != .deferred } ?? .deferred
    }

    /// A shared subscription is looked at as it is written, as mosquitto does: `$share/NAME/a` needs a rule of its own;
    /// a rule that a login brings along needs none, as EMQX has it.
    package func maySubscribe(
        _ filter: TopicFilter, _ identity: AccessIdentity, _ asking: AccessPermission
    ) -> AccessVerdict {
        verdict(filter, defaults.subscribes) { $0.maySubscribe($1, identity, asking) }
    }

    package func mayUnsubscribe(_ filter: TopicFilter, _ identity: AccessIdentity) -> AccessVerdict {
        verdict(filter, defaults.unsubscribes) { $0.mayUnsubscribe($1, identity) }
    }

    private func verdict(
        _ filter: TopicFilter, _ isGrantedByDefault: Bool, _ ask: (RoleRules, TopicFilterText) -> AccessVerdict
    ) -> AccessVerdict {
        guard let text = TopicFilterText(filter) else { return .denied }
        for role in roles {
            let verdict = ask(role, text)
            if verdict != .deferred { return verdict }
        }
        return filter.matchingBytes.withUnsafeBytes { fallback(isGrantedByDefault, $0) }
    }

    /// What was never spoken of. Nobody administers the broker by default.
    @inline(__always)
    private func fallback(_ isGranted: Bool, _ topic: UnsafeRawBufferPointer) -> AccessVerdict {
        isGranted && !topic.starts(with: "$CONTROL".utf8) ? .granted : .deferred
    }
}

/// Knows what users may do, and changes while the broker runs. Asked when a client connects and when its rights have
/// changed; for any thread.
public protocol RoleSource: AnyObject, Sendable {
    /// The rights of a user, of a client without a user name for nil; nil for a user that is not known here.
    func rights(of userName: EncodedString?) -> RoleRights?
    /// The same for a user who has groups and roles beside those that are kept of the user: nil only for one who is not
    /// known and has none.
    func rights(of userName: EncodedString?, in memberships: AccessMemberships) -> RoleRights?
    /// What stands before the user's topics in place of the listener's mount point; nil for nothing of its own.
    func mountPoint(of userName: EncodedString?, in memberships: AccessMemberships) -> MountPoint?
}

extension AccessControl {
    /// A user's own mount point, which takes the place of the listener's; nil for none.
    package func mountPoint(of userName: EncodedString?, in memberships: AccessMemberships) -> MountPoint? {
        roles?.mountPoint(of: userName, in: memberships)
    }
}

extension RoleSource {
    public func mountPoint(of userName: EncodedString?, in memberships: AccessMemberships) -> MountPoint? { nil }

    public func rights(of userName: EncodedString?, in memberships: AccessMemberships) -> RoleRights? { rights(of: userName) }
}
