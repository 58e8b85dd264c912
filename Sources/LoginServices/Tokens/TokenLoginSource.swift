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
    public enum Place: Sendable {
        case password
        case userName
        /// In the Authentication Data alone.
        case authentication
    }

    public let name = "jwt"
    let verifier: TokenVerifier
    let keys: TokenKeyRing
    private let place: Place
    let roles: RoleLookup?
    private let workers: WorkerPool

    /// The rules of roles, by their names; a role that is not there is left out.
    public typealias RoleLookup = @Sendable ([EncodedString]) -> [RoleRules]

    /// - Parameters:
    ///   - verifier: has the operator's rules.
    ///   - keys: that tokens are signed with.
    ///   - place: where clients put their tokens.
    ///   - roles: dynamic security's; nil where there is none.
    ///   - workers: check signatures.
    package init(_ verifier: TokenVerifier, keys: TokenKeyRing, place: Place, roles: RoleLookup?, workers: WorkerPool) {
        (self.verifier, self.keys, self.place) = (verifier, keys, place)
        (self.roles, self.workers) = (roles, workers)
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let token = place.token(in: question) else {
            reply(.next(.told("no token (JWT) is where one is looked for")))
            return nil
        }
        let bearer = TokenClient(question)
        let check = PasswordCheck(of: question.subject) { [self] in
            self.check(token, bearer, mayFetch: true, reply: reply)
        } refuse: {
            reply(.busy)
        }
        workers.submit(check)
        return check
    }

    /// A token is judged when it comes: later it ends by itself. Who was let in by other rules has to come again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? TokenLoginSource).map { $0 === self || $0.verifier.rules == verifier.rules } ?? false
    }

    /// - Parameter mayFetch: whether keys may be waited for.
    func check(_ token: [UInt8], _ client: TokenClient, mayFetch: Bool, reply: @escaping @Sendable (LoginAnswer) -> Void) {
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
    private func answer(_ token: [UInt8], _ client: TokenClient) throws(TokenRefusal) -> LoginAnswer {
        let login = try verifier.verify(token, keys: keys.keys, bearer: client.bearer, now: WallClock.seconds())
        return try client.answer(login, source: name, leewaySeconds: verifier.rules.leewaySeconds, roles)
    }

    private static func answer(to refusal: TokenRefusal) -> LoginAnswer {
        let words = LoginFailure.told("its token is not accepted: \(refusal)")
        return refusal.kind == .notAToken ? .next(words) : .refused(words)
    }
}

extension TokenLoginSource.Place {
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

    public init(_ method: EncodedString, _ source: TokenLoginSource) { (self.method, self.source) = (method, source) }

    public func makeExchange() -> any EnhancedExchange {
        TokenExchange(source, client: TokenClient(nil, EncodedString(), address: ""))
    }

    public func makeExchange(for request: AuthenticationRequest) -> any EnhancedExchange {
        TokenExchange(source, client: TokenClient(nil, request.clientIdentifier, address: request.info.address))
    }

    public func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool {
        (earlier as? TokenMethod).map { source.keeps(userName, of: $0.source) } ?? false
    }
}

/// One token: it comes with CONNECT or AUTH, or in the answer to an empty challenge.
private final class TokenExchange: EnhancedExchange {
    private let source: TokenLoginSource
    private let client: TokenClient

    init(_ source: TokenLoginSource, client: TokenClient) { (self.source, self.client) = (source, client) }

    func begin(data: [UInt8]?) -> AuthenticationOutcome { data.map { check($0) } ?? .challenge(data: []) }

    func proceed(data: [UInt8]?) -> AuthenticationOutcome { check(data ?? []) }

    private func check(_ token: [UInt8]) -> AuthenticationOutcome {
        do throws(TokenRefusal) {
            let login = try source.verifier.verify(token, keys: source.keys.keys, bearer: client.bearer, now: WallClock.seconds())
            let answer = try client.answer(
                login, source: source.name, leewaySeconds: source.verifier.rules.leewaySeconds, source.roles)
            guard case .allowed(let userName, let grant) = answer else { return .refused(.notAuthorized) }
            return .accepted(userName: userName, data: nil, grant: grant)
        } catch {
            let words = LoginFailure.told("its token is not accepted: \(error)")
            guard error.kind == .unknownKey else { return .refused(.notAuthorized, because: words) }
            // An exchange cannot wait: the keys are fetched, and the client comes again.
            source.keys.refresh { _ in }
            return .refused(source.keys.keys.keys.isEmpty ? .serverUnavailable : .notAuthorized, because: words)
        }
    }
}

