import BrokerModel
import JSON
import JSONReader
public import MQTTCodec

/// mosquitto's file of clients, groups and roles, 2.1's and 2.0's. What it holds and nobody here knows stays in it.
public enum SecurityFile {
    /// Why a text is no such file, as the end of a sentence.
    public struct Complaint: Error, Equatable, CustomStringConvertible {
        public let description: String
    }

    /// Reads the bytes of a file. What names somebody who is not there is passed over, as with mosquitto.
    public static func model(reading bytes: [UInt8]) throws(Complaint) -> SecurityModel {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes, bytesMax: Limits.securityDocumentBytesMax)
        } catch {
            throw Complaint(description: "is not valid JSON: \(error).")
        }
        guard let root = value.object else { throw Complaint(description: "is not a JSON object with clients, groups and roles.") }
        var model = SecurityModel()
        try readRoles(try list("roles", in: root), into: &model)
        try readClients(try list("clients", in: root), into: &model)
        try readGroups(try list("groups", in: root), into: &model)
        if let name = root.any("anonymousGroup")?.string.flatMap({ EncodedString($0) }), model.groups[name] != nil {
            model.anonymousGroup = name
        }
        // What a file leaves out it does not grant, as with mosquitto.
        let defaults = root.any("defaultACLAccess")?.object
        model.defaults.publishes = defaults?.any("publishClientSend")?.boolean ?? false
        model.defaults.receives = defaults?.any("publishClientReceive")?.boolean ?? false
        model.defaults.subscribes = defaults?.any("subscribe")?.boolean ?? false
        model.defaults.unsubscribes = defaults?.any("unsubscribe")?.boolean ?? false
        model.changeIndex = root.any("changeIndex")?.integer ?? 0
        model.unknown = unknown(
            in: root, but: ["defaultaclaccess", "clients", "groups", "roles", "anonymousgroup", "changeindex"])
        return model
    }

    private static func list(_ name: String, in root: JSONMembers) throws(Complaint) -> [JSONMembers] {
        guard let value = root.any(name) else { return [] }
        guard let list = value.array else { throw Complaint(description: "has \"\(name)\" that is not a list.") }
        return list.compactMap(\.object)
    }

    private static func name(_ member: String, in members: JSONMembers) -> EncodedString? {
        members.any(member)?.string.flatMap { $0.isEmpty ? nil : EncodedString($0) }
    }

    private static func texts(in members: JSONMembers) -> SecurityModel.Texts {
        SecurityModel.Texts(name: members.any("textname")?.string, description: members.any("textdescription")?.string)
    }

    private static func mountPoint(in members: JSONMembers, of name: EncodedString) throws(Complaint) -> MountPoint? {
        guard let value = members.any("mountpoint"), value != .null, value.string != "" else { return nil }
        guard let mountPoint = value.string.flatMap({ MountPoint(checked: $0) }) else {
            throw Complaint(
                description:
                    "has a mountpoint of \"\(name)\" that is none: + and # do not belong there, and of places only %u, %c and "
                    + "%{client_attrs.NAME}.")
        }
        return mountPoint
    }

    private static func roles(in members: JSONMembers, of model: SecurityModel) -> RankedNames {
        var roles = RankedNames()
        for item in members.any("roles")?.array ?? [] {
            guard let members = item.object, let name = name("rolename", in: members), model.roles[name] != nil else { continue }
            _ = roles.add(name, priority: CommandCall.priority(members))
        }
        return roles
    }

    private static func readRoles(_ list: [JSONMembers], into model: inout SecurityModel) throws(Complaint) {
        for members in list {
            guard let name = name("rolename", in: members), model.roles[name] == nil else { continue }
            var role: SecurityModel.Role
            do throws(Refusal) {
                role = try CommandCall.rules(members.any("acls")?.array ?? [])
            } catch {
                throw Complaint(description: "has a role \"\(name)\" with a rule that cannot be kept: \(error.words).")
            }
            role.texts = texts(in: members)
            role.mountPoint = try mountPoint(in: members, of: name)
            role.allowsWildcards = members.any("allowwildcardsubs")?.boolean ?? true
            role.unknown = unknown(
                in: members, but: ["rolename", "textname", "textdescription", "mountpoint", "allowwildcardsubs", "acls"])
            model.roles[name] = role
        }
    }

    private static func readClients(_ list: [JSONMembers], into model: inout SecurityModel) throws(Complaint) {
        for members in list {
            guard let name = name("username", in: members), model.clients[name] == nil else { continue }
            var client = SecurityModel.Client()
            client.clientIdentifier = Self.name("clientid", in: members)
            client.texts = texts(in: members)
            client.mountPoint = try mountPoint(in: members, of: name)
            client.isDisabled = members.any("disabled")?.boolean ?? false
            client.roles = roles(in: members, of: model)
            client.password = password(in: members)
            var known = ["username", "clientid", "textname", "textdescription", "mountpoint", "disabled", "roles"]
            // A hash of a kind that is not known here stays for who knows it.
            if client.password != nil { known += passwordMembers }
            client.unknown = unknown(in: members, but: known)
            model.clients[name] = client
        }
    }

    private static let passwordMembers = ["encoded_password", "password", "salt", "iterations"]

    private static func password(in members: JSONMembers) -> StoredPassword? {
        if let text = members.any("encoded_password")?.string { return StoredPassword(text) }
        guard let digest = members.any("password")?.string, let salt = members.any("salt")?.string,
            let iterations = members.any("iterations")?.integer
        else { return nil }
        return StoredPassword("$7$\(iterations)$\(salt)$\(digest)")
    }

    private static func readGroups(_ list: [JSONMembers], into model: inout SecurityModel) throws(Complaint) {
        for members in list {
            guard let name = name("groupname", in: members), model.groups[name] == nil else { continue }
            var group = SecurityModel.Group()
            group.texts = texts(in: members)
            group.mountPoint = try mountPoint(in: members, of: name)
            group.roles = roles(in: members, of: model)
            group.unknown = unknown(
                in: members, but: ["groupname", "textname", "textdescription", "mountpoint", "roles", "clients"])
            model.groups[name] = group
            for item in members.any("clients")?.array ?? [] {
                guard let members = item.object, let user = Self.name("username", in: members), model.clients[user] != nil else {
                    continue
                }
                _ = model.join(user, name, priority: CommandCall.priority(members))
            }
        }
    }

    private static func unknown(in members: JSONMembers, but known: [String]) -> [(name: String, value: JSONValue)] {
        members.names.compactMap { name in
            guard !known.contains(name.lowercased()), let value = members[name] else { return nil }
            return (name, value)
        }
    }
}

