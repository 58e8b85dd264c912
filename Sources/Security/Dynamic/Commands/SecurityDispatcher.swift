import BrokerModel
import JSON
import MQTTCodec

/// Performs commands on the clients, groups and roles: JSON in, JSON out, with mosquitto's words and in its order. What
/// follows from them is told as a value, and is to be done by whoever asks.
///
///     perform ─► answers, changes ─► saved? ─► done: changes are brought to the loops, the answer leaves, then the connections end
///                                       └────► not: the model is as it was, and every command that changed something is told so
public struct SecurityDispatcher: Sendable {
    public internal(set) var model: SecurityModel

    public init(_ model: SecurityModel) { self.model = model }

    /// What has become of a message.
    public struct Outcome: Sendable {
        struct Answer: Sendable {
            var command: String
            var correlation: String?
            var error: String?
            /// The whole answer of a command that tells something.
            var response: [UInt8]?
            var hasChanged = false
        }

        var answers: [Answer] = []
        public internal(set) var changes = SecurityChanges()
        /// For the log, one a line: `dynsec: shell/admin | createClient | username=anna`.
        public internal(set) var lines: [String] = []

        /// The answer: `{"responses":[…]}`.
        ///
        /// - Parameter failure: why the changes could not be saved; nil if they are, or if there are none.
        public func text(failure: String? = nil) -> [UInt8] {
            var writer = JSONWriter()
            writer.object { object in
                object.array("responses") { list in
                    for answer in answers {
                        if let response = answer.response { list.add(json: response) } else { Self.add(answer, failure, to: &list) }
                    }
                }
            }
            return writer.bytes
        }

        private static func add(_ answer: Answer, _ failure: String?, to list: inout JSONWriter) {
            list.object { object in
                object.set("command", answer.command)
                if let error = answer.hasChanged ? failure : answer.error { object.set("error", error) }
                if let correlation = answer.correlation { object.set("correlationData", correlation) }
            }
        }
    }

    /// Performs the commands of a message, one after the other, as far as they are commands.
    public mutating func perform(_ request: SecurityRequest, _ context: SecurityContext) -> Outcome {
        var outcome = Outcome()
        func refuse(_ words: String, _ command: String = "Unknown command", _ correlation: String? = nil) -> Outcome {
            outcome.answers.append(Outcome.Answer(command: command, correlation: correlation, error: words))
            return outcome
        }
        guard let value = request.value else { return refuse("Payload not valid JSON") }
        guard let list = value.object?.any("commands")?.array else { return refuse("Invalid/missing commands") }
        for item in list {
            guard let members = item.object else { return refuse("Command not an object") }
            guard let name = members.any("command")?.string else { return refuse("Missing command") }
            let correlation = members.any("correlationData")
            guard correlation == nil || correlation?.string != nil else {
                return refuse("Invalid correlationData data type.", name)
            }
            let text = correlation?.string
            guard let command = SecurityCommand(named: name) else {
                _ = refuse("Unknown command", name, text)
                continue
            }
            var answer = Outcome.Answer(command: name, correlation: text)
            var performance = Performance(
                call: CommandCall(members: members, command: command), context: context, model: model, changes: outcome.changes)
            // The dispatcher's own must not be a second owner while the model is changed.
            model = SecurityModel()
            do throws(Refusal) {
                try performance.run()
                answer.hasChanged = performance.hasChanged
                answer.response = performance.response(correlation: text)
                outcome.lines.append(performance.line)
            } catch {
                answer.error = error.words
            }
            model = performance.model
            outcome.changes = performance.changes
            outcome.answers.append(answer)
        }
        return outcome
    }
}

/// One command being performed.
struct Performance {
    let call: CommandCall
    let context: SecurityContext
    var model: SecurityModel
    var changes: SecurityChanges
    var hasChanged = false
    /// What it tells, as the value of `data`.
    var data: JSONWriter?
    private var details: [String] = []

    init(call: CommandCall, context: SecurityContext, model: SecurityModel, changes: SecurityChanges) {
        (self.call, self.context, self.model, self.changes) = (call, context, model, changes)
    }

