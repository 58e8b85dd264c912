internal import BrokerModel
internal import HTTP
internal import JSON
internal import MQTTCodec

/// The users and rules of files, and whether somebody may do something.
struct FileAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    // MARK: Users

    func listFileUsers(_ call: Call) throws(APIError) {
        let files = broker.files
        var object = JSONObject()
        object.set("data", files.users.map { Self.fileUserResource.json($0) })
        object.set("files", files.userFiles.map { Self.securityFileResource.json($0) })
        call.answer(object)
    }

    func addFileUser(_ call: Call) throws(APIError) {
        let body = try call.body()
        let name = try body.required("username")
        call.target = name
        try setPassword(of: name, body, isNew: true, call)
    }

    func setFileUserPassword(_ call: Call) throws(APIError) {
        try setPassword(of: call.path["username"] ?? "", try call.body(), isNew: false, call)
    }

    private func setPassword(of name: String, _ body: RequestBody, isNew: Bool, _ call: Call) throws(APIError) {
        let password = try body.required("password")
        let path = try Self.choose(try body.text("file"), of: broker.files.userFiles, option: "password_file")
        call.target = "\(name) in \(path)"
        broker.change(path, .setPassword(user: name, password: Array(password.utf8), isNew: isNew)) { outcome in
            guard case .done = outcome else { return call.fail(Self.error(outcome, "user")) }
            var object = JSONObject()
            object.set("username", name)
            object.set("file", path)
            call.answer(object, status: isNew ? .created : .ok)
        }
    }

    func removeFileUser(_ call: Call) throws(APIError) {
        let name = call.path["username"] ?? ""
        let path = try Self.choose(call.text("file"), of: broker.files.userFiles, option: "password_file")
        call.target = "\(name) in \(path)"
        broker.change(path, .removeUser(name)) { outcome in
            guard case .done = outcome else { return call.fail(Self.error(outcome, "user")) }
            call.answer(HTTPResponse(.noContent))
        }
    }

    // MARK: Rules

    func listFileRules(_ call: Call) throws(APIError) {
        let files = broker.files
        var object = JSONObject()
        object.set("data", files.rules.map { Self.fileRuleResource.json($0) })
        object.set("files", files.ruleFiles.map { Self.securityFileResource.json($0) })
        call.answer(object)
    }

    func addFileRule(_ call: Call) throws(APIError) {
        let body = try call.body()
        let subject: AdministeredFiles.Subject
        switch try body.choice("for", ["user", "anonymous", "everybody"]) {
        case "anonymous": subject = .anonymous
        case "everybody": subject = .everybody
        case "user": subject = .user(try body.required("username"))
        default: throw .badRequest("for is missing.")
        }
        if subject == .anonymous || subject == .everybody, body.has("username") {
            throw .badRequest("username goes with for \"user\" alone.")
        }
        let (access, conditions, topic) = try rule(body)
        let path = try Self.choose(try body.text("file"), of: broker.files.ruleFiles, option: "acl_file")
        call.target = "\(access) \(topic) in \(path)"
        broker.change(path, .addRule(subject, access: access, conditions: conditions, topic: topic)) { outcome in
            guard case .done(let line) = outcome else { return call.fail(Self.error(outcome, "rule")) }
            var object = JSONObject()
            object.set("file", path)
            object.set("line", orNull: line)
            call.answer(object, status: .created)
        }
    }

    func changeFileRule(_ call: Call) throws(APIError) {
        let body = try call.body()
        let line = try Self.line(call)
        let text = try body.required("text")
        let (access, conditions, topic) = try rule(body)
        let path = try Self.choose(try body.text("file"), of: broker.files.ruleFiles, option: "acl_file")
        call.target = "\(access) \(topic) in \(path):\(line)"
        let change = FileChange.changeRule(line: line, text: text, access: access, conditions: conditions, topic: topic)
        broker.change(path, change) { outcome in
            guard case .done = outcome else { return call.fail(Self.error(outcome, "rule")) }
            var object = JSONObject()
            object.set("file", path)
            object.set("line", line)
            call.answer(object)
        }
    }

    func removeFileRule(_ call: Call) throws(APIError) {
        let line = try Self.line(call)
        let path = try Self.choose(call.text("file"), of: broker.files.ruleFiles, option: "acl_file")
        let text = call.text("text") ?? ""
        call.target = "\(text) in \(path):\(line)"
        broker.change(path, .removeRule(line: line, text: text)) { outcome in
            guard case .done = outcome else { return call.fail(Self.error(outcome, "rule")) }
            call.answer(HTTPResponse(.noContent))
        }
    }

    private func rule(_ body: RequestBody) throws(APIError) -> (access: String, conditions: String, topic: String) {
        guard let access = try body.choice("access", AdministeredFiles.accesses) else { throw .badRequest("access is missing.") }
        return (access, try body.text("conditions") ?? "", try body.required("topic"))
    }

    private static func line(_ call: Call) throws(APIError) -> Int {
        guard let line = call.path["line"].flatMap({ RouteParameter.integer($0) }), line > 0 else { throw .notFound("line") }
        return line
    }

    /// The file that is meant: the one that was named, or the only one.
    private static func choose(_ named: String?, of files: [AdministeredFiles.File], option: String) throws(APIError) -> String {
        guard let first = files.first else {
            throw APIError(.conflict, "No listener has a \(option). Add one to the configuration file: \(option) FILE.")
        }
        let names = files.map(\.path).joined(separator: ", ")
        guard let named else {
            guard files.count == 1 else { throw .badRequest("file is missing; there are \(names).") }
            return first.path
        }
        guard files.contains(where: { $0.path == named }) else {
            throw .badRequest("file is none that is in use; there are \(names).")
        }
        return named
    }

    private static func error(_ outcome: FileChangeOutcome, _ what: String) -> APIError {
        switch outcome {
        case .exists: APIError(.conflict, "There is a \(what) of that name.")
        case .done, .missing: .notFound(what)
        case .moved: APIError(.conflict, "The file has changed since it was read: read it again.")
        case .illegal(let words): .badRequest(words)
        case .failed(let words):
            APIError(.serviceUnavailable, words, fields: ["Retry-After": String(Limits.retryAfterSeconds)])
        }
    }

    static let fileUserResource = Resource<AdministeredFiles.User>(
        nil,
        [
            .text("username", \.name),
            .text("file", \.file),
            .integer("line", as: .integer(1...Int.max), \.line),
            .text(
                "hash", as: .choice(["argon2id", "sha512-pbkdf2", "sha512", "scram-sha-256", "unknown"]), help: "The kind of hash.",
                \.scheme),
        ])

    static let fileRuleResource = Resource<AdministeredFiles.Rule>(
        nil,
        [
            .text("file", \.file),
            .integer("line", as: .integer(1...Int.max), \.line),
            .text("text", \.text),
            .text("for", as: .named("RuleFor"), \.subject.word),
            .textIfAny("username") { if case .user(let name) = $0.subject { name } else { nil } },
            .text("access", as: .named("RuleAccess"), \.access),
            .textIfAny("conditions", help: "As qos<=1,retain=no,from=10.0.0.0/8.") { $0.conditions.isEmpty ? nil : $0.conditions },
            .text("topic", \.topic),
        ])

    static let securityFileResource = Resource<AdministeredFiles.File>(
        "SecurityFile",
        [
            .text("path", \.path), .texts("listeners", \.listeners),
            .textOrNull("trouble", help: "Why it cannot be read.", \.trouble),
        ])

    // MARK: May X do Y?

    func getMay(_ call: Call) throws(APIError) {
        guard let action = call.text("action").flatMap({ AccessAction(rawValue: $0) }) else {
            throw .badRequest("action is missing.")
        }
        guard let topic = try call.filter("topic") else { throw .badRequest("topic is missing.") }
        guard action == .subscribe || TopicName(topic.description) != nil else {
            throw .badRequest("topic holds a wildcard, which only a subscription may.")
        }
        var question = AccessQuestion(
            userName: try call.encoded("username"), clientIdentifier: try call.encoded("clientid"), address: call.text("address"),
            action: action, topic: topic, listener: try listenerOfQuestion(call))
        question.attributes = try Self.attributes(call.text("attributes"))
        question.certificate = call.text("certificate")
        question.memberships = AccessMemberships(groups: try Self.names(call, "groups"), roles: try Self.names(call, "roles"))
        question.qos = call.integer("qos").flatMap { UInt8(exactly: $0) }.flatMap { QoS(rawValue: $0) }
        question.retain = call.boolean("retain")
        let answer = broker.answer(to: question)
        let judgement = Judgement(answer: answer, question: question, listener: broker.listeners[question.listener].name)
        call.answer(Self.mayResource.json(judgement))
    }

    /// `pumps,north`.
    private static func names(_ call: Call, _ parameter: String) throws(APIError) -> [EncodedString] {
        var names: [EncodedString] = []
        for part in RouteParameter.parts(call.text(parameter) ?? "") where !part.isEmpty {
            guard let name = EncodedString(part) else { throw .badRequest("\(parameter) holds a name that cannot be one.") }
            names.append(name)
        }
        return names
    }

    /// `floor=2,site=a`.
    private static func attributes(_ text: String?) throws(APIError) -> [(name: String, value: String)] {
        var attributes: [(name: String, value: String)] = []
        for part in RouteParameter.parts(text ?? "") where !part.isEmpty {
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard words.count == 2, !words[0].isEmpty else {
                throw .badRequest("attributes is NAME=VALUE, several with commas between them, such as floor=2,site=a.")
            }
            attributes.append((String(words[0]), String(words[1])))
        }
        return attributes
    }

    /// Whether somebody may do something, in words.
    struct Judgement {
        let isAllowed: Bool
        let words: String
        /// The kind of what decides.
        let decider: String
        /// Nil where a ban decides, and where there are no rules.
        let explanation: AccessExplanation?
        let client: AskedClient
        let remark: String?
        let listener: String

        init(answer: AccessAnswer, question: AccessQuestion, listener: String) {
            (isAllowed, words, decider) = FileAnswers.judge(answer, question)
            remark = Self.remark(answer)
            (explanation, client, self.listener) = (answer.ban == nil ? answer.explanation : nil, answer.client, listener)
        }

        private static func remark(_ answer: AccessAnswer) -> String? {
            guard answer.leavesLoginRulesOut, answer.ban == nil, answer.client.objection == nil else { return nil }
            return
                "A login may bring rules of its own, which are asked first: martlet ctl login explain --publish TOPIC knows them."
        }
    }

    static let mayResource = Resource<Judgement>(
        "May",
        [
            .boolean("allowed", \.isAllowed),
            .text("reason", \.words),
            .textOrNull("remark", help: "What the answer leaves out.", \.remark),
            .text(
                "decided_by",
                as: .choice(["line", "no_line", "role", "no_role", "default", "default_rule", "no_rules", "login", "ban"]),
                \.decider),
            .textOrNull("file") { $0.explanation?.file },
            .integerOrNull("line") { if case .line(let number) = $0.explanation?.decider { number } else { nil } },
            .textOrNull("role") { if case .role(let name) = $0.explanation?.decider { name } else { nil } },
            .text("listener", \.listener),
            .textOrNull("username", help: "The user of whom that holds.") { $0.client.userName?.description },
            .texts("groups", help: "Beside those of the user.") { $0.client.memberships.groups.map(\.description) },
            .texts("roles", help: "Beside those of the user and its groups.") { $0.client.memberships.roles.map(\.description) },
            .objects(
                "attributes", as: LoginAnswers.attributeResource, help: "For %{client_attrs.NAME} in rules.", \.client.attributes),
            .textOrNull("mount_point", help: "What stands before its topics inside the broker.") {
                $0.client.mountPoint.isEmpty ? nil : $0.client.mountPoint
            },
        ])

    private func listenerOfQuestion(_ call: Call) throws(APIError) -> Int {
        let listeners = broker.listeners
        if let name = call.text("listener") {
            guard let index = listeners.firstIndex(where: { $0.name == name }) else {
                throw .badRequest("listener is one of \(listeners.map(\.name).joined(separator: ", ")).")
            }
            return index
        }
        return listeners.firstIndex { $0.application != .httpAPI } ?? 0
    }

    /// The answer in words, and the kind of what decides.
    fileprivate static func judge(_ answer: AccessAnswer, _ question: AccessQuestion) -> (Bool, String, String) {
        if let ban = answer.ban {
            let until = ban.until.map { " until \(Timestamp.text($0))" } ?? ""
            return (false, "No: \(ban.target.kind.rawValue) \(ban.target.who) is banned\(until), and cannot connect.", "ban")
        }
        if let objection = answer.client.objection { return (false, "No: \(objection).", "login") }
        if answer.isSuperuser { return (true, "Yes: no rule binds the client, as its login says.", "login") }
        if answer.isKnownUser == false, let user = answer.client.userName {
            return (false, "No: no user is called \(user), so nobody can log in under that name.", "login")
        }
        if answer.client.userName == nil, !answer.admitsAnonymous {
            return (false, "No: the listener lets in nobody without a user name (allow_anonymous false).", "login")
        }
        guard let explanation = answer.explanation else {
            return (true, "Yes: the listener has no access rules, so everybody may do everything.", "no_rules")
        }
        let (yes, file) = (explanation.isAllowed, explanation.file ?? "the access file")
        if !yes, let authority = answer.authority {
            return (false, "No rule allows it: \(authority) is asked when the client does it.", "login")
        }
        let word = yes ? "Yes" : "No"
        return switch explanation.decider {
        case .line(let line): (yes, "\(word): \(file):\(line) \(yes ? "allows" : "denies") it.", "line")
        case .noLine: (yes, "\(word): no line of \(file) allows it.", "no_line")
        case .defaultRule:
            (
                yes, "\(word): martlet_default_rule \(yes ? "allows" : "denies") it, as there are no rules for this client.",
                "default_rule"
            )
        case .role(let name): (yes, "\(word): the role \(name) \(yes ? "allows" : "denies") it.", "role")
        case .defaultAccess: (yes, "\(word): no role says anything, and the default access allows it.", "default")
        case .noRole: (yes, "\(word): no role allows it.", "no_role")
        case .unknownUser: (yes, "\(word): dynamic security does not know the user.", "login")
        }
    }

    // MARK: Watching by WebSocket

    /// Lets the dashboard watch topics over MQTT, on this listener.
    func openWebSocket(_ call: Call) throws(APIError) {
        guard administration.settings.payloads != .none else {
            throw APIError(.forbidden, "Payloads may not be seen; see martlet_http_payloads.")
        }
        guard call.request.fields.names("websocket", in: "Upgrade") else {
            throw APIError(
                .upgradeRequired, "This is a WebSocket for MQTT: ask for it with Upgrade: websocket.",
                fields: ["Upgrade": "websocket"])
        }
        try administration.checkStreams(of: call.origin.address)
        let socket = PageSocket(StreamRight(call), address: call.origin.address)
        let response = broker.openWebSocket(call.request, from: call.origin, output: socket.stream)
        if response.status == .switchingProtocols { administration.sockets.add(socket) }
        call.answer(response)
    }
}

/// A page that watches topics over MQTT.
final class PageSocket {
    let stream = HTTPStream()
    let right: StreamRight
    let address: String

    init(_ right: StreamRight, address: String) { (self.right, self.address) = (right, address) }
}

/// The pages that watch topics over MQTT. They are streams like any other: they end with what lets their reader in, and
/// count as streams.
///
/// Invariant: at most `Limits.streamsMax` of them and of all other streams.
final class PageSockets {
    private var sockets: [PageSocket] = []

    var count: Int { sockets.count { $0.stream.isOpen } }

    func count(of address: String) -> Int { sockets.count { $0.address == address && $0.stream.isOpen } }

    func add(_ socket: PageSocket) {
        sockets.removeAll { !$0.stream.isOpen }
        sockets.append(socket)
    }

    func end(where isOver: (StreamRight) -> Bool) {
        for socket in sockets where isOver(socket.right) { socket.stream.finish() }
        sockets.removeAll { !$0.stream.isOpen }
    }
}

extension AdministeredFiles.Subject {
    /// As the API has it.
    fileprivate var word: String {
        switch self {
        case .anonymous: "anonymous"
        case .everybody: "everybody"
        case .user: "user"
        }
    }
}
