public import BrokerModel
internal import Bytes
internal import HTTP
public import HTTPClient
internal import JSON
internal import JSONReader
public import MQTTCodec
internal import Platform
public import Security

/// Logins that a service decides in the dialect of mosquitto-go-auth's back end `http`.
///
///     getuser {"username", "password", "clientid"} ─► yes: let in      no: unknown
///     superuser {"username"} ─► yes: no rule binds the client          no: the rules of the access file
///     aclcheck {"username", "clientid", "topic", "acc"} ─► what those do not grant, topic by topic
///
/// The second question is asked for everybody whom the plug-in lets in, those of its files too. What is a yes the
/// response mode says: a status of 2xx, `{"ok": true}`, or the text `ok`. A status of 500 or above is a failure, which
/// is asked again as often as wanted.
public final class GoAuthSource: LoginSource, LoginRulesSource, TopicAuthority {
    /// go-auth's options.
    public struct Settings: Sendable {
        public enum Responses: String, Sendable {
            case status
            case json
            case text
        }

        public var userTarget: String
        /// nil where superusers are not asked for.
        public var superuserTarget: String?
        /// nil where rules are not asked for.
        public var accessTarget: String?
        public var responses: Responses
        /// Whether questions are forms, and not JSON.
        public var usesForms: Bool
        public var method: String
        public var userAgent: String
        public var retriesMax: Int
        public var accessCacheSeconds: UInt64
        public var accessJitterSeconds: UInt64

        public init(
            userTarget: String, superuserTarget: String? = nil, accessTarget: String? = nil, responses: Responses = .status,
            usesForms: Bool = false, method: String = "POST", userAgent: String = "mosquitto", retriesMax: Int = 0,
            accessCacheSeconds: UInt64 = 0, accessJitterSeconds: UInt64 = 0
        ) {
            (self.userTarget, self.superuserTarget, self.accessTarget) = (userTarget, superuserTarget, accessTarget)
            (self.responses, self.usesForms, self.method) = (responses, usesForms, method)
            (self.userAgent, self.retriesMax) = (userAgent, retriesMax)
            (self.accessCacheSeconds, self.accessJitterSeconds) = (accessCacheSeconds, accessJitterSeconds)
        }
    }

    public let name = "go_auth"
    private let client: HTTPClient
    private let settings: Settings

