import JSON
import JSONReader
import MQTTCodec
import Platform
import Security
import Testing

@testable import BrokerModel
@testable import JSONWebTokens
@testable import LoginServices

/// Logins by tokens: what a chain is answered, and what a session may do then.
@Suite(.timeLimit(.minutes(10))) struct TokenLoginSourceTests {
    private static let secret = "0123456789abcdef0123456789abcdef"

    private func token(_ claims: String, kid: String? = nil, secret: String = secret) -> [UInt8] {
        let header = kid.map { #"{"alg":"HS256","kid":"\#($0)"}"# } ?? #"{"alg":"HS256"}"#
        return SignedToken.made(header: header, claims: claims, secret: secret)
    }

    private func source(
        _ location: TokenLoginSource.Location = .password, ring: TokenKeyRing? = nil, roles: TokenLoginSource.RoleLookup? = nil,
        workers: WorkerPool, _ change: (inout TokenRules) -> Void = { _ in }
    ) throws -> TokenLoginSource {
        var rules = TokenRules()
        (rules.algorithms, rules.rolesClaim) = ([.hs256], "roles")
        change(&rules)
        let keys = try TokenKeys(secret: Array(Self.secret.utf8))
        return TokenLoginSource(
            TokenVerifier(rules), keys: ring ?? TokenKeyRing(own: keys), location: location, roles: roles, workers: workers)
    }

    private func question(
        _ userName: EncodedString?, _ password: [UInt8]?, client: EncodedString = "c1", address: String = "192.0.2.7"
    ) -> LoginQuestion {
        LoginQuestion(
            userName: userName, password: password, clientIdentifier: client, info: ConnectionInfo(address: address),
            subject: LoginThrottle().subject(network: address, site: address, userName: userName, clientIdentifier: client))
    }

    /// What a source answers: as a text, and the grant.
    private func answer(_ source: any LoginSource, _ question: LoginQuestion) async -> (text: String, grant: LoginGrant?) {
        await withCheckedContinuation { continuation in
            _ = source.decide(question) { answer in
                switch answer {
                case .allowed(let userName, let grant):
                    continuation.resume(returning: ("allowed \(userName?.description ?? "-")", grant))
                case .refused(let failure): continuation.resume(returning: ("refused: \(failure.words)", nil))
                case .next(let failure): continuation.resume(returning: ("next: \(failure.words)", nil))
                case .failed(let words): continuation.resume(returning: ("failed: \(words)", nil))
                case .busy: continuation.resume(returning: ("busy", nil))
                }
            }
        }
    }

    private func withWorkers<Answer>(_ body: (WorkerPool) async throws -> Answer) async rethrows -> Answer {
        let workers = WorkerPool(name: "test", threads: 1, queue: 100)
        defer { workers.stop() }
        return try await body(workers)
    }

    private static let end = 4_102_444_800

    @Test func `a good token is its user's, and ends with it`() async throws {
        try await withWorkers { workers in
            let (text, grant) = await answer(
                try source(workers: workers), question("whoever", token(#"{"sub":"anna","exp":\#(Self.end),"is_superuser":true}"#)))
            #expect(text == "allowed anna")
            #expect(grant?.source == "jwt" && grant?.isSuperuser == true && grant?.rights == nil)
            #expect(grant?.expiresAt == UInt64(Self.end + 30) * 1000)
        }
    }

    @Test func `a token is looked for where the operator says`() async throws {
        try await withWorkers { workers in
            let good = token(#"{"sub":"anna","exp":\#(Self.end)}"#)
            let byName = try source(.userName, workers: workers)
            #expect(await answer(byName, question(EncodedString(good), nil)).text == "allowed anna")
            #expect(await answer(byName, question("anna", good)).text == "next: no token (JWT) is where one is looked for")
            let byMethod = try source(.authentication, workers: workers)
            #expect(await answer(byMethod, question("anna", good)).text == "next: no token (JWT) is where one is looked for")
        }
    }

    @Test func `what is no token is left to the next source, and a bad token is not`() async throws {
        try await withWorkers { workers in
            let source = try source(workers: workers)
            #expect(
                await answer(source, question("anna", Array("secret".utf8))).text
                    == "next: no token (JWT) is where one is looked for")
            #expect(await answer(source, question("anna", nil)).text == "next: no token (JWT) is where one is looked for")
            #expect(
                await answer(source, question("anna", token(#"{"sub":"anna","exp":1}"#))).text
                    .hasPrefix("refused: its token is not accepted: it expired "))
            let forged = token(#"{"sub":"anna","exp":\#(Self.end)}"#, secret: String(Self.secret.reversed()))
            #expect(
                await answer(source, question("anna", forged)).text
                    == "refused: its token is not accepted: its signature is not that of any key")
        }
    }

    @Test func `a token of a key that is new waits until it is fetched`() async throws {
        try await withWorkers { workers in
            let asked = Locked<[@Sendable (Result<(keys: TokenKeys, maxAgeSeconds: Int?), TokenKeyFailure>) -> Void]>([])
            let new = TokenKeys([try VerificationKey(secret: Array(Self.secret.utf8), identifier: "new")])
            let ring = TokenKeyRing(own: TokenKeys([])) { reply in reply(.success((new, nil))) }
            let good = token(#"{"sub":"anna","exp":\#(Self.end)}"#, kid: "new")
            #expect(await answer(try source(ring: ring, workers: workers), question(nil, good)).text == "allowed anna")
            let old = token(#"{"sub":"anna","exp":\#(Self.end)}"#, kid: "old")
            #expect(
                await answer(try source(ring: ring, workers: workers), question(nil, old)).text
                    == "refused: its token is not accepted: no key has the name \"old\"")
            let down = TokenKeyRing(own: TokenKeys([])) { reply in reply(.failure(TokenKeyFailure("cannot fetch keys"))) }
            #expect(await answer(try source(ring: down, workers: workers), question(nil, good)).text == "failed: cannot fetch keys")
            #expect(asked.value.isEmpty)
        }
    }

    // MARK: Rules

    private func policy(
        _ claims: String, client: EncodedString = "c1", address: String = "192.0.2.7", roles: TokenLoginSource.RoleLookup? = nil
    ) throws -> AccessPolicy {
        let value = try #require(try JSONValue(reading: Array(#"{"sub":"anna","exp":\#(Self.end),\#(claims)}"#.utf8)).object)
        var rules = TokenRules()
        rules.rolesClaim = "roles"
        let bearer = LoginClient("x", client, address: address)
        let login = try TokenVerifier(rules).login(by: value, bearer: bearer.bearer, now: 0)
        guard case .allowed(let userName, let grant) = try bearer.answer(login, source: "jwt", leewaySeconds: 30, roles) else {
            preconditionFailure("not allowed")
        }
        return try #require(AccessControl.policy(nil, userName: userName, clientIdentifier: client, grant: grant))
    }

    private func publishes(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayPublish(topic: $0) }
    }

    private func receives(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayReceive(topic: $0) }
    }

    @Test func `the old form of access rules names all that is allowed, with the names of the client`() throws {
        let policy = try policy(#""acl":{"pub":["a/%c","dev-${clientid}/x","u/${username}"],"sub":["b/#","eq c/+"],"all":["d"]}"#)
        #expect(publishes(policy, "a/c1") && publishes(policy, "dev-c1/x") && publishes(policy, "u/anna") && publishes(policy, "d"))
        #expect(!publishes(policy, "a/c2") && !publishes(policy, "b/x") && !publishes(policy, "u/x"))
        #expect(receives(policy, "b/x") && receives(policy, "d") && !receives(policy, "a/c1"))
        #expect(policy.maySubscribe("b/#", qos: nil, asksLists: false) && policy.maySubscribe("c/+", qos: nil, asksLists: false))
        #expect(!policy.maySubscribe("c/1", qos: nil, asksLists: false) && !policy.maySubscribe("#", qos: nil, asksLists: false))
    }

    @Test func `the new form is asked in its order, by where the client comes from`() throws {
        let rules = #"""
            "acl":[{"permission":"deny","action":"publish","topic":"a/secret"},
             {"permission":"allow","action":"all","topics":["a/#"],"ipaddr":"192.0.2.0/24"},
             {"permission":"allow","action":"subscribe","topic":"site/${client_attrs.site}/#"}],"client_attrs":{"site":"north"}
            """#
        let policy = try policy(rules)
        #expect(publishes(policy, "a/b") && !publishes(policy, "a/secret") && receives(policy, "site/north/x"))
        #expect(!receives(policy, "site/south/x"))
        #expect(!publishes(try self.policy(rules, address: "198.51.100.1"), "a/b"))
    }

    @Test func `a name with a wildcard or a slash opens nothing`() throws {
        for client in ["#", "+", "a/b", "c/#"] as [EncodedString] {
            let policy = try policy(#""acl":{"pub":["x-%c/y","p/%c/q"]}"#, client: client)
            for topic in ["x-/y", "x-a/b/y", "x-a/y", "p/z/q", "p/a/b/q"] {
                #expect(!publishes(policy, topic), "\(client) \(topic)")
            }
        }
    }

    @Test(arguments: [
        #""acl":{"pub":["a/${cert_common_name}"]}"#, #""acl":{"pub":["a#"]}"#,
        #""acl":[{"permission":"allow","action":"all","topic":"a","ipaddr":"here"}]"#,
    ]) func `rules that nobody can keep let nobody in`(claims: String) {
        #expect(throws: TokenRefusal.self) { try policy(claims) }
    }

    @Test func `roles are asked behind the token's own rules`() throws {
        let asked = Locked<[EncodedString]>([])
        let filter = try #require(AccessFilter("r/#".utf8, isPattern: true))
        let role = RoleRules(
            name: "r", allowsWildcards: true, sending: [RoleRule(filter, allows: true)], receiving: [], subscribing: .init(),
            unsubscribing: .init())
        let policy = try policy(
            #""roles":["a","b"],"acl":[{"permission":"deny","action":"publish","topic":"r/secret"}]"#
        ) { names in
            asked.replace(with: names)
            return [role]
        }
        #expect(asked.value == ["a", "b"] && publishes(policy, "r/x") && !publishes(policy, "r/secret"))
    }

    // MARK: AUTH

    /// Of the exchanges of a test.
    private let tally = LoginSourceTally(name: "jwt")

    /// What an exchange of `OAUTH2-JWT` is answered: to what comes with CONNECT, and to the answer to a challenge.
    private func outcome(_ source: TokenLoginSource, _ first: [UInt8]?, _ second: [UInt8]? = nil) async -> AuthenticationOutcome {
        let request = AuthenticationRequest(
            clientIdentifier: "c1", info: ConnectionInfo(address: "192.0.2.7"), step: .begin(method: "OAUTH2-JWT", data: first))
        let subject = LoginThrottle().subject(network: "192.0.2.7", site: "192.0.2.7", userName: nil, clientIdentifier: "c1")
        let exchange = TokenMethod("OAUTH2-JWT", source, tally: tally) { _ in }.makeExchange(for: request, as: subject)
        let answer = await withCheckedContinuation { continuation in
            _ = exchange.begin(data: first) { continuation.resume(returning: $0) }
        }
        guard let second, case .challenge(data: []) = answer else { return answer }
        return await withCheckedContinuation { continuation in
            _ = exchange.proceed(data: second) { continuation.resume(returning: $0) }
        }
    }

    @Test func `a token comes by an Authentication Method, at once or when it is asked for`() async throws {
        try await withWorkers { workers in
            let source = try source(.authentication, workers: workers) { $0.clientIdentifierClaim = "device" }
            let good = token(#"{"sub":"anna","device":"c1","exp":\#(Self.end)}"#)
            guard case .accepted("anna", nil, let grant) = await outcome(source, good) else {
                Issue.record("not accepted")
                return
            }
            #expect(grant?.expiresAt == UInt64(Self.end + 30) * 1000)
            guard case .accepted = await outcome(source, nil, good) else {
                Issue.record("not asked for, or not accepted")
                return
            }
            let other = token(#"{"sub":"anna","device":"c2","exp":\#(Self.end)}"#)
            guard case .refused(.notAuthorized, let failure) = await outcome(source, other) else {
                Issue.record("another client's token is accepted")
                return
            }
            #expect(failure.words == "its token is not accepted: it is for the Client Identifier \"c2\"")
            let counts = tally.counts
            #expect((counts.asked, counts.allowed, counts.refused, counts.latency.count) == (3, 2, 1, 3))
        }
    }

    @Test func `an Authentication Method waits for keys that are not there yet`() async throws {
        try await withWorkers { workers in
            let keys = try TokenKeys(secret: Array(Self.secret.utf8))
            let ring = TokenKeyRing(own: TokenKeys([]), fetch: { $0(.success((keys, nil))) })
            let good = token(#"{"sub":"anna","exp":\#(Self.end)}"#)
            let waiting = try source(.authentication, ring: ring, workers: workers)
            guard case .accepted("anna", _, _) = await outcome(waiting, good) else {
                Issue.record("not accepted")
                return
            }
            let down = TokenKeyRing(own: TokenKeys([]), fetch: { $0(.failure(TokenKeyFailure("does not answer"))) })
            let refused = await outcome(try source(.authentication, ring: down, workers: workers), good)
            guard case .refused(.serverUnavailable, let failure) = refused else {
                Issue.record("not told that the server is unavailable: \(refused)")
                return
            }
            #expect(failure.words == "the login source jwt does not answer")
        }
    }

    @Test func `who came by other rules has to come again`() async throws {
        try await withWorkers { workers in
            let (one, same) = (try source(workers: workers), try source(workers: workers))
            let other = try source(workers: workers) { $0.issuers = ["x"] }
            #expect(one.keeps("anna", of: one) && one.keeps("anna", of: same) && !one.keeps("anna", of: other))
        }
    }

    // MARK: Introspection

    @Test func `what issuers have said is kept within bounds, until the token ends`() throws {
        func claims(_ text: String) throws -> JSONMembers { try #require(try JSONValue(reading: Array(text.utf8)).object) }
        var cache = IntrospectionCache(seconds: 60)
        cache.keep(try claims(#"{"exp":130}"#), bytes: 100, of: [1], now: 100)
        cache.keep(try claims("{}"), bytes: 100, of: [2], now: 100)
        #expect(cache.claims(of: [1], now: 129) != nil && cache.claims(of: [1], now: 130) == nil)
        #expect(cache.claims(of: [2], now: 159) != nil && cache.claims(of: [2], now: 160) == nil)
        #expect(cache.claims(of: [3], now: 100) == nil)
        for number in 0..<30_000 {
            cache.keep(try claims("{}"), bytes: 100, of: [UInt8(number >> 8), UInt8(number & 255)], now: 100)
        }
        #expect(cache.count == 10_000 && cache.bytes == 1_000_000)
        cache.keep(try claims("{}"), bytes: 8 << 20, of: [9], now: 100)
        #expect(cache.count == 1)
        var none = IntrospectionCache(seconds: nil)
        none.keep(try claims("{}"), bytes: 1, of: [1], now: 100)
        #expect(none.count == 0)
    }

    @Test func `texts of forms are percent-encoded`() {
        #expect(FormText.encoded("a-Z_0.~ +&=/ü".utf8) == "a-Z_0.~%20%2B%26%3D%2F%C3%BC")
    }
}
