import MQTTCodec

/// What has changed between two states, where the commands in between are not known.
extension SecurityChanges {
    /// Who is touched is touched as by the commands that would have led there: a client whose login, roles or groups are others has to
    /// go, and whoever may come in now and could not before stays. Texts touch nobody.
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
                && old.groups == new.groups
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
            guard let new = after.groups[name], new.roles != before.groups[name]?.roles else { continue }
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
        allowsWildcards == other.allowsWildcards
            && SecurityModel.RuleKind.allCases.allSatisfy { (rules[$0] ?? []) == (other.rules[$0] ?? []) }
    }
}
