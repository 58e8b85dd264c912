internal import JSON
import Platform

/// A command on dynamic security as one types it: mosquitto_ctrl's verbs, and the arguments that each takes.
public struct SecurityVerb: Sendable, Equatable {
    /// Why words are no command.
    public struct Complaint: Error, Equatable, CustomStringConvertible {
        public let description: String
    }

    /// Of the command.
    let name: String
    /// JSON, `{"commands":[…]}`.
    let message: String

    /// What stands behind a verb, in its order; one in brackets may be left out.
    private static let table: [(verb: String, arguments: [String])] = [
        ("createClient", ["username", "[password]", "[clientid]"]), ("deleteClient", ["username"]),
        ("getClient", ["username"]), ("listClients", ["[count]", "[offset]"]),
        ("setClientPassword", ["username", "password"]), ("setClientId", ["username", "[clientid]"]),
        ("enableClient", ["username"]), ("disableClient", ["username"]),
        ("addClientRole", ["username", "rolename", "[priority]"]), ("removeClientRole", ["username", "rolename"]),
        ("createGroup", ["groupname"]), ("deleteGroup", ["groupname"]), ("getGroup", ["groupname"]),
        ("listGroups", ["[count]", "[offset]"]), ("addGroupClient", ["groupname", "username", "[priority]"]),
        ("removeGroupClient", ["groupname", "username"]), ("addGroupRole", ["groupname", "rolename", "[priority]"]),
        ("removeGroupRole", ["groupname", "rolename"]), ("setAnonymousGroup", ["groupname"]), ("getAnonymousGroup", []),
        ("createRole", ["rolename"]), ("deleteRole", ["rolename"]), ("getRole", ["rolename"]),
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
    public init(_ words: [String], password: String? = nil, clientIdentifier: String? = nil) throws(Complaint) {
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
        command.set("command", row.verb)
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
        var message = JSONObject()
        message.set("commands", [command])
        (name, self.message) = (row.verb, message.text)
    }
}
