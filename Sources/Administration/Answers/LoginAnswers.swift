internal import BrokerModel
internal import HTTP
internal import MQTTCodec

/// What becomes of a login, and who decides it.
struct LoginAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    /// Asks the sources of logins, as a client's CONNECT would.
    func explainLogin(_ call: Call) throws(APIError) {
        let body = try call.body()
        var trial = LoginTrial(
            userName: try body.encoded("username"), password: try body.text("password").map { Array($0.utf8) },
            clientIdentifier: try body.encoded("clientid") ?? "client",
            address: try body.text("address") ?? call.origin.address, listener: try listener(body))
        trial.certificate = try body.text("certificate")
        trial.question = try question(body, of: trial)
        let asked = broker.listeners[trial.listener]
        call.target = (asked.hidesUserNames ? trial.userName?.tokenFingerprint : trial.userName?.withoutToken)?.description
        let abandon = broker.explain(trial) { report in
            guard let report else { return call.fail(.unavailable) }
            call.answer(Self.resource.json(Explanation(report: report, listener: asked.name, question: trial.question)))
        }
        if !call.isAnswered { call.onGone = abandon }
    }

    /// What the client would do when it is in.
    private func question(_ body: RequestBody, of trial: LoginTrial) throws(APIError) -> AccessQuestion? {
        guard let word = try body.choice("action", AccessAction.allCases.map(\.rawValue)), let action = AccessAction(rawValue: word)
        else {
            guard !body.has("topic") else { throw .badRequest("action is missing: what is done with the topic.") }
            return nil
        }
        guard let topic = TopicFilter(try body.required("topic")) else { throw .badRequest("topic is not a topic filter.") }
        guard action == .subscribe || TopicName(topic.description) != nil else {
            throw .badRequest("topic holds a wildcard, which only a subscription may.")
        }
        var question = AccessQuestion(
            userName: trial.userName, clientIdentifier: trial.clientIdentifier, address: trial.address, action: action,
            topic: topic,
            listener: trial.listener)
        question.qos = try body.integer("qos", 0...2).flatMap { UInt8(exactly: $0) }.flatMap { QoS(rawValue: $0) }
        question.retain = try body.boolean("retain")
        return question
    }

    private func listener(_ body: RequestBody) throws(APIError) -> Int {
        let listeners = broker.listeners
        guard let name = try body.text("listener") else { return listeners.firstIndex { $0.application != .httpAPI } ?? 0 }
        guard let index = listeners.firstIndex(where: { $0.name == name }) else {
            throw APIError(.notFound, "listener is one of \(listeners.map(\.name).joined(separator: ", ")).")
        }
        return index
    }

    struct Explanation {
        let report: LoginTrialReport
        let listener: String
        let question: AccessQuestion?

        /// Whether the client may do what was asked for.
        var may: FileAnswers.Judgement? {
            guard let question, let answer = report.access else { return nil }
            return FileAnswers.Judgement(answer: answer, question: question, listener: listener)
        }

        /// The result as a sentence.
        var words: String {
            let user = report.userName.map { "as \($0)" } ?? "without a user name"
            let reason = report.words.isEmpty ? "" : ": \(report.words)"
            switch (report.result, report.source) {
            case (.allowed, "certificate"?): return "The certificate lets the client in \(user)."
            case (.allowed, let source?): return "\(source) lets the client in \(user)\(terms)."
            case (.allowed, nil): return "The listener asks for no login: the client is let in \(user)."
            case (.refused, let source?): return "\(source) refuses the client\(reason)."
            case (.refused, nil): return "No source lets the client in\(reason)."
            case (.unavailable, _): return "The client is told that the server is unavailable\(reason)."
            case (.busy, _): return "The client is told that the server is busy: too many logins wait."
            }
        }

        private var terms: String {
            (report.isSuperuser ? ", whom no rule binds" : report.hasRules ? ", with rules of its login" : "")
                + (report.expiresAt.map { ", until \(Timestamp.text($0))" } ?? "")
        }
    }

    private static let stepResource = Resource<LoginTrialReport.Step>(
        nil,
        [
            .text("source", \.source),
            .text("answer", as: .choice(LoginTrialReport.Step.Answer.allCases.map(\.rawValue)), \.answer.rawValue),
            .text("reason", help: "Empty where there is nothing to say.", \.words),
            .integer("took_us", help: "Microseconds.", \.microseconds),
        ])

    static let attributeResource = Resource<(name: String, value: String)>(
        nil, [.text("name", \.name), .text("value", \.value)])

    static let resource = Resource<Explanation>(
        "LoginExplanation",
        [
            .text("result", as: .choice(LoginTrialReport.Result.allCases.map(\.rawValue)), \.report.result.rawValue),
            .text("reason", \.words),
            .textOrNull("decided_by", help: "The source that decides; null where none knows the user.", \.report.source),
            .textOrNull("username", help: "The user that the client would be.") { $0.report.userName?.description },
            .boolean("superuser", help: "Whether no rule would bind the client.", \.report.isSuperuser),
            .boolean("has_rules", help: "Whether the login brings rules along.", \.report.hasRules),
            .timeOrNull("expires_at", help: "When the connection would end; null for never.", \.report.expiresAt),
            .objects(
                "attributes", as: attributeResource, help: "What rules have for %{client_attrs.NAME}.", \.report.attributes),
            .texts("groups", help: "That the client has by its certificate.") { $0.report.memberships.groups.map(\.description) },
            .texts("roles", help: "Likewise.") { $0.report.memberships.roles.map(\.description) },
            .objectOrNull(
                "may", as: FileAnswers.mayResource,
                help: "Whether it may do what is asked; null where nothing is, or it is not let in.", \.may),
            .objects("steps", as: stepResource, help: "In the order in which they were asked.", \.report.steps),
            .text("listener", \.listener),
        ])
}