    /// What the log says of it.
    var line: String {
        let who = "\(context.clientIdentifier)/\(context.userName ?? "(null)")"
        return (["dynsec: \(who)", call.command.rawValue] + details).joined(separator: " | ")
    }

    mutating func record(_ name: String, _ value: Any?) { details.append("\(name)=\(value.map { "\($0)" } ?? "(null)")") }

    /// Something is another now: to be saved.
    mutating func changed() {
        model.changeIndex &+= 1
        hasChanged = true
        changes.isEmpty = false
    }

    mutating func report(_ members: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(members)
        data = writer
    }

    /// The whole answer, with the command's own name; nil where nothing is told.
    func response(correlation: String?) -> [UInt8]? {
        guard let data else { return nil }
        var writer = JSONWriter()
        writer.object { object in
            object.set("command", call.command.rawValue)
            object.set("data", json: data.bytes)
            if let correlation { object.set("correlationData", correlation) }
        }
        return writer.bytes
    }

    mutating func run() throws(Refusal) {
        switch call.command {
        case .setDefaultACLAccess: try setDefaults()
        case .getDefaultACLAccess: getDefaults()
        case .getDetails: getDetails()
        case .createClient: try createClient()
        case .deleteClient: try deleteClient()
        case .getClient: try getClient()
        case .listClients: list("clients", model.clients.names) { $0.add(client: $1, of: $2, $3) }
        case .modifyClient: try modifyClient()
        case .setClientPassword: try setClientPassword()
        case .setClientId: try setClientIdentifier()
        case .enableClient: try setDisabled(false)
        case .disableClient: try setDisabled(true)
        case .addClientRole: try addClientRole()
        case .removeClientRole: try removeClientRole()
        case .createGroup: try createGroup()
        case .deleteGroup: try deleteGroup()
        case .getGroup: try getGroup()
        case .listGroups: list("groups", model.groups.names) { writer, name, model, _ in writer.add(group: name, of: model) }
        case .modifyGroup: try modifyGroup()
        case .addGroupClient: try addGroupClient()
        case .removeGroupClient: try removeGroupClient()
        case .addGroupRole: try addGroupRole()
        case .removeGroupRole: try removeGroupRole()
        case .setAnonymousGroup: try setAnonymousGroup()
        case .getAnonymousGroup: getAnonymousGroup()
        case .createRole: try createRole()
        case .deleteRole: try deleteRole()
        case .getRole: try getRole()
        case .listRoles: list("roles", model.roles.names) { writer, name, model, _ in writer.add(role: name, of: model) }
        case .modifyRole: try modifyRole()
        case .addRoleACL: try addRoleACL()
        case .removeRoleACL: try removeRoleACL()
        }
    }

    // MARK: What is about all

    private mutating func setDefaults() throws(Refusal) {
        guard let actions = call.members.any("acls")?.array else { throw Refusal("Missing/invalid actions array") }
        for action in actions {
            guard let members = action.object, let type = members.any("acltype")?.string,
                let allows = members.any("allow")?.boolean
            else { continue }
            switch type.lowercased() {
            case "publishclientsend": model.defaults.publishes = allows
            case "publishclientreceive": model.defaults.receives = allows
            case "subscribe": model.defaults.subscribes = allows
            case "unsubscribe": model.defaults.unsubscribes = allows
            default: continue
            }
            record(type, allows)
        }
        changes.hasNewDefaults = true
        changed()
    }

    private mutating func getDefaults() {
        let defaults = model.defaults
        report { data in
            data.array("acls") { list in
                for (type, allows) in [
                    ("publishClientSend", defaults.publishes), ("publishClientReceive", defaults.receives),
                    ("subscribe", defaults.subscribes), ("unsubscribe", defaults.unsubscribes),
                ] {
                    list.object { acl in
                        acl.set("acltype", type)
                        acl.set("allow", allows)
                    }
                }
            }
        }
    }

    private mutating func getDetails() {
        let model = model
        report { data in
            data.set("clientCount", model.clients.count)
            data.set("groupCount", model.groups.count)
            data.set("roleCount", model.roles.count)
            data.set("changeIndex", model.changeIndex)
        }
    }

