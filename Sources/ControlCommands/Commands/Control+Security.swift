internal import DynamicSecurity
internal import Glibc
internal import HTTP
internal import JSON
internal import MQTTCodec
internal import Security

/// `martlet ctl dynsec`: dynamic security, with mosquitto_ctrl's verbs.
extension Control {
    /// `ctl dynsec VERB ARGUMENT…`: asks the broker, and says what it answers.
    public func dynamicSecurity(_ verb: SecurityVerb) throws(ControlError) {
        let answer = try ask(ControlRequest(.post, ["security", "commands"], body: verb.message))
        try show(answer.body, of: verb)
    }

    /// The same on a file of a broker that does not run.
    public static func dynamicSecurity(_ verb: SecurityVerb, file: String, _ output: ControlOutput) throws(ControlError) {
        let keeper: SecurityKeeper
        do throws(SecurityFileError) {
            keeper = try SecurityKeeper(path: file)
        } catch {
            throw ControlError(.refused, error.description)
        }
        let context = SecurityContext(clientIdentifier: "ctl", userName: nil, hash: Self.hash)
        let answer = keeper.perform(SecurityRequest(Array(verb.message.utf8)), context)
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
            try SecurityKeeper.save(.administered(by: name, stored), to: file)
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

/// What is asked of nobody: the file is at hand.
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
        if client["disabled"].boolean == true { lines.append("Disabled: true") }
        lines += ranked("Roles:", 10, client["roles"], "rolename")
        lines += ranked("Groups:", 10, client["groups"], "groupname")
        let addresses = client["connections"].array ?? []
        return lines + block("Connections:", 13, addresses.map { $0["address"].cell })
    }

    private static func group(_ group: JSONValue) -> [String] {
        // The anonymous group is told by its name alone.
        guard group["roles"] != .null else { return [group["groupname"].cell] }
        return ["Groupname: \(group["groupname"].cell)"] + texts(group, width: 11)
            + ranked("Roles:", 11, group["roles"], "rolename")
            + block("Clients:", 11, (group["clients"].array ?? []).map { $0["username"].cell })
    }

    private static func role(_ role: JSONValue) -> [String] {
        var lines = ["Rolename: \(role["rolename"].cell)"] + texts(role, width: 10)
        if role["allowwildcardsubs"].boolean == false { lines.append("Wildcards in subscriptions: denied") }
        let rules = (role["acls"].array ?? []).map { rule in
            let verdict = rule["allow"].boolean == true ? "allow" : "deny "
            return "\(padded(rule["acltype"].cell, 20)) : \(verdict) : \(rule["topic"].cell) (priority: \(rule["priority"].cell))"
        }
        return lines + block("ACLs:", 10, rules)
    }

    private static func texts(_ value: JSONValue, width: Int) -> [String] {
        [("Textname:", "textname"), ("Textdescription:", "textdescription")].compactMap { title, name in
            value[name].string.map { "\(padded(title, width - 1)) \($0)" }
        }
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
