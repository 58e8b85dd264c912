public import BrokerModel
package import JSONWebTokens
public import MQTTCodec
internal import Platform
public import Security

/// Logins by tokens that an issuer has signed: in the password, in the user name, or in the Authentication Data of MQTT
/// 5.0, see `TokenMethod`.
///
///     no token ─► unknown, the next source is asked        a token ─► accepted or refused, with words
///
/// Signatures are checked on the worker pool, in the order of the login throttle. For any thread.
public final class TokenLoginSource: LoginSource {
    /// Where clients put their tokens.
    public enum Location: Sendable {
        case password
        case userName
        /// In the Authentication Data alone.
        case authentication
    }

    public let name = "jwt"
    let verifier: TokenVerifier
    let keys: TokenKeyRing
    private let location: Location
    let roles: RoleLookup?
    private let workers: WorkerPool

    /// The rules of roles, by their names; a role that is not there is left out.
    public typealias RoleLookup = @Sendable ([EncodedString]) -> [RoleRules]

    /// - Parameters:
    ///   - verifier: has the operator's rules.
    ///   - keys: that tokens are signed with.
    ///   - location: where clients put their tokens.
    ///   - roles: dynamic security's; nil where there is none.
    ///   - workers: check signatures.
    package init(_ verifier: TokenVerifier, keys: TokenKeyRing, location: Location, roles: RoleLookup?, workers: WorkerPool) {
        (self.verifier, self.keys, self.location) = (verifier, keys, location)
        (self.roles, self.workers) = (roles, workers)
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let token = location.token(in: question) else {
            reply(.next(.noWebToken))
            return nil
        }
        return submit(token, LoginClient(question), question.subject, reply: reply)
    }

    /// Has a token checked when its turn comes.
    fileprivate func submit(
        _ token: [UInt8], _ client: LoginClient, _ subject: LoginSubject, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> any AbandonedLogin {
        let check = PasswordCheck(of: subject) { [self] in
            self.check(token, client, mayFetch: true, reply: reply)
        } refuse: {
            reply(.busy)
        }
        workers.submit(check)
        return check
    }

    /// A token is judged when it comes: later it ends by itself. Who was let in by other rules has to come again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        guard let earlier = earlier as? TokenLoginSource else { return false }
        return earlier === self || earlier.verifier.rules == verifier.rules
    }

    /// - Parameter mayFetch: whether keys may be waited for.
    func check(_ token: [UInt8], _ client: LoginClient, mayFetch: Bool, reply: @escaping @Sendable (LoginAnswer) -> Void) {
        do throws(TokenRefusal) {
            reply(try answer(token, client))
        } catch {
            guard mayFetch, error.kind == .unknownKey else { return reply(Self.answer(to: error)) }
            keys.refresh { [self] result in
                // Without any key nobody can say whose the token is.
                if case .failure(let failure) = result, keys.keys.keys.isEmpty { return reply(.failed(failure.description)) }
                // Also when nothing was fetched: keys may have come since the token was looked at.
                check(token, client, mayFetch: false, reply: reply)
            }
        }
    }

    /// What a token that is checked with the keys that are there makes of its bearer.
    private func answer(_ token: [UInt8], _ client: LoginClient) throws(TokenRefusal) -> LoginAnswer {
        let login = try verifier.verify(token, keys: keys.keys, bearer: client.bearer, now: WallClock.seconds())
        return try client.answer(login, source: name, leewaySeconds: verifier.rules.leewaySeconds, roles)
    }

    private static func answer(to refusal: TokenRefusal) -> LoginAnswer {
        let words = LoginFailure.reported("its token is not accepted: \(refusal)")
        return refusal.kind == .notAToken ? .next(words) : .refused(words)
    }
}

extension TokenLoginSource.Location {
    /// What may be a token; nil for what somebody else may know.
    func token(in question: LoginQuestion) -> [UInt8]? {
        let bytes: [UInt8]?
        switch self {
        case .password: bytes = question.password
        case .userName: bytes = question.userName?.bytes
        case .authentication: bytes = nil
        }
        return bytes.flatMap { CompactToken.looksLikeToken($0) ? $0 : nil }
    }
}

/// An Authentication Method by which MQTT 5.0 clients bring tokens, and new ones while they are connected:
/// `OAUTH2-JWT` and `CUSTOM-JWT`, as Azure's Event Grid and its clients call them.
public final class TokenMethod: EnhancedAuthenticator {
    public static let names: [EncodedString] = ["OAUTH2-JWT", "CUSTOM-JWT"]

    public let method: EncodedString
    private let source: TokenLoginSource
    private let counting: LoginCounting

    /// How answers are counted: with those of the same source in a chain.
    typealias LoginCounting =
        @Sendable (@escaping @Sendable (LoginAnswer) -> Void) -> @Sendable (LoginAnswer) -> Void

    /// - Parameters:
    ///   - method: one of the names.
    ///   - source: checks the tokens.
    ///   - tally: counts what becomes of them.
    ///   - report: gets lines for the log, at most one in 10 s.
    public init(
        _ method: EncodedString, _ source: TokenLoginSource, tally: LoginSourceTally,
        report: @escaping @Sendable (String) -> Void
    ) {
        (self.method, self.source) = (method, source)
        counting = { reply in tally.counting(report: report, reply) }
    }

    public func makeExchange(for request: AuthenticationRequest, as subject: LoginSubject) -> any EnhancedExchange {
        TokenExchange(source, LoginClient(nil, request.clientIdentifier, address: request.info.address), subject, counting)
    }

    public func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool {
        guard let earlier = earlier as? TokenMethod else { return false }
        return source.keeps(userName, of: earlier.source)
    }
}

/// One token: it comes with CONNECT or AUTH, or in the answer to an empty challenge.
private final class TokenExchange: EnhancedExchange {
    private let source: TokenLoginSource
    private let client: LoginClient
    private let subject: LoginSubject
    private let counting: TokenMethod.LoginCounting

    init(
        _ source: TokenLoginSource, _ client: LoginClient, _ subject: LoginSubject, _ counting: @escaping TokenMethod.LoginCounting
    ) {
        (self.source, self.client, self.subject, self.counting) = (source, client, subject, counting)
    }

    func begin(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        guard let data else {
            reply(.challenge(data: []))
            return nil
        }
        return check(data, reply)
    }

    func proceed(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        check(data ?? [], reply)
    }

    private func check(
        _ token: [UInt8], _ reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        let name = source.name
        let counted = counting { answer in
            switch answer {
            case .allowed(let userName, let grant): reply(.accepted(userName: userName, data: nil, grant: grant))
            case .refused(let failure), .next(let failure): reply(.refused(.notAuthorized, because: failure))
            case .failed(let words): reply(.refused(.serverUnavailable, because: .reported("the login source \(name) \(words)")))
            case .busy: reply(.refused(.serverBusy, because: .tooManyLogins))
            }
        }
        return source.submit(token, client, subject, reply: counted)
    }
}
