import JSON
import MQTTCodec

/// Commands on roles.
extension Performance {
    mutating func createRole() throws(Refusal) {
        let name = try call.newName("rolename", "Role name")
        let texts = try call.texts()
        let wildcards = call.members.any("allowwildcardsubs")
        guard wildcards == nil || wildcards?.boolean != nil else { throw Refusal("Invalid allowwildcardsubs") }
        guard model.roles[name] == nil else { throw Refusal("Role already exists") }
        var role = CommandCall.rules(call.members.any("acls")?.array ?? [])
        role.texts = texts
        role.allowsWildcards = wildcards?.boolean ?? true
        model.roles[name] = role
        changes.roles.insert(name)
        changed()
        note("rolename", name)
    }

    mutating func deleteRole() throws(Refusal) {
        let name = try knownRole(orElse: "Role not found")
        let people = model.holders(of: name)
        for user in people.users where model.clients[user]?.roles.contains(name) == true {
            model.clients.update(user) { $0.roles.remove(name) }
            changes.clients.insert(user)
        }
        for group in model.groups.names where model.groups[group]?.roles.contains(name) == true {
            model.groups.update(group) { $0.roles.remove(name) }
            changes.groups.insert(group)
        }
        model.roles[name] = nil
        enforce(onRole: name, people)
        note("rolename", name)
    }

    mutating func modifyRole() throws(Refusal) {
        let name = try knownRole(orElse: "Role does not exist")
        guard var role = model.roles[name] else { return }
        if let text = call.anyText("textname") { role.texts.name = text }
        if let text = call.anyText("textdescription") { role.texts.description = text }
        var isOther = false
        if let allows = call.members.any("allowwildcardsubs")?.boolean, allows != role.allowsWildcards {
            role.allowsWildcards = allows
            isOther = true
        }
        if let list = call.members.any("acls")?.array {
            role.rules = CommandCall.rules(list).rules
            isOther = true
        }
        model.roles[name] = role
        if isOther { enforce(onRole: name, model.holders(of: name)) } else { changed() }
        note("rolename", name)
    }

    mutating func addRoleACL() throws(Refusal) {
        let name = try knownRole(orElse: "Role not found")
        let (kind, topic) = try rule()
        let rule = SecurityModel.Rule(topic: topic, priority: call.priority(otherwise: 0), allows: call.flag("allow"))
        var isNew = false
        model.roles.update(name) { isNew = $0.add(rule, to: kind) }
        guard isNew else { throw Refusal("ACL with this topic already exists") }
        enforce(onRole: name, model.holders(of: name))
        note("rolename", name)
        note("acltype", kind.rawValue)
        note("topic", topic)
        note("priority", rule.priority)
        note("allow", rule.allows)
    }

    mutating func removeRoleACL() throws(Refusal) {
        let name = try knownRole(orElse: "Role not found")
        let (kind, topic) = try rule()
        guard model.roles[name]?.rules[kind]?.contains(where: { $0.topic == topic }) == true else {
            throw Refusal("ACL not found")
        }
        model.roles.update(name) { $0.rules[kind]?.removeAll { $0.topic == topic } }
        enforce(onRole: name, model.holders(of: name))
        note("rolename", name)
        note("acltype", kind.rawValue)
        note("topic", topic)
    }

    mutating func getRole() throws(Refusal) {
        let (role, model) = (try knownRole(orElse: "Role not found"), model)
        tell { data in data.member("role") { $0.add(role: role, of: model) } }
        note("rolename", role)
    }

    // MARK: -

    private func knownRole(orElse words: String) throws(Refusal) -> EncodedString {
        let role = try call.role()
        guard model.roles[role] != nil else { throw Refusal(words) }
        return role
    }

    /// What the command says of a single rule.
    private func rule() throws(Refusal) -> (SecurityModel.RuleKind, EncodedString) {
        let type = try call.text("acltype")
        guard let kind = CommandCall.kind(named: type) else { throw Refusal("Unknown acltype") }
        let topic = try CommandCall.name(try call.text("topic"), "Topic")
        guard Self.isFilter(topic) else { throw Refusal("Invalid ACL topic") }
        return (kind, topic)
    }

    /// Whether `+` and `#` fill their levels, and `#` is the last. Unlike a subscription it may begin with anything.
    private static func isFilter(_ topic: EncodedString) -> Bool {
        let levels = topic.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return !topic.isEmpty
            && levels.enumerated().allSatisfy { place, level in
                guard level.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }) else { return true }
                return level.count == 1 && (level.first == UInt8(ascii: "+") || place == levels.count - 1)
            }
    }

    private mutating func enforce(onRole role: EncodedString, _ people: SecurityChanges.People) {
        changes.roles.insert(role)
        changes.kicked.formUnion(people)
        changed()
    }
}
