import JSON
import MQTTCodec

/// Clients, groups and roles as answers and files have them.
extension JSONWriter {
    mutating func set(_ name: String, _ value: EncodedString) { set(name, utf8: value.bytes) }

    /// A member whose value is what `body` adds.
    mutating func member(_ name: String, _ body: (inout JSONWriter) -> Void) {
        member(name.utf8, body)
    }

    mutating func set(_ texts: SecurityModel.Texts) {
        if let name = texts.name { set("textname", name) }
        if let description = texts.description { set("textdescription", description) }
    }

    /// - Parameter kind: what the names are called: `rolename`.
    mutating func array(_ name: String, of kind: String, _ names: RankedNames) {
        array(name) { list in
            for entry in names.entries {
                list.object { object in
                    object.set(kind, entry.name)
                    if entry.priority != -1 { object.set("priority", entry.priority) }
                }
            }
        }
    }

    mutating func setClient(_ user: EncodedString, _ client: SecurityModel.Client) {
        set("username", user)
        if let identifier = client.clientIdentifier { set("clientid", identifier) }
        set(client.texts)
        if client.isDisabled { set("disabled", true) }
        array("roles", of: "rolename", client.roles)
    }

    mutating func setRole(_ name: EncodedString, _ role: SecurityModel.Role) {
        set("rolename", name)
        set(role.texts)
        set("allowwildcardsubs", role.allowsWildcards)
        array("acls") { list in
            for kind in SecurityModel.RuleKind.allCases {
                for rule in role.rules[kind] ?? [] {
                    list.object { object in
                        object.set("acltype", kind.rawValue)
                        object.set("topic", rule.topic)
                        object.set("priority", rule.priority)
                        object.set("allow", rule.allows)
                    }
                }
            }
        }
    }

    // MARK: In answers

    mutating func add(client user: EncodedString, of model: SecurityModel, _ context: SecurityContext) {
        guard let client = model.clients[user] else { return }
        object { object in
            object.setClient(user, client)
            object.array("groups", of: "groupname", client.groups)
            object.array("connections") { list in
                for address in context.addresses(user) { list.object { $0.set("address", address) } }
            }
        }
    }

    mutating func add(group name: EncodedString, of model: SecurityModel) {
        guard let group = model.groups[name] else { return }
        object { object in
            object.set("groupname", name)
            object.set(group.texts)
            object.array("clients") { list in for user in group.clients.names { list.object { $0.set("username", user) } } }
            object.array("roles", of: "rolename", group.roles)
        }
    }

    mutating func add(role name: EncodedString, of model: SecurityModel) {
        guard let role = model.roles[name] else { return }
        object { $0.setRole(name, role) }
    }
}
