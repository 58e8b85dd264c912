internal import Glibc
internal import HTTP
internal import JSON
internal import MQTTCodec
import Platform
internal import Security

/// `martlet ctl dynsec`: dynamic security, with mosquitto_ctrl's verbs.
extension Control {
    /// `ctl dynsec VERB ARGUMENT…`: asks the broker, and says what it answers.
    public func dynamicSecurity(_ verb: SecurityVerb) throws(ControlError) {
        let answer = try ask(ControlRequest(.post, ["security", "commands"], body: verb.message))
        try show(answer.body, of: verb)
    }

    /// Performs a command on the file of a broker that does not run.
    public static func dynamicSecurity(_ verb: SecurityVerb, file: String, _ output: ControlOutput) throws(ControlError) {
        let document: SecurityDocument
        do throws(SecurityFileError) {
            document = try SecurityDocument(path: file)
        } catch {
            throw ControlError(.refused, error.description)
        }
        let context = SecurityContext(clientIdentifier: "ctl", userName: nil, hash: Self.hash)
        let answer = document.perform(SecurityRequest(Array(verb.message.utf8)), context)
        try Control(NoService(), output).show(answer.text, of: verb)
    }

    /// `ctl dynsec init FILE USER`: makes a file with one administrator; one that is there stays as it is.
    public static func initializeDynamicSecurity(_ file: String, user: String, password: String) throws(ControlError) {
        guard let name = EncodedString(user), !name.isEmpty else { throw ControlError(.refused, "No user can be called that.") }
        guard let stored = hash(password) else { throw ControlError(.refused, "There is no memory to hash the password.") }
        guard access(file, F_OK) != 0 else {
            throw ControlError(.refused, "\(file) is there already; init makes a new file.")
        }
        do throws(FileReplacement.Failure) {
            try SecurityDocument.save(.administered(by: name, stored), to: file)
        } catch {
            throw ControlError(.refused, "\(file) \(error).")
        }
    }

    private static func hash(_ password: String) -> StoredPassword? {
        (try? PasswordScheme.argon2id.entry(for: Array(password.utf8))).flatMap { StoredPassword($0) }
    }

    /// Says what came of a verb; an error of the command is thrown.
    private func show(_ body: [UInt8], of verb: SecurityVerb) throws(ControlError) {
        if output.isJSON { output.put(body) }
        let response = try value(ControlAnswer(status: 200, body: body))["responses"].array?.first ?? .null
        if let error = response["error"].string {
            throw ControlError(error.hasSuffix("not found") ? .notFound : .refused, "\(verb.name): \(error).")
        }
        guard !output.isJSON else { return }
        for line in SecurityLines.lines(of: response["data"]) { output.sayForeign(line) }
    }
}

/// A service that asks nobody: the file is read directly.
private struct NoService: ControlService {
    func answer(to request: ControlRequest) throws(ControlError) -> ControlAnswer {
        throw ControlError(.unreachable, "No broker is asked.")
    }

    func follow(_ request: ControlRequest, _ take: (ServerSentEvent) -> Bool) throws(ControlError) {
        throw ControlError(.unreachable, "No broker is asked.")
    }
}

/// Answers as lines, as mosquitto_ctrl writes them.
enum SecurityLines {
    static func lines(of data: JSONValue) -> [String] {
        if data["client"] != .null { return client(data["client"]) }
        if data["group"] != .null { return group(data["group"]) }
        if data["role"] != .null { return role(data["role"]) }
        if let rules = data["acls"].array {
            return rules.map { padded($0["acltype"].cell, 20) + " : " + ($0["allow"].boolean == true ? "allow" : "deny") }
        }
        for list in ["clients", "groups", "roles"] {
            if let names = data[list].array { return names.map { $0.string ?? "" } }
        }
        return (data.object?.names ?? []).map { "\($0): \(data[$0].cell)" }
    }

    private static func client(_ client: JSONValue) -> [String] {
        var lines = ["Username: \(client["username"].cell)", "Clientid: \(client["clientid"].string ?? "")"]
        lines += texts(client, width: 10)
        lines += mountPoint(client)
        if client["disabled"].boolean == true { lines.append("Disabled: true") }
        lines += ranked("Roles:", 10, client["roles"], "rolename")
        lines += ranked("Groups:", 10, client["groups"], "groupname")
        let addresses = client["connections"].array ?? []
        return lines + block("Connections:", 13, addresses.map { $0["address"].cell })
    }

    private static func group(_ group: JSONValue) -> [String] {
        // The anonymous group is told by its name alone.
        guard group["roles"] != .null else { return [group["groupname"].cell] }
        return ["Groupname: \(group["groupname"].cell)"] + texts(group, width: 11) + mountPoint(group)
            + ranked("Roles:", 11, group["roles"], "rolename")
            + block("Clients:", 11, (group["clients"].array ?? []).map { $0["username"].cell })
    }

