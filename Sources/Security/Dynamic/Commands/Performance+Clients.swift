import JSON
import MQTTCodec

/// Commands on clients.
extension Performance {
    mutating func createClient() throws(Refusal) {
        let user = try call.newName("username", "Username")
        let password = try call.optionalText("password")
        let identifier = try clientIdentifier(called: "client id")
        let texts = try call.texts()
        guard model.clients[user] == nil else { throw Refusal("Client already exists") }
        var client = SecurityModel.Client()
        client.texts = texts
        client.clientIdentifier = identifier
        try call.setMountPoint(&client.mountPoint)
        // With an empty one nobody logs in.
        if let password, !password.isEmpty { client.password = try hash(password) }
        client.roles = try call.roles(of: model, orInvalid: CommandCall.invalidRoles) ?? RankedNames()
        var groups: [RankedNames.Entry] = []
        for item in call.members.any("groups")?.array ?? [] {
            guard let members = item.object, let text = members.any("groupname")?.string else { continue }
            guard let name = EncodedString(text), model.groups[name] != nil else { throw Refusal("Group not found") }
            guard !groups.contains(where: { $0.name == name }) else { throw Refusal("Internal error") }
            groups.append(RankedNames.Entry(name: name, priority: CommandCall.priority(members)))
        }
        model.clients[user] = client
        for group in groups { join(user, group) }
        changes.clients.insert(user)
        // Who is connected by another login of this name may have rights now.
        changes.renewed.users.insert(user)
        changed()
        record("username", user)
        record("password", password == nil ? "no password" : "*****")
    }

    mutating func deleteClient() throws(Refusal) {
        let text = try call.text("username")
        guard let user = EncodedString(text), model.clients[user] != nil else { throw Refusal("Client not found") }
        changes.groups.formUnion(model.clients[user]?.groups.entries.map(\.name) ?? [])
        model.leaveAllGroups(user)
        model.clients[user] = nil
        enforce(on: user)
        record("username", user)
    }

    mutating func setDisabled(_ isDisabled: Bool) throws(Refusal) {
        let user = try knownUser()
        model.clients.update(user) { $0.isDisabled = isDisabled }
        if isDisabled {
            enforce(on: user)
        } else {
            changes.clients.insert(user)
            changes.renewed.users.insert(user)
            changed()
        }
        record("username", user)
    }

    mutating func setClientIdentifier() throws(Refusal) {
        let user = try call.user()
        let identifier = try clientIdentifier(called: "client ID")
        try known(user)
        model.clients.update(user) { $0.clientIdentifier = identifier }
        enforce(on: user)
        record("username", user)
        record("clientid", identifier)
    }

    mutating func setClientPassword() throws(Refusal) {
        let user = try call.user()
        let password = try call.text("password")
        guard !password.isEmpty else { throw Refusal("Empty password is not allowed") }
        try known(user)
        let hash = try hash(password)
        model.clients.update(user) { $0.password = hash }
        enforce(on: user)
        record("username", user)
        record("password", "******")
    }

    mutating func modifyClient() throws(Refusal) {
        let user = try knownUser()
        guard var client = model.clients[user] else { return }
        if let text = call.anyText("clientid") {
            client.clientIdentifier = text.isEmpty ? nil : try CommandCall.name(text, "Client ID")
        }
        if let name = call.anyText("textname") { client.texts.name = name }
        if let description = call.anyText("textdescription") { client.texts.description = description }
        try call.setMountPoint(&client.mountPoint)
        if let roles = try call.roles(of: model, orInvalid: CommandCall.invalidRoles) { client.roles = roles }
        var groups: [RankedNames.Entry]?
        if let list = call.members.any("groups")?.array {
            groups = []
            for item in list {
                guard let members = item.object else { continue }
                guard let text = members.any("groupname")?.string else {
                    throw Refusal("'groups' contains an object with an invalid 'groupname'")
                }
                guard let name = EncodedString(text), model.groups[name] != nil else {
                    throw Refusal("'groups' contains an object with a 'groupname' that does not exist")
                }
                groups?.append(RankedNames.Entry(name: name, priority: CommandCall.priority(members)))
            }
        }
        if let password = call.anyText("password"), !password.isEmpty { client.password = try hash(password) }
        model.clients[user] = client
        if let groups {
            changes.groups.formUnion(client.groups.entries.map(\.name))
            model.leaveAllGroups(user)
            for group in groups { join(user, group) }
        }
        enforce(on: user)
        record("username", user)
    }

    mutating func addClientRole() throws(Refusal) {
        let (user, role, priority) = (try call.user(), try call.role(), call.priority())
        try known(user)
        guard model.roles[role] != nil else { throw Refusal("Role not found") }
        // Upstream's words for a role that the client has.
        guard model.clients[user]?.roles.contains(role) == false else { throw Refusal("Internal error") }
        model.clients.update(user) { _ = $0.roles.add(role, priority: priority) }
        enforce(on: user)
        record("username", user)
        record("rolename", role)
        record("priority", priority)
    }

    mutating func removeClientRole() throws(Refusal) {
        let (user, role) = (try call.user(), try call.role())
        try known(user)
        guard model.roles[role] != nil else { throw Refusal("Role not found") }
        model.clients.update(user) { $0.roles.remove(role) }
        enforce(on: user)
        record("username", user)
        record("rolename", role)
    }

    mutating func getClient() throws(Refusal) {
        let user = try knownUser()
        let (model, context) = (model, context)
        report { data in data.member("client") { $0.add(client: user, of: model, context) } }
        record("username", user)
    }

    // MARK: -

    func hash(_ password: String) throws(Refusal) -> StoredPassword {
        guard let hash = context.hash(password) else { throw Refusal("Internal error") }
        return hash
    }

    func known(_ user: EncodedString) throws(Refusal) {
        guard model.clients[user] != nil else { throw Refusal("Client not found") }
    }

    private func knownUser() throws(Refusal) -> EncodedString {
        let user = try call.user()
        try known(user)
        return user
    }

    private func clientIdentifier(called words: String) throws(Refusal) -> EncodedString? {
        guard let text = try call.optionalText("clientid", called: words) else { return nil }
        let identifier = try CommandCall.name(text, "Client ID")
        return identifier.isEmpty ? nil : identifier
    }

    private mutating func join(_ user: EncodedString, _ group: RankedNames.Entry) {
        _ = model.join(user, group.name, priority: group.priority)
        changes.groups.insert(group.name)
    }

    /// A client is another now, which its connections have to go for.
    mutating func enforce(on user: EncodedString) {
        changes.clients.insert(user)
        changes.kicked.users.insert(user)
        changed()
    }
}