    /// A page of names, or of what stands behind them.
    private mutating func list(
        _ kind: String, _ names: [EncodedString],
        _ add: (inout JSONWriter, EncodedString, SecurityModel, SecurityContext) -> Void
    ) {
        let (isVerbose, offset) = (call.flag("verbose"), call.number("offset", otherwise: 0))
        var count = call.number("count", otherwise: -1)
        let (model, context) = (model, context)
        report { data in
            data.set("totalCount", names.count)
            data.array(kind) { list in
                for name in names.dropFirst(Int(clamping: max(0, offset))) {
                    if isVerbose { add(&list, name, model, context) } else { list.add(.string("\(name)")) }
                    if count < 0 { continue }
                    count -= 1
                    if count <= 0 { break }
                }
            }
        }
        record("verbose", isVerbose)
        record("count", count)
        record("offset", offset)
    }
}

/// Commands on roles.
extension Performance {
    mutating func createRole() throws(Refusal) {
        let name = try call.newName("rolename", "Role name")
        let texts = try call.texts()
        let wildcards = call.members.any("allowwildcardsubs")
        guard wildcards == nil || wildcards?.boolean != nil else { throw Refusal("Invalid allowwildcardsubs") }
        guard model.roles[name] == nil else { throw Refusal("Role already exists") }
        var role = try CommandCall.rules(call.members.any("acls")?.array ?? [])
        role.texts = texts
        try call.setMountPoint(&role.mountPoint)
        role.allowsWildcards = wildcards?.boolean ?? true
        model.roles[name] = role
        changes.roles.insert(name)
        changed()
        record("rolename", name)
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
        record("rolename", name)
    }

    mutating func modifyRole() throws(Refusal) {
        let name = try knownRole(orElse: "Role does not exist")
        guard var role = model.roles[name] else { return }
        if let text = call.anyText("textname") { role.texts.name = text }
        if let text = call.anyText("textdescription") { role.texts.description = text }
        let mountPoint = role.mountPoint
        try call.setMountPoint(&role.mountPoint)
        var isOther = role.mountPoint != mountPoint
        if let allows = call.members.any("allowwildcardsubs")?.boolean, allows != role.allowsWildcards {
            role.allowsWildcards = allows
            isOther = true
        }
        if let list = call.members.any("acls")?.array {
            role.rules = try CommandCall.rules(list).rules
            isOther = true
        }
        model.roles[name] = role
        if isOther { enforce(onRole: name, model.holders(of: name)) } else { changed() }
        record("rolename", name)
    }

    mutating func addRoleACL() throws(Refusal) {
        let name = try knownRole(orElse: "Role not found")
        let (kind, topic) = try rule()
        let condition = try CommandCall.condition(call.members, of: kind)
        let rule = SecurityModel.Rule(
            topic: topic, priority: call.priority(otherwise: 0), allows: call.flag("allow"), condition: condition)
        var isNew = false
        model.roles.update(name) { isNew = $0.add(rule, to: kind) }
        guard isNew else { throw Refusal("ACL with this topic already exists") }
        enforce(onRole: name, model.holders(of: name))
        record("rolename", name)
        record("acltype", kind.rawValue)
        record("topic", topic)
        record("priority", rule.priority)
        record("allow", rule.allows)
    }

    mutating func removeRoleACL() throws(Refusal) {
        let name = try knownRole(orElse: "Role not found")
        let (kind, topic) = try rule()
        // Without a condition the rules of the topic are meant, whatever they ask.
        let condition = call.hasCondition ? try CommandCall.condition(call.members, of: kind) : nil
        func isMeant(_ rule: SecurityModel.Rule) -> Bool {
            rule.topic == topic && condition.map { $0 == rule.condition } ?? true
        }
        guard model.roles[name]?.rules[kind]?.contains(where: isMeant) == true else { throw Refusal("ACL not found") }
        model.roles.update(name) { $0.rules[kind]?.removeAll(where: isMeant) }
        enforce(onRole: name, model.holders(of: name))
        record("rolename", name)
        record("acltype", kind.rawValue)
        record("topic", topic)
    }

    mutating func getRole() throws(Refusal) {
        let (role, model) = (try knownRole(orElse: "Role not found"), model)
        report { data in data.member("role") { $0.add(role: role, of: model) } }
        record("rolename", role)
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