// MARK: - Writing

extension SecurityFile {
    /// The bytes of a file: a line for each client, group and role.
    ///
    /// A password of the kind that mosquitto 2.0 knows is written in its form too, so that 2.0 can read the file.
    public static func bytes(of model: SecurityModel) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { root in
            root.breakLine(1)
            root.object("defaultACLAccess") { access in
                access.set("publishClientSend", model.defaults.publishes)
                access.set("publishClientReceive", model.defaults.receives)
                access.set("subscribe", model.defaults.subscribes)
                access.set("unsubscribe", model.defaults.unsubscribes)
            }
            root.lines("clients", model.clients) { $0.write($1, $2) }
            root.lines("groups", model.groups) { $0.write($1, $2) }
            if let name = model.anonymousGroup {
                root.breakLine(1)
                root.set("anonymousGroup", name)
            }
            root.lines("roles", model.roles) { object, name, role in
                object.setRole(name, role)
                object.set(unknown: role.unknown)
            }
            root.breakLine(1)
            root.set("changeIndex", model.changeIndex)
            for (name, value) in model.unknown {
                root.breakLine(1)
                root.set(name, value)
            }
            root.breakLine(0, isEnd: true)
        }
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}

extension JSONWriter {
    fileprivate mutating func lines<Value>(
        _ name: String, _ table: NameTable<Value>, _ write: (inout JSONWriter, EncodedString, Value) -> Void
    ) {
        breakLine(1)
        array(name) { list in
            for name in table.names {
                guard let value = table[name] else { continue }
                list.breakLine(2)
                list.object { write(&$0, name, value) }
            }
            list.breakLine(1, isEnd: true)
        }
    }

