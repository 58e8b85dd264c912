public import BrokerModel
import JSON
public import MQTTCodec

/// The clients, groups and roles of dynamic security, as mosquitto's plug-in keeps them.
///
///     client ──► roles, by priority        group ──► roles, by priority
///        └─────► groups, by priority ◄──────┘ clients, by name
///
/// Invariants: a client names a group exactly if the group names the client; every role and group that is named is
/// there.
public struct SecurityModel: Sendable {
    /// Somebody who may log in. Known by their user name.
    public struct Client: Sendable {
        /// The only Client Identifier that they may use; nil for any.
        public var clientIdentifier: EncodedString?
        public var texts = Texts()
        /// What stands before their topics in place of the listener's mount point; nil for what groups and roles say.
        public var mountPoint: MountPoint?
        public var isDisabled = false
        public var roles = RankedNames()
        public var groups = RankedNames()
        /// Nil for somebody who cannot log in.
        public var password: StoredPassword?
        var unknown: [(name: String, value: JSONValue)] = []
    }

    /// Clients who have roles together.
    public struct Group: Sendable {
        public var texts = Texts()
        /// The same of its clients.
        public var mountPoint: MountPoint?
        public var roles = RankedNames()
        /// The priority of each client's membership; -1 where none is given.
        public var clients = NameTable<Int>()
        var unknown: [(name: String, value: JSONValue)] = []
    }

    /// What those may do who have it.
    public struct Role: Sendable {
        public var texts = Texts()
        /// The same of those who have it.
        public var mountPoint: MountPoint?
        public var allowsWildcards = true
        public var rules: [RuleKind: [Rule]] = [:]
        var unknown: [(name: String, value: JSONValue)] = []
    }

    /// One line of a role.
    public struct Rule: Sendable, Equatable {
        public var topic: EncodedString
        public var priority: Int
        public var allows: Bool
        public var condition = Condition()

        /// Whether both are about the same: a role has one such rule of a kind.
        func isAbout(sameAs other: Rule) -> Bool { topic == other.topic && condition == other.condition }
    }

    /// What a rule asks beside the topic, which mosquitto's cannot: a file without it is mosquitto's.
    public struct Condition: Sendable, Equatable {
        /// The QoS that a message may have, ascending; empty for any. Of what is published only.
        public var qos: [QoS] = []
        /// Whether it is retained; nil for either. Of what is published only.
        public var retain: Bool?
        /// The networks of which the client comes from one; empty for anywhere.
        public var networks: [AddressRange] = []

        public init() {}

        var messages: AccessPermission {
            if qos.isEmpty, retain == nil { return .someWrite }
            return .messages(
                qos: qos.isEmpty ? [.atMostOnce, .atLeastOnce, .exactlyOnce] : qos, retain: retain.map { [$0] } ?? [true, false])
        }
    }

    /// What a rule is about, by the name that commands and files have for it. In the order of files.
    public enum RuleKind: String, Sendable, CaseIterable {
        case publishClientSend
        case publishClientReceive
        case subscribeLiteral
        case subscribePattern
        case unsubscribeLiteral
        case unsubscribePattern
    }

    /// What people read.
    public struct Texts: Sendable, Equatable {
        public var name: String?
        public var description: String?
    }

    public var clients = NameTable<Client>()
    public var groups = NameTable<Group>()
    public var roles = NameTable<Role>()
    public var defaults = RoleRights.Defaults()
    /// The group whose roles clients without a user name have.
    public var anonymousGroup: EncodedString?
    /// How often it was changed.
    public var changeIndex: Int64 = 0
    var unknown: [(name: String, value: JSONValue)] = []

    public init() {}

    /// Priorities are no larger and no smaller.
    static func bounded(_ priority: Int64) -> Int { Int(max(-100_000, min(100_000, priority))) }
}

/// Names with priorities: the highest first, and those of the same in the order of their bytes.
public struct RankedNames: Sendable, Equatable {
    public struct Entry: Sendable, Equatable {
        public var name: EncodedString
        /// -1 where none was given.
        public var priority: Int
    }

    public private(set) var entries: [Entry] = []

    public init() {}

    public func contains(_ name: EncodedString) -> Bool { entries.contains { $0.name == name } }

    /// Adds a name; false if it is there already, whatever its priority.
    mutating func add(_ name: EncodedString, priority: Int) -> Bool {
        guard !contains(name) else { return false }
        let place = entries.firstIndex { entry in
            entry.priority != priority
                ? entry.priority < priority : name.bytes.lexicographicallyPrecedes(entry.name.bytes)
        }
        entries.insert(Entry(name: name, priority: priority), at: place ?? entries.endIndex)
        return true
    }