    public init(_ client: HTTPClient, _ settings: Settings) { (self.client, self.settings) = (client, settings) }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let userName = question.userName, let password = question.password else {
            reply(.next(question.userName == nil ? .noUserName : .noPassword))
            return nil
        }
        guard let secret = String(validating: password, as: UTF8.self) else {
            reply(.next(.passwordIsNoText))
            return nil
        }
        let user = userName.description
        let steps = GoAuthSteps()
        ask(
            settings.userTarget,
            [("clientid", question.clientIdentifier.description), ("password", secret), ("username", user)], steps
        ) { [self] answer in
            switch answer {
            case .failure(let failure): reply(failure.kind == .busy ? .busy : .failed("\(failure)"))
            case .success(false): reply(.next(.reported("the service does not accept the user name and password")))
            case .success(true): reply(.allowed(userName: nil, LoginGrant(source: name)))
            }
        }
        return steps
    }

    public func rules(
        _ question: LoginQuestion, userName: EncodedString?, source: String,
        reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let target = settings.superuserTarget, let userName else {
            reply(.allowed(userName: nil, grant(isSuperuser: false)))
            return nil
        }
        let steps = GoAuthSteps()
        // Who comes by a file does so without the service: it is not waited for long, and asked again with each topic.
        ask(target, [("username", userName.description)], steps, isHurried: source != name) { [self] answer in
            switch answer {
            case .success(let isSuperuser): reply(.allowed(userName: nil, grant(isSuperuser: isSuperuser)))
            case .failure where source != name:
                let topics = UndecidedSuperuser(self, userName.description)
                reply(
                    .allowed(
                        userName: nil,
                        LoginGrant(
                            source: name, rights: GrantedRule.rights([], name: "go-auth"), topics: topics, isProvisional: true)))
            case .failure(let failure): reply(failure.kind == .busy ? .busy : .failed("\(failure)"))
            }
        }
        return steps
    }

    private func grant(isSuperuser: Bool) -> LoginGrant {
        if isSuperuser { return LoginGrant(source: name, isSuperuser: true) }
        // What the access file does not grant the service is asked for; without either nothing is allowed.
        return LoginGrant(
            source: name, rights: GrantedRule.rights([], name: "go-auth"), topics: settings.accessTarget == nil ? nil : self)
    }

    // MARK: Topics

    /// Asks for what go-auth calls acc: 2 to publish, 4 to subscribe, and 1 to read what is subscribed to, if that is
    /// one topic.
    public func decide(_ question: TopicQuestion, reply: @escaping @Sendable (TopicDecision) -> Void) {
        ask(question, acc: question.action == .publish ? 2 : 4) { [self] decision in
            let isFilter = question.topic.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
            guard decision.isAllowed, question.action == .subscribe, !isFilter else { return reply(decision) }
            ask(question, acc: 1, reply)
        }
    }

    private func ask(_ question: TopicQuestion, acc: Int, _ reply: @escaping @Sendable (TopicDecision) -> Void) {
        guard let target = settings.accessTarget else { return reply(TopicDecision(isAllowed: false, milliseconds: 1000)) }
        let values = [
            ("acc", String(acc)), ("clientid", question.clientIdentifier.description),
            ("topic", String(decoding: question.topic, as: UTF8.self)), ("username", question.userName?.description ?? ""),
        ]
        ask(target, values, GoAuthSteps()) { [self] answer in
            guard case .success(let isAllowed) = answer else { return reply(TopicDecision(isAllowed: false, milliseconds: 1000)) }
            reply(remembered(isAllowed))
        }
    }

    private func remembered(_ isAllowed: Bool) -> TopicDecision {
        let jitter = settings.accessJitterSeconds * 1000
        let chance = jitter > 0 ? RandomBytes.seed() % (2 * jitter + 1) : 0
        let life = settings.accessCacheSeconds * 1000 + chance
        // It holds at least until the packet that has caused the question is read again.
        return TopicDecision(isAllowed: isAllowed, milliseconds: max(1000, life - min(life, jitter)))
    }

    /// Asks for a topic of a user of whom nobody could say whether it is a superuser.
    fileprivate func decide(
        _ question: TopicQuestion, undecided user: String, reply: @escaping @Sendable (TopicDecision) -> Void
    ) {
        guard let target = settings.superuserTarget else { return decide(question, reply: reply) }
        ask(target, [("username", user)], GoAuthSteps()) { [self] answer in
            switch answer {
            case .success(true): reply(remembered(true))
            case .success(false): decide(question, reply: reply)
            case .failure: reply(TopicDecision(isAllowed: false, milliseconds: 1000))
            }
        }
    }

    /// The service is not asked again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool { earlier is GoAuthSource }

    // MARK: A question

    /// - Parameter values: sorted by name, as go-auth sends them.
    private func ask(
        _ target: String, _ values: [(String, String)], _ steps: GoAuthSteps, isHurried: Bool = false, attempt: Int = 0,
        _ reply: @escaping @Sendable (Result<Bool, HTTPClientFailure>) -> Void
    ) {
        var question = httpQuestion(target, values)
        question.isHurried = isHurried
        let call = client.ask(question) { [self] result in
            let answer: Result<Bool, HTTPClientFailure>
            switch result {
            case .success(let found) where found.status.rawValue >= 500:
                answer = .failure(HTTPClientFailure(.badAnswer, "answers \(found.status)"))
            case .success(let found): answer = verdict(found)
            case .failure(let failure): answer = .failure(failure)
            }
            guard case .failure(let failure) = answer, !isHurried, failure.kind != .busy, attempt < settings.retriesMax else {
                return reply(answer)
            }
            ask(target, values, steps, attempt: attempt + 1, reply)
        }
        steps.wait(for: call)
    }

    private func httpQuestion(_ target: String, _ values: [(String, String)]) -> HTTPQuestion {
        var body: [UInt8]
        if settings.usesForms {
            body = Array(values.map { "\($0)=\(PercentCoding.encode($1))" }.joined(separator: "&").utf8)
        } else {
            var object = JSONObject()
            for (name, value) in values {
                // A number, as go-auth sends it.
                if name == "acc", let number = Int(value) { object.set(name, number) } else { object.set(name, value) }
            }
            body = object.bytes
        }
        return HTTPQuestion(
            HTTPMethod(rawValue: settings.method), target,
            fields: [
                .init("User-Agent", settings.userAgent),
                .init("Content-Type", settings.usesForms ? "application/x-www-form-urlencoded" : "application/json"),
            ], body: body)
    }

    private func verdict(_ answer: HTTPAnswer) -> Result<Bool, HTTPClientFailure> {
        guard (200..<300).contains(answer.status.rawValue) else { return .success(false) }
        switch settings.responses {
        case .status: return .success(true)
        case .text:
            let text = String(decoding: answer.body.prefix(16), as: UTF8.self)
            return .success(text.filter { $0 != "\n" && $0 != "\r" } == "ok")
        case .json:
            do throws(JSONError) {
                guard let isOK = try JSONValue(reading: answer.body).object?.any("ok")?.boolean else {
                    return .failure(HTTPClientFailure(.badAnswer, "answers JSON without \"ok\""))
                }
                return .success(isOK)
            } catch {
                return .failure(HTTPClientFailure(.badAnswer, "answers what is no JSON: \(error)"))
            }
        }
    }
}

