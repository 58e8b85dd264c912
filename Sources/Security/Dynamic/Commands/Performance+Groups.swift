import JSON
import MQTTCodec

/// Commands on groups.
extension Performance {
    mutating func createGroup() throws(Refusal) {
        let name = try call.newName("groupname", "Group name")
        let texts = try call.texts()
        guard model.groups[name] == nil else { throw Refusal("Group already exists") }
        var group = SecurityModel.Group()
        group.texts = texts
        try call.setMountPoint(&group.mountPoint)
        group.roles = try call.roles(of: model, orInvalid: "Internal error") ?? RankedNames()
        model.groups[name] = group
        changes.groups.insert(name)
        changed()
        record("groupname", name)
    }

    mutating func deleteGroup() throws(Refusal) {
        let name = try knownGroup()
        guard model.anonymousGroup != name else { throw Refusal("Deleting the anonymous group is forbidden") }
        let members = model.members(of: name)
        for user in members.users { model.leave(user, name) }
        changes.clients.formUnion(members.users)
        model.groups[name] = nil
        enforce(on: name, members)
        record("groupname", name)
    }

    mutating func modifyGroup() throws(Refusal) {
        let name = try knownGroup()
        let (textName, textDescription) = (call.anyText("textname"), call.anyText("textdescription"))
        let roles = try call.roles(of: model, orInvalid: CommandCall.invalidRoles)
        var clients: [RankedNames.Entry]?
        if let list = call.members.any("clients")?.array {
            clients = []
            for item in list {
                guard let members = item.object else { continue }
                guard let text = members.any("username")?.string else {
                    throw Refusal("'clients' contains an object with an invalid 'username'")
                }
                guard let user = EncodedString(text), model.clients[user] != nil else {
                    throw Refusal("'clients' contains an object with a 'username' that does not exist")
                }
                clients?.append(RankedNames.Entry(name: user, priority: CommandCall.priority(members)))
            }
        }
        var mountPoint = model.groups[name]?.mountPoint
        try call.setMountPoint(&mountPoint)
        var people = model.members(of: name)
        if let clients {
            for user in people.users { model.leave(user, name) }
            for client in clients { _ = model.join(client.name, name, priority: client.priority) }
            people.formUnion(model.members(of: name))
            changes.clients.formUnion(people.users)
        }
        model.groups.update(name) { group in
            if let textName { group.texts.name = textName }
            if let textDescription { group.texts.description = textDescription }
            if let roles { group.roles = roles }
            group.mountPoint = mountPoint
        }
        enforce(on: name, people)
        record("groupname", name)
    }

    mutating func addGroupClient() throws(Refusal) {
        let (user, group, priority) = (try call.user(), try call.group(), call.priority())
        try known(user)
        guard model.groups[group] != nil else { throw Refusal("Group not found") }
        guard model.join(user, group, priority: priority) else { throw Refusal("Client is already in this group") }
        changes.groups.insert(group)
        enforce(on: user)
        record("groupname", group)
        record("username", user)
        record("priority", priority)
    }

    mutating func removeGroupClient() throws(Refusal) {
        let (user, group) = (try call.user(), try call.group())
        try known(user)
        guard model.groups[group] != nil else { throw Refusal("Group not found") }
        model.leave(user, group)
        changes.groups.insert(group)
        enforce(on: user)
        record("groupname", group)
        record("username", user)
    }

    mutating func addGroupRole() throws(Refusal) {
        let (group, role, priority) = (try call.group(), try call.role(), call.priority())
        guard model.groups[group] != nil else { throw Refusal("Group not found") }
        guard model.roles[role] != nil else { throw Refusal("Role not found") }
        guard model.groups[group]?.roles.contains(role) == false else { throw Refusal("Group is already in this role") }
        model.groups.update(group) { _ = $0.roles.add(role, priority: priority) }
        enforce(on: group, model.members(of: group))
        record("groupname", group)
        record("rolename", role)
        record("priority", priority)
    }

    mutating func removeGroupRole() throws(Refusal) {
        let (group, role) = (try call.group(), try call.role())
        guard model.groups[group] != nil else { throw Refusal("Group not found") }
        guard model.roles[role] != nil else { throw Refusal("Role not found") }
        model.groups.update(group) { $0.roles.remove(role) }
        enforce(on: group, model.members(of: group))
        record("groupname", group)
        record("rolename", role)
    }

    mutating func setAnonymousGroup() throws(Refusal) {
        let group = try knownGroup()
        model.anonymousGroup = group
        changes.kicked.hasAnonymous = true
        changed()
        record("groupname", group)
    }

    mutating func getAnonymousGroup() {
        let name = model.anonymousGroup
        report { data in data.object("group") { $0.set("groupname", name.map { "\($0)" } ?? "") } }
    }

    mutating func getGroup() throws(Refusal) {
        let (group, model) = (try knownGroup(), model)
        report { data in data.member("group") { $0.add(group: group, of: model) } }
        record("groupname", group)
    }

    // MARK: -

    private func knownGroup() throws(Refusal) -> EncodedString {
        let group = try call.group()
        guard model.groups[group] != nil else { throw Refusal("Group not found") }
        return group
    }

    private mutating func enforce(on group: EncodedString, _ people: SecurityChanges.People) {
        changes.groups.insert(group)
        changes.kicked.formUnion(people)
        changed()
    }
}