    private static func role(_ role: JSONValue) -> [String] {
        var lines = ["Rolename: \(role["rolename"].cell)"] + texts(role, width: 10)
        lines += mountPoint(role)
        if role["allowwildcardsubs"].boolean == false { lines.append("Wildcards in subscriptions: denied") }
        let rules = (role["acls"].array ?? []).map { rule in
            let verdict = rule["allow"].boolean == true ? "allow" : "deny "
            let text =
                "\(padded(rule["acltype"].cell, 20)) : \(verdict) : \(rule["topic"].cell) (priority: \(rule["priority"].cell))"
            return text + conditions(rule)
        }
        return lines + block("ACLs:", 10, rules)
    }

    /// What a rule asks beside its topic, as the options of addRoleACL say it.
    private static func conditions(_ rule: JSONValue) -> String {
        var text = ""
        if let levels = rule["qos"].array { text += " --qos \(levels.map(\.cell).joined(separator: ","))" }
        if let retain = rule["retain"].boolean { text += " --retain \(retain ? "yes" : "no")" }
        for network in rule["from"].array ?? [] { text += " --from \(network.cell)" }
        return text
    }

    private static func texts(_ value: JSONValue, width: Int) -> [String] {
        [("Textname:", "textname"), ("Textdescription:", "textdescription")].compactMap { title, name in
            value[name].string.map { "\(padded(title, width - 1)) \($0)" }
        }
    }

    private static func mountPoint(_ value: JSONValue) -> [String] {
        value["mountpoint"].string.map { ["Mountpoint: \($0)"] } ?? []
    }

    private static func ranked(_ title: String, _ width: Int, _ list: JSONValue, _ name: String) -> [String] {
        block(title, width, (list.array ?? []).map { "\($0[name].cell) (priority: \($0["priority"].integer ?? -1))" })
    }

