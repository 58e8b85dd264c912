public import MQTTCodec
public import Security

/// What a broker begins with that has no file yet, the same as mosquitto's.
extension SecurityModel {
    /// The clients of a new file and their passwords, as they are typed.
    public struct FirstClients: Sendable {
        public var admin: String
        /// A client for trying things out; nil for none.
        public var demonstration: String?

        public init(admin: String, demonstration: String?) { (self.admin, self.demonstration) = (admin, demonstration) }
    }

    /// Roles for administrators, observers and clients; an administrator `admin`; and the group of those who do not log in.
    public static func first(_ clients: FirstClients, hash: (String) -> StoredPassword?) -> SecurityModel {
        var model = SecurityModel()
        model.addFirstRoles()
        model.addClient(
            "admin", "Admin user", roles: ["super-admin", "sys-observe", "topic-observe"], hash(clients.admin))
        if let password = clients.demonstration {
            let text = "Demonstration client with full read/write access to the '#' topic hierarchy."
            model.addClient("democlient", text, roles: ["client"], hash(password))
        }
        var group = Group()
        group.texts = Texts(
            name: "Unauthenticated group",
            description:
                "If unauthenticated access is allowed, this group can be used to define roles for clients that connect without a "
                + "password.")
        model.groups["unauthenticated"] = group
        model.anonymousGroup = "unauthenticated"
        return model
    }

    /// What `dynsec init` makes: one administrator of dynamic security, as mosquitto_ctrl does.
    public static func administered(by user: EncodedString, _ password: StoredPassword) -> SecurityModel {
        var model = SecurityModel()
        var role = Role()
        for topic in ["$CONTROL/dynamic-security/#", "$SYS/#", "#"] as [EncodedString] {
            if topic == "$CONTROL/dynamic-security/#" { role.allow(topic, .publishClientSend) }
            role.allow(topic, .publishClientReceive)
            role.allow(topic, .subscribePattern)
        }
        role.allow("#", .unsubscribePattern)
        model.roles["admin"] = role
        model.addClient(user, "Dynsec admin user", roles: ["admin"], password)
        return model
    }

    private mutating func addFirstRoles() {
        func full(_ topic: EncodedString, _ description: String) -> Role {
            var role = Role()
            role.texts.description = description
            for kind in [.publishClientSend, .publishClientReceive, .subscribePattern, .unsubscribePattern] as [RuleKind] {
                role.allow(topic, kind)
            }
            return role
        }
        roles["client"] = full("#", "Read/write access to the full application topic hierarchy.")
        roles["broker-admin"] = full("$CONTROL/broker/#", "Grants access to administer general broker configuration.")
        roles["dynsec-admin"] = full("$CONTROL/dynamic-security/#", "Grants access to administer clients/groups/roles.")
        roles["super-admin"] = full("$CONTROL/#", "Grants access to administer all kind of broker controls")
        var role = Role()
        role.texts.description = "Allow bridges to publish connection state messages."
        role.allow("$SYS/broker/connection/%c/state", .publishClientSend)
        roles["sys-notify"] = role
        role = Role()
        role.texts.description = "Observe the $SYS topic hierarchy."
        role.allow("$SYS/#", .publishClientReceive)
        role.allow("$SYS/#", .subscribePattern)
        roles["sys-observe"] = role
        role = Role()
        role.texts.description = "Read only access to the full application topic hierarchy."
        role.allow("#", .publishClientReceive)
        role.allow("#", .subscribePattern)
        role.allow("#", .unsubscribePattern)
        roles["topic-observe"] = role
    }

    private mutating func addClient(
        _ user: EncodedString, _ text: String, roles: [EncodedString], _ password: StoredPassword?
    ) {
        var client = Client()
        client.texts.name = text
        for role in roles { _ = client.roles.add(role, priority: -1) }
        client.password = password
        clients[user] = client
    }
}

extension SecurityModel.Role {
    fileprivate mutating func allow(_ topic: EncodedString, _ kind: SecurityModel.RuleKind) {
        _ = add(SecurityModel.Rule(topic: topic, priority: 0, allows: true), to: kind)
    }
}