    mutating func remove(_ name: EncodedString) { entries.removeAll { $0.name == name } }
}

extension SecurityModel.Role {
    /// Adds a rule behind those of the same or a higher priority; false if there is one of this kind for the topic, and
    /// for the same messages and networks.
    mutating func add(_ rule: SecurityModel.Rule, to kind: SecurityModel.RuleKind) -> Bool {
        var list = rules[kind] ?? []
        guard !list.contains(where: { $0.isAbout(sameAs: rule) }) else { return false }
        list.insert(rule, at: list.firstIndex { $0.priority < rule.priority } ?? list.endIndex)
        rules[kind] = list
        return true
    }

    /// Ready to be asked on the loops. A rule whose topic is no filter is about nothing.
    func compiled(name: EncodedString) -> RoleRules {
        func patterns(_ kind: SecurityModel.RuleKind) -> [RoleRule] {
            (rules[kind] ?? []).compactMap { rule in
                AccessFilter(rule.topic.bytes, isPattern: true).map {
                    RoleRule($0, allows: rule.allows, messages: rule.condition.messages, networks: rule.condition.networks)
                }
            }
        }
        func filters(_ literal: SecurityModel.RuleKind, _ pattern: SecurityModel.RuleKind) -> RoleRules.Filters {
            var filters = RoleRules.Filters()
            for rule in rules[literal] ?? [] {
                filters.add(literal: rule.topic, allows: rule.allows, networks: rule.condition.networks)
            }
            filters.patterns = patterns(pattern)
            return filters
        }
        return RoleRules(
            name: name, allowsWildcards: allowsWildcards, sending: patterns(.publishClientSend),
            receiving: patterns(.publishClientReceive), subscribing: filters(.subscribeLiteral, .subscribePattern),
            unsubscribing: filters(.unsubscribeLiteral, .unsubscribePattern))
    }
}

// MARK: - Memberships

extension SecurityModel {
    /// Makes a client a member; false if it is one. Both must be there.
    mutating func join(_ user: EncodedString, _ group: EncodedString, priority: Int) -> Bool {
        guard groups[group]?.clients[user] == nil else { return false }
        groups.update(group) { $0.clients[user] = priority }
        clients.update(user) { _ = $0.groups.add(group, priority: priority) }
        return true
    }

    mutating func leave(_ user: EncodedString, _ group: EncodedString) {
        groups.update(group) { $0.clients[user] = nil }
        clients.update(user) { $0.groups.remove(group) }
    }

    mutating func leaveAllGroups(_ user: EncodedString) {
        for entry in clients[user]?.groups.entries ?? [] { leave(user, entry.name) }
    }

    /// The people who have a role, by themselves or by a group.
    func holders(of role: EncodedString) -> SecurityChanges.People {
        var people = SecurityChanges.People()
        for user in clients.names where clients[user]?.roles.contains(role) == true { people.users.insert(user) }
        for group in groups.names where groups[group]?.roles.contains(role) == true { people.formUnion(members(of: group)) }
        return people
    }

    /// The people who are in a group; of the anonymous one, also those without a user name.
    func members(of group: EncodedString) -> SecurityChanges.People {
        SecurityChanges.People(users: Set(groups[group]?.clients.names ?? []), hasAnonymous: anonymousGroup == group)
    }
}

/// What commands have changed.
public struct SecurityChanges: Sendable {
    /// Some of those who may connect.
    public struct People: Sendable, Equatable {
        public var users: Set<EncodedString> = []
        /// Whether clients without a user name are among them.
        public var hasAnonymous = false

        public init(users: Set<EncodedString> = [], hasAnonymous: Bool = false) {
            (self.users, self.hasAnonymous) = (users, hasAnonymous)
        }

        public var isEmpty: Bool { users.isEmpty && !hasAnonymous }

        mutating func formUnion(_ other: People) {
            // Many at a time, mostly, and once.
            if users.isEmpty { users = other.users } else { users.formUnion(other.users) }
            hasAnonymous = hasAnonymous || other.hasAnonymous
        }
    }

