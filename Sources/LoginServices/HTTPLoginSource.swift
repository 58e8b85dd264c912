internal import BrokerModel
internal import HTTP
public import HTTPClient
internal import JSON
public import MQTTCodec
internal import Platform
public import Security

/// Logins that a service over HTTP decides, in the JSON of EMQX's HTTP authentication.
///
///     POST {"username": "ann", "password": "…", "clientid": "c1", "peerhost": "10.0.0.7"}
///         204, or 200 {"result": "allow", …} ─► allowed    200 {"result": "deny"} ─► refused
///         200 {"result": "ignore"}, 4xx ─► unknown         5xx, no answer, anything else ─► failed
public final class HTTPLoginSource: LoginSource {
    public let name = "http"
    private let service: HTTPService

    /// - Parameters:
    ///   - client: of the service.
    ///   - fields: what every question's head has besides, such as Authorization.
    public init(_ client: HTTPClient, fields: [HTTPQuestion.Field] = []) { service = HTTPService(client, fields) }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard question.userName != nil || question.password != nil else {
            reply(.next(.noUserName))
            return nil
        }
        var body = HTTPService.body(of: question, userName: question.userName)
        if let password = question.password {
            guard String(validating: password, as: UTF8.self) != nil else {
                reply(.next(.passwordIsNoText))
                return nil
            }
            body.set("password", utf8: password)
        }
        return service.ask(body) { [name] answer in
            switch answer {
            case .failure(let failure): return reply(failure.kind == .busy ? .busy : .failed("\(failure)"))
            case .success(let answer): reply(HTTPService.decision(answer, source: name, LoginClient(question)))
            }
        }
    }

    /// The service is not asked again: it says itself when a login ends.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool { earlier is HTTPLoginSource }
}

/// Rules that a service over HTTP has for a client whom another source has let in: one question a login, the same JSON
/// without the password.
public final class HTTPRulesSource: LoginRulesSource {
    public let name = "http_authorize"
    private let service: HTTPService

    public init(_ client: HTTPClient, fields: [HTTPQuestion.Field] = []) { service = HTTPService(client, fields) }

    public func rules(
        _ question: LoginQuestion, userName: EncodedString?, source: String,
        reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        let client = LoginClient(userName, question.clientIdentifier, address: question.info.address)
        return service.ask(HTTPService.body(of: question, userName: userName)) { [name] answer in
            switch answer {
            case .failure(let failure): return reply(failure.kind == .busy ? .busy : .failed("\(failure)"))
            // A service that has nothing to say of a client says so. One that does not take the question, or not from
            // the broker, must not leave a client without the rules that it would have.
            case .success(let answer) where ![200, 204, 404].contains(answer.status.rawValue):
                reply(.failed("answers \(answer.status)"))
            case .success(let answer): reply(HTTPService.decision(answer, source: name, client))
            }
        }
    }
}

/// A service that is asked in JSON.
private final class HTTPService: Sendable {
    private let client: HTTPClient
    private let fields: [HTTPQuestion.Field]

    init(_ client: HTTPClient, _ fields: [HTTPQuestion.Field]) {
        self.client = client
        self.fields = fields + [.init("Content-Type", "application/json"), .init("Accept", "application/json")]
    }

    static func body(of question: LoginQuestion, userName: EncodedString?) -> JSONObject {
        var body = JSONObject()
        if let userName { body.set("username", utf8: userName.bytes) }
        body.set("clientid", utf8: question.clientIdentifier.bytes)
        body.set("peerhost", question.info.address)
        if let name = question.info.certificateCommonName { body.set("cert_common_name", name) }
        if let subject = question.info.certificateSubject { body.set("cert_subject", subject) }
        return body
    }

    func ask(
        _ body: JSONObject, reply: @escaping @Sendable (Result<HTTPAnswer, HTTPClientFailure>) -> Void
    ) -> any AbandonedLogin {
        AbandonedCall(
            client.ask(HTTPQuestion(.post, client.address.target, fields: fields, body: body.bytes), reply: reply))
    }

    static func decision(_ answer: HTTPAnswer, source: String, _ client: LoginClient) -> LoginAnswer {
        let status = answer.status.rawValue
        guard status < 500 else { return .failed("answers \(answer.status)") }
        if status == 204 { return .allowed(userName: nil, LoginGrant(source: source)) }
        guard status == 200 else { return .next(.reported("the login source \(source) answers \(answer.status)")) }
        do throws(GrantedAnswerError) {
            let granted = try GrantedAnswer(answer.body)
            switch granted.verdict {
            case .allowed:
                let now = UInt64(max(0, WallClock.seconds())) * 1000
                if let end = granted.expiresAt, end <= now {
                    return .refused(
                        .reported("the login source \(source) says that its login ended \((now - end) / 1000) s ago (expire_at)"))
                }
                return .allowed(userName: nil, try granted.grant(source: source, for: client))
            case .denied: return .refused(.reported("the login source \(source) refuses it"))
            case .ignored: return .next(.unknownUser)
            }
        } catch {
            return .failed("answers \(error)")
        }
    }
}

/// A question to a service as a login that waits for it.
final class AbandonedCall: AbandonedLogin {
    private let call: HTTPCall

    init(_ call: HTTPCall) { self.call = call }

    func abandon() { call.cancel() }
}