/// Who is asked about the topics of a user of a file who came while the service could not be asked: whether it is a
/// superuser is asked with each of them, and not only when it comes again.
private final class UndecidedSuperuser: TopicAuthority {
    private let source: GoAuthSource
    private let user: String

    init(_ source: GoAuthSource, _ user: String) { (self.source, self.user) = (source, user) }

    func decide(_ question: TopicQuestion, reply: @escaping @Sendable (TopicDecision) -> Void) {
        source.decide(question, undecided: user, reply: reply)
    }
}

/// The questions of one login, one after the other.
private final class GoAuthSteps: AbandonedLogin {
    private let state = Locked<(call: HTTPCall?, isAbandoned: Bool)>((nil, false))

    func wait(for call: HTTPCall) {
        let isAbandoned = state.withLock { state in
            state.call = call
            return state.isAbandoned
        }
        if isAbandoned { call.cancel() }
    }

    func abandon() {
        let call = state.withLock { state in
            state.isAbandoned = true
            return state.call
        }
        call?.cancel()
    }
}

/// A back end of go-auth that is not asked about users whose names begin with the prefix of another one.
public final class PrefixedLoginSource: LoginSource {
    private let source: any LoginSource
    private let otherPrefixes: [String]

    /// - Parameters:
    ///   - source: the back end.
    ///   - otherPrefixes: those of the others, which stand in front of the first underscore of a name.
    public init(_ source: any LoginSource, otherPrefixes: [String]) {
        (self.source, self.otherPrefixes) = (source, otherPrefixes)
    }

    public var name: String { source.name }

    public func isAsked(about userName: EncodedString?) -> Bool {
        guard let name = userName?.bytes, let end = name.firstIndex(of: UInt8(ascii: "_")) else { return true }
        return !otherPrefixes.contains { name[..<end].elementsEqual($0.utf8) }
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        source.decide(question, reply: reply)
    }

    public func recalled(_ question: LoginQuestion) -> LoginAnswer? { source.recalled(question) }

    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        isAsked(about: userName) && source.keeps(userName, of: (earlier as? PrefixedLoginSource)?.source ?? earlier)
    }
}

/// A back end of go-auth that says nothing of topics, beside others: there none of its users may do anything that the
/// listener's own rules do not allow. Alone it would leave everything to them.
public final class BoundLoginSource: LoginSource {
    private let source: any LoginSource

    public init(_ source: any LoginSource) { self.source = source }

    public var name: String { source.name }

    public func isAsked(about userName: EncodedString?) -> Bool { source.isAsked(about: userName) }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        source.decide(question) { answer in
            guard case .allowed(let userName, let grant) = answer, grant.rights == nil, !grant.isSuperuser else {
                return reply(answer)
            }
            reply(.allowed(userName: userName, LoginGrant(source: grant.source, rights: GrantedRule.rights([], name: "go-auth"))))
        }
    }

    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        source.keeps(userName, of: (earlier as? BoundLoginSource)?.source ?? earlier)
    }
}