/// Who brings a token, and what is made of what it says.
struct TokenClient: Sendable {
    let userName: EncodedString?
    let clientIdentifier: EncodedString
    /// As the log prints it.
    let address: String

    init(_ userName: EncodedString?, _ clientIdentifier: EncodedString, address: String) {
        (self.userName, self.clientIdentifier, self.address) = (userName, clientIdentifier, address)
    }

    init(_ question: LoginQuestion) {
        self.init(question.userName, question.clientIdentifier, address: question.info.address)
    }

    var bearer: TokenBearer {
        TokenBearer(userName: userName?.description, clientIdentifier: clientIdentifier.description)
    }

    /// What the core is told of a login.
    ///
    /// - Parameter leewaySeconds: as long as a token is taken past its end, the connection stays.
    func answer(
        _ login: TokenLogin, source: String, leewaySeconds: Int64, _ roles: TokenLoginSource.RoleLookup?
    ) throws(TokenRefusal) -> LoginAnswer {
        var userName: EncodedString?
        if let name = login.userName {
            userName = EncodedString(name)
            if userName == nil { throw TokenRefusal(.claims, "its user name is longer than 65535 bytes, or holds a NUL") }
        }
        var rights: RoleRights?
        if let access = login.access {
            rights = try self.rights(access, userName ?? self.userName, login.attributes)
        }
        if let roles, !login.roles.isEmpty {
            let added = roles(login.roles.compactMap { EncodedString($0) })
            let base = rights ?? GrantedRule.rights([], name: Self.listName)
            rights = base.map { RoleRights(roles: $0.roles + added, defaults: $0.defaults) }
        }
        let grant = LoginGrant(
            source: source, rights: rights, decidesAll: login.access?.decidesAll ?? false, isSuperuser: login.isSuperuser,
            attributes: login.attributes.map { ($0.name, $0.value) },
            expiresAt: login.expiresAt.map { UInt64($0 + leewaySeconds) * 1000 })
        return .allowed(userName: userName, grant)
    }

    private static let listName: EncodedString = "of its token"

    private func rights(
        _ access: TokenAccess, _ userName: EncodedString?, _ attributes: [TokenAttribute]
    ) throws(TokenRefusal) -> RoleRights {
        var rules: [GrantedRule] = []
        for rule in access.rules {
            guard try isMeant(by: rule.addresses) else { continue }
            guard let filter = try filled(rule, userName, attributes) else { continue }
            rules.append(
                GrantedRule(
                    allows: rule.allows, isForPublishing: rule.action != .subscribe, isForSubscribing: rule.action != .publish,
                    filter: filter, isLiteral: rule.isLiteral))
        }
        guard let rights = GrantedRule.rights(rules, name: Self.listName) else {
            throw TokenRefusal(.claims, "its access rules hold a topic whose wildcards do not fill their levels")
        }
        return rights
    }

    private func isMeant(by addresses: [String]) throws(TokenRefusal) -> Bool {
        var isMeant = addresses.isEmpty
        for text in addresses {
            guard let range = AddressRange(text) else {
                throw TokenRefusal(.claims, "its access rules name an address that is none: \(StrangersText.shown(text))")
            }
            isMeant = isMeant || (AddressRange(address) != nil && range.contains(address))
        }
        return isMeant
    }

    /// A rule's filter, with what stands for the client in a part of a level filled in; what fills a level is the
    /// core's. Nil for a rule that says nothing for this client: an allowing one must not reach further by what a name
    /// holds.
    private func filled(
        _ rule: TokenAccess.Rule, _ userName: EncodedString?, _ attributes: [TokenAttribute]
    ) throws(TokenRefusal) -> String? {
        var levels: [String] = []
        for level in rule.topic.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            var text = String(decoding: level, as: UTF8.self)
            if ["%c", "%u", "${clientid}", "${username}"].contains(text) {
                levels.append(text)
                continue
            }
            var values = [("%c", clientIdentifier.description), ("${clientid}", clientIdentifier.description)]
            values += [("%u", userName?.description ?? ""), ("${username}", userName?.description ?? "")]
            values += attributes.map { ("${client_attrs.\($0.name)}", $0.value) }
            for (place, value) in values where text.holds(place) {
                let isSafe = !value.isEmpty && !value.utf8.contains { [UInt8(ascii: "+"), UInt8(ascii: "#"), 0].contains($0) }
                guard isSafe, !rule.allows || !value.utf8.contains(UInt8(ascii: "/")) else { return nil }
                text = text.replacing(every: place, by: value)
            }
            if text.holds("${") {
                throw TokenRefusal(.claims, "its access rules name \(StrangersText.shown(text)), which nothing stands for")
            }
            levels.append(text)
        }
        return levels.joined(separator: "/")
    }
}