    fileprivate mutating func set(unknown members: [(name: String, value: JSONValue)]) {
        for (name, value) in members { set(name, value) }
    }

    fileprivate mutating func write(_ user: EncodedString, _ client: SecurityModel.Client) {
        setClient(user, client)
        if let password = client.password {
            set("encoded_password", password.text)
            let parts = password.text.utf8.split(separator: UInt8(ascii: "$"))
            if parts.count == 4, parts[0].elementsEqual("7".utf8), let iterations = Int(String(parts[1]) ?? "") {
                set("password", utf8: parts[3])
                set("salt", utf8: parts[2])
                set("iterations", iterations)
            }
        }
        let isHashKnown = client.password != nil
        set(
            unknown: client.unknown.filter {
                !isHashKnown || !["encoded_password", "password", "salt", "iterations"].contains($0.name)
            })
    }

    fileprivate mutating func write(_ name: EncodedString, _ group: SecurityModel.Group) {
        set("groupname", name)
        set(group.texts)
        set(group.mountPoint)
        array("roles", of: "rolename", group.roles)
        array("clients") { list in
            for user in group.clients.names {
                list.object { object in
                    object.set("username", user)
                    if let priority = group.clients[user], priority != -1 { object.set("priority", priority) }
                }
            }
        }
        set(unknown: group.unknown)
    }
}

/// What a broker begins with that has no file yet, the same as mosquitto's.
extension SecurityModel {
    /// The clients of a new file and their passwords, as they are typed.
    public struct FirstClients: Sendable {
        public var admin: String
        /// A client for trying things out; nil for none.
        public var demonstration: String?

        public init(admin: String, demonstration: String?) { (self.admin, self.demonstration) = (admin, demonstration) }
    }

    /// Roles for administrators, observers and clients; an administrator `admin`; and the group of those who do not log
    /// in.
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

    mutating func set(_ mountPoint: MountPoint?) {
        if let mountPoint { set("mountpoint", mountPoint.text) }
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
        set(client.mountPoint)
        if client.isDisabled { set("disabled", true) }
        array("roles", of: "rolename", client.roles)
    }

    /// Nothing where a rule asks for nothing, as mosquitto has it.
    private mutating func set(_ condition: SecurityModel.Condition) {
        if !condition.qos.isEmpty { array("qos") { list in for qos in condition.qos { list.add(qos.rawValue) } } }
        if let retain = condition.retain { set("retain", retain) }
        guard !condition.networks.isEmpty else { return }
        array("from") { list in for network in condition.networks { list.add(network.description) } }
    }

    mutating func setRole(_ name: EncodedString, _ role: SecurityModel.Role) {
        set("rolename", name)
        set(role.texts)
        set(role.mountPoint)
        set("allowwildcardsubs", role.allowsWildcards)
        array("acls") { list in
            for kind in SecurityModel.RuleKind.allCases {
                for rule in role.rules[kind] ?? [] {
                    list.object { object in
                        object.set("acltype", kind.rawValue)
                        object.set("topic", rule.topic)
                        object.set("priority", rule.priority)
                        object.set("allow", rule.allows)
                        object.set(rule.condition)
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
            object.set(group.mountPoint)
            object.array("clients") { list in for user in group.clients.names { list.object { $0.set("username", user) } } }
            object.array("roles", of: "rolename", group.roles)
        }
    }

    mutating func add(role name: EncodedString, of model: SecurityModel) {
        guard let role = model.roles[name] else { return }
        object { $0.setRole(name, role) }
    }
}

/// The bound of the file of dynamic security.
extension Limits {
    /// Bytes of a file of clients, groups and roles: a larger one is not read. About a million clients.
    static let securityDocumentBytesMax = 512 << 20
}