    private static func block(_ title: String, _ width: Int, _ lines: [String]) -> [String] {
        lines.enumerated().map { padded($0.offset == 0 ? title : "", width) + $0.element }
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

/// A command on dynamic security as one types it: mosquitto_ctrl's verbs, those for what mosquitto has not, and the
/// arguments that each takes.
public struct SecurityVerb: Sendable, Equatable {
    /// Why words are no command.
    public struct Complaint: Error, Equatable, CustomStringConvertible {
        public let description: String
    }

    /// What a rule of `addRoleACL` asks beside its topic; of `removeRoleACL`, which of the topic's rules is meant.
    public struct Conditions: Sendable, Equatable {
        /// The QoS that a message may have, as `0,1`; nil for any.
        public var qos: String?
        /// Whether it is retained, `yes` or `no`; nil for either.
        public var retain: String?
        /// Addresses or networks of which the client comes from one; empty for anywhere.
        public var networks: [String]

        public init(qos: String? = nil, retain: String? = nil, networks: [String] = []) {
            (self.qos, self.retain, self.networks) = (qos, retain, networks)
        }

        var isEmpty: Bool { self == Conditions() }

        func set(in command: inout JSONObject) throws(Complaint) {
            if let qos {
                let levels = qos.split(separator: ",", omittingEmptySubsequences: false).map { Int($0) }
                guard levels.allSatisfy({ $0.map { (0...2).contains($0) } ?? false }) else {
                    throw Complaint(description: "--qos takes 0, 1 and 2 with commas between them, not \(qos).")
                }
                command.set("qos", levels.compactMap { $0 })
            }
            if let retain {
                guard ["yes", "no"].contains(retain) else {
                    throw Complaint(description: "--retain takes yes or no, not \(retain).")
                }
                command.set("retain", retain == "yes")
            }
            if !networks.isEmpty { command.set("from", networks) }
        }
    }

    /// Of the command.
    let name: String
    /// JSON, `{"commands":[…]}`.
    let message: String

    /// Those that change one member, which mosquitto_ctrl has no verb for, by the command that does.
    private static let commands = [
        "setClientMountPoint": "modifyClient", "setGroupMountPoint": "modifyGroup", "setRoleMountPoint": "modifyRole",
    ]

    /// What stands behind a verb, in its order; one in brackets may be left out.
    private static let table: [(verb: String, arguments: [String])] = [
        ("createClient", ["username", "[password]", "[clientid]"]), ("deleteClient", ["username"]),
        ("getClient", ["username"]), ("listClients", ["[count]", "[offset]"]),
        ("setClientPassword", ["username", "password"]), ("setClientId", ["username", "[clientid]"]),
        ("setClientMountPoint", ["username", "[mountpoint]"]), ("enableClient", ["username"]), ("disableClient", ["username"]),
        ("addClientRole", ["username", "rolename", "[priority]"]), ("removeClientRole", ["username", "rolename"]),
        ("createGroup", ["groupname"]), ("deleteGroup", ["groupname"]), ("getGroup", ["groupname"]),
        ("setGroupMountPoint", ["groupname", "[mountpoint]"]),
        ("listGroups", ["[count]", "[offset]"]), ("addGroupClient", ["groupname", "username", "[priority]"]),
        ("removeGroupClient", ["groupname", "username"]), ("addGroupRole", ["groupname", "rolename", "[priority]"]),
        ("removeGroupRole", ["groupname", "rolename"]), ("setAnonymousGroup", ["groupname"]), ("getAnonymousGroup", []),
        ("createRole", ["rolename"]), ("deleteRole", ["rolename"]), ("getRole", ["rolename"]),
        ("setRoleMountPoint", ["rolename", "[mountpoint]"]),
        ("listRoles", ["[count]", "[offset]"]),
        ("addRoleACL", ["rolename", "acltype", "topic", "allow", "[priority]"]),
        ("removeRoleACL", ["rolename", "acltype", "topic"]),
        ("setDefaultACLAccess", ["acltype", "allow"]), ("getDefaultACLAccess", []), ("getDetails", []),
    ]

    /// All verbs with their arguments, for a help.
    public static var help: [String] {
        table.map { row in
            ([row.verb] + row.arguments.map { $0 == "allow" ? "allow|deny" : $0.uppercased() }).joined(separator: " ")
        }
    }

    /// All verbs with their arguments, as a table: for somebody who has typed none.
    public static func overview(_ output: ControlOutput) {
        var table = TextTable([.text("COMMAND"), .text("ARGUMENTS")])
        for line in help + ["init FILE USERNAME [PASSWORD]"] {
            let words = line.split(separator: " ", maxSplits: 1).map(String.init)
            table.rows.append([words[0], words.count > 1 ? words[1] : ""])
        }
        output.show(table, orSay: "")
    }

    /// Reads a verb and its arguments; the verb's case does not matter.
    ///
    /// - Parameters:
    ///   - words: the verb, and what stands behind it.
    ///   - password: of `createClient` and `setClientPassword`, where it does not stand among the words.
    ///   - clientIdentifier: of `createClient`.
    ///   - mountPoint: of `createClient`, `createGroup` and `createRole`.
    ///   - conditions: of `addRoleACL` and `removeRoleACL`.
    public init(
        _ words: [String], password: String? = nil, clientIdentifier: String? = nil, mountPoint: String? = nil,
        conditions: Conditions = Conditions()
    ) throws(Complaint) {
        guard let word = words.first else {
            throw Complaint(description: "Say what to do: martlet ctl dynsec alone lists what there is.")
        }
        guard let row = Self.table.first(where: { $0.verb.lowercased() == word.lowercased() }) else {
            throw Complaint(
                description: "\(word) is no command of dynamic security: martlet ctl dynsec alone lists what there is.")
        }
        var given = Array(words.dropFirst())
        if let password, given.count == 1, row.arguments.dropFirst().first?.holds("password") == true { given.append(password) }
        let needed = row.arguments.filter { $0.first != "[" }.count
        guard (needed...row.arguments.count).contains(given.count) else {
            let usage = Self.help.first { $0.split(separator: " ").first.map(String.init) == row.verb } ?? row.verb
            throw Complaint(description: "Expected \(usage).")
        }
        var command = JSONObject()
        command.set("command", Self.commands[row.verb] ?? row.verb)
        // Without one the user, group or role has none any more.
        if Self.commands[row.verb] != nil, given.count == 1 { given.append("") }
        var rule = JSONObject()
        for (argument, value) in zip(row.arguments, given) {
            let name = argument.filter { $0 != "[" && $0 != "]" }
            switch name {
            case "priority", "count", "offset":
                guard let number = Int32(value) else { throw Complaint(description: "\(name) is a number, not \(value).") }
                command.set(name, number)
            case "allow":
                guard ["allow", "deny"].contains(value) else {
                    throw Complaint(description: "Expected allow or deny, not \(value).")
                }
                if row.verb == "setDefaultACLAccess" {
                    rule.set(name, value == "allow")
                } else {
                    command.set(name, value == "allow")
                }
            case "acltype" where row.verb == "setDefaultACLAccess": rule.set(name, value)
            default: command.set(name, value)
            }
        }
        if let clientIdentifier, given.count < 3, row.verb == "createClient" { command.set("clientid", clientIdentifier) }
        if row.verb == "setDefaultACLAccess" { command.set("acls", [rule]) }
        if let mountPoint {
            guard ["createClient", "createGroup", "createRole"].contains(row.verb) else {
                throw Complaint(
                    description:
                        "--mountpoint goes with createClient, createGroup and createRole; setClientMountPoint and its like "
                        + "change it."
                )
            }
            command.set("mountpoint", mountPoint)
        }
        if !conditions.isEmpty {
            guard ["addRoleACL", "removeRoleACL"].contains(row.verb) else {
                throw Complaint(description: "--qos, --retain and --from go with addRoleACL and removeRoleACL.")
            }
            try conditions.set(in: &command)
        }
        var message = JSONObject()
        message.set("commands", [command])
        (name, self.message) = (row.verb, message.text)
    }
}