    /// The users whose connections are to end, once the answer has left.
    public internal(set) var kicked = People()
    /// The users whose rights have changed, and whose connections stay.
    public internal(set) var renewed = People()
    /// Whether everybody's rights may be others.
    public internal(set) var hasNewDefaults = false
    /// The clients, groups and roles themselves.
    var clients: Set<EncodedString> = []
    var groups: Set<EncodedString> = []
    var roles: Set<EncodedString> = []
    /// Whether there is anything to save.
    public internal(set) var isEmpty = true
    /// Whether groups or roles are others, which somebody may have by a certificate.
    public var concernsMembers: Bool { !groups.isEmpty || !roles.isEmpty }

    public init() {}
}

/// What has changed between two states, where the commands in between are not known.
extension SecurityChanges {
    /// The changes from one model to another, as the commands that lead there would make them: a client whose login,
    /// roles or groups have changed is disconnected, a client that may connect now and could not before stays. Texts
    /// change nothing.
    init(from before: SecurityModel, to after: SecurityModel) {
        self.init()
        isEmpty = false
        compareClients(before, after)
        compareGroups(before, after)
        compareRoles(before, after)
        hasNewDefaults = before.defaults != after.defaults
        if before.anonymousGroup != after.anonymousGroup { kicked.hasAnonymous = true }
    }

    private mutating func compareClients(_ before: SecurityModel, _ after: SecurityModel) {
        for user in before.clients.names where after.clients[user] == nil {
            clients.insert(user)
            kicked.users.insert(user)
        }
        for user in after.clients.names {
            guard let new = after.clients[user] else { continue }
            guard let old = before.clients[user] else {
                clients.insert(user)
                // Who is connected by another login of this name may have rights now.
                renewed.users.insert(user)
                continue
            }
            let isSame =
                old.clientIdentifier == new.clientIdentifier && old.password == new.password && old.roles == new.roles
                && old.groups == new.groups && old.mountPoint == new.mountPoint
            if isSame, old.isDisabled == new.isDisabled { continue }
            clients.insert(user)
            if isSame, !new.isDisabled { renewed.users.insert(user) } else { kicked.users.insert(user) }
        }
    }

    private mutating func compareGroups(_ before: SecurityModel, _ after: SecurityModel) {
        for name in before.groups.names where after.groups[name] == nil {
            groups.insert(name)
            kicked.formUnion(before.members(of: name))
        }
        for name in after.groups.names {
            guard let new = after.groups[name],
                new.roles != before.groups[name]?.roles || new.mountPoint != before.groups[name]?.mountPoint
            else { continue }
            groups.insert(name)
            guard before.groups[name] != nil else { continue }
            kicked.formUnion(after.members(of: name))
        }
    }

    private mutating func compareRoles(_ before: SecurityModel, _ after: SecurityModel) {
        for name in before.roles.names where after.roles[name] == nil {
            roles.insert(name)
            kicked.formUnion(before.holders(of: name))
        }
        for name in after.roles.names {
            guard let new = after.roles[name] else { continue }
            if let old = before.roles[name] {
                guard !old.allows(sameAs: new) else { continue }
                kicked.formUnion(after.holders(of: name))
            }
            roles.insert(name)
        }
    }
}

extension SecurityModel.Role {
    /// Whether who has the one may do what who has the other may.
    fileprivate func allows(sameAs other: Self) -> Bool {
        allowsWildcards == other.allowsWildcards && mountPoint == other.mountPoint
            && SecurityModel.RuleKind.allCases.allSatisfy { (rules[$0] ?? []) == (other.rules[$0] ?? []) }
    }
}

/// Values by name, in the order of the names' bytes. A change moves the names behind it; looking one up is O(1).
public struct NameTable<Value: Sendable>: Sendable {
    /// In the order of their bytes.
    public private(set) var names: [EncodedString] = []
    private var values: [EncodedString: Value] = [:]

    public init() {}

    public var count: Int { names.count }

    public subscript(name: EncodedString) -> Value? {
        get { values[name] }
        set {
            let isThere = values[name] != nil
            switch (isThere, newValue) {
            case (false, let value?):
                names.insert(name, at: index(of: name))
                values[name] = value
            case (true, let value?): values[name] = value
            case (true, nil):
                names.remove(at: index(of: name))
                values[name] = nil
            case (false, nil): return
            }
        }
    }

    /// Changes the value of a name in place; nothing happens if there is none.
    mutating func update(_ name: EncodedString, _ body: (inout Value) -> Void) {
        guard let index = values.index(forKey: name) else { return }
        body(&values.values[index])
    }

    /// Where a name stands, or would.
    private func index(of name: EncodedString) -> Int {
        var (low, high) = (0, names.count)
        while low < high {
            let middle = (low + high) / 2
            if names[middle].bytes.lexicographicallyPrecedes(name.bytes) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
