import MQTTCodec
import Platform
import Testing

@testable import BrokerModel
@testable import Security

/// Several sources of logins, one behind the other, and what is remembered of their answers.
@Suite(.timeLimit(.minutes(10))) struct LoginChainTests {
    /// Answers as the test says, at once or when it is told to.
    final class Source: LoginSource, AbandonedLogin {
        let name: String
        /// Whom it lets in by what it knows from before, and the only user whom it may know; nil for nobody, and for
        /// anybody.
        private let known: EncodedString?
        private let only: EncodedString?
        private let state: Locked<State>

        struct State: Sendable {
            var answer: LoginAnswer?
            var waiting: [@Sendable (LoginAnswer) -> Void] = []
            var asked = 0
            var abandoned = 0
            var wasLast = false
        }

        init(_ name: String, _ answer: LoginAnswer?, known: EncodedString? = nil, only: EncodedString? = nil) {
            (self.name, self.known, self.only) = (name, known, only)
            state = Locked(State(answer: answer))
        }

        var now: State { state.value }

        func set(_ answer: LoginAnswer?) { state.withLock { $0.answer = answer } }

        func recalled(_ question: LoginQuestion) -> LoginAnswer? {
            known != nil && question.userName == known ? .allowed(userName: nil, LoginGrant(source: name)) : nil
        }

        func isAsked(about userName: EncodedString?) -> Bool { only == nil || userName == only }

        func decide(
            _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
        ) -> (any AbandonedLogin)? {
            let answer: LoginAnswer? = state.withLock { state in
                state.asked += 1
                state.wasLast = question.isLast
                if state.answer == nil { state.waiting.append(reply) }
                return state.answer
            }
            guard let answer else { return self }
            reply(answer)
            return nil
        }

        func answer(_ answer: LoginAnswer) {
            let reply = state.withLock { $0.waiting.removeFirst() }
            reply(answer)
        }

        func abandon() { state.withLock { $0.abandoned += 1 } }

        func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool { userName == "stays" }
    }

    private let tallies = LoginSourceTallies()
    private let lines = Locked<[String]>([])
    private let outcomes = Locked<[AuthenticationOutcome]>([])

    private func chain(_ sources: any LoginSource..., memory: LoginMemory? = nil) -> LoginChain {
        LoginChain(sources.map { ($0, memory) }, tallies: tallies) { [lines] line in lines.withLock { $0.append(line) } }
    }

    private func allowed(_ source: String, _ user: EncodedString? = nil) -> LoginAnswer {
        .allowed(userName: user, LoginGrant(source: source))
    }

    @discardableResult
    private func ask(
        _ chain: LoginChain, _ userName: EncodedString? = "u", _ password: [UInt8]? = [1]
    ) -> (any AbandonedLogin)? {
        let subject = LoginThrottle().subject(network: "n", site: "s", userName: userName, clientIdentifier: "c")
        let request = AuthenticationRequest(
            clientIdentifier: "c", info: ConnectionInfo(address: "10.0.0.1"),
            step: .password(userName: userName, password: password))
        return chain.authenticate(request, as: subject) { [outcomes] outcome in outcomes.withLock { $0.append(outcome) } }
    }

    private var last: AuthenticationOutcome? { outcomes.value.last }

    private func failure(_ outcome: AuthenticationOutcome?) -> (ReasonCode, LoginFailure)? {
        if case .refused(let reason, let failure) = outcome { (reason, failure) } else { nil }
    }

    @Test func `the first that lets in or refuses decides, and those behind it are not asked`() {
        let (first, second, third) = (Source("a", .next(.unknownUser)), Source("b", allowed("b", "ann")), Source("c", nil))
        let chain = chain(first, second, third)
        ask(chain)
        #expect(last?.acceptedUser == "ann")
        second.set(.refused(.wrongPassword))
        ask(chain)
        #expect(failure(last)?.0 == .notAuthorized && failure(last)?.1 == .wrongPassword)
        #expect(first.now.asked == 2 && second.now.asked == 2 && third.now.asked == 0)
        #expect(!first.now.wasLast && !second.now.wasLast && chain.names == ["a", "b", "c"])
    }

    @Test func `who is known to nobody is refused, and told to come again where one of them could not say`() {
        let (first, second) = (Source("a", .next(.unknownUser)), Source("b", .next(.unknownUser)))
        let chain = chain(first, second)
        ask(chain)
        #expect(failure(last)?.0 == .notAuthorized && failure(last)?.1 == .unknownUser && second.now.wasLast)
        first.set(.failed("does not answer"))
        ask(chain)
        #expect(failure(last)?.0 == .serverUnavailable)
        #expect(failure(last)?.1.words == "the login source a does not answer")
        second.set(allowed("b"))
        ask(chain)
        #expect(last?.refusal == nil)
        #expect(outcomes.value.count == 3)
    }

    @Test func `a client that goes is nobody's question any more`() throws {
        let (first, second) = (Source("a", nil), Source("b", nil))
        let chain = chain(first, second)
        let walk = try #require(ask(chain))
        first.answer(.next(.unknownUser))
        walk.abandon()
        #expect(first.now.abandoned == 0 && second.now.abandoned == 1)
        second.answer(allowed("b"))
        #expect(outcomes.value.isEmpty)
        let early = try #require(ask(chain))
        early.abandon()
        first.answer(.next(.unknownUser))
        #expect(second.now.asked == 1 && outcomes.value.isEmpty)
    }

    @Test func `what becomes of the questions is counted, and the log hears once of a source that fails`() {
        let source = Source("http", .failed("does not answer"))
        let chain = chain(source)
        for _ in 0..<5 { ask(chain) }
        let tally = tallies.tally("http")
        let failed = tally.counts
        #expect(tally.isDown && failed.failed == 5 && failed.asked == 5 && failed.lastFailure == "does not answer")
        #expect(lines.value == ["The login source http does not answer."])
        source.set(allowed("http"))
        ask(chain)
        source.set(.refused(.wrongPassword))
        ask(chain)
        source.set(.next(.unknownUser))
        ask(chain)
        let counts = tally.counts
        #expect(counts.allowed == 1 && counts.refused == 1 && counts.unknown == 1 && counts.latency.count == 8)
        #expect(!tally.isDown && lines.value.last == "The login source http answers again." && lines.value.count == 2)
    }

    @Test func `a reload keeps those whom the source that let them in would let in still`() {
        let (old, new) = (chain(Source("a", nil), Source("b", nil)), chain(Source("b", nil)))
        #expect(new.keeps("stays", by: "b", of: old) && !new.keeps("goes", by: "b", of: old))
        #expect(!new.keeps("stays", by: "a", of: old) && new.keeps("stays", by: nil, of: old))
    }

    @Test func `an explanation says what each has answered`() {
        let chain = chain(Source("a", .next(.unknownUser)), Source("b", .refused(.wrongPassword)), Source("c", nil))
        let subject = LoginThrottle().subject(network: "n", site: "s", userName: "u", clientIdentifier: "c")
        let found = Locked<LoginExplanation?>(nil)
        _ = chain.explain(
            userName: "u", password: [1], clientIdentifier: "c", info: ConnectionInfo(address: "10.0.0.1"), subject: subject
        ) { explanation in found.withLock { $0 = explanation } }
        #expect(found.value?.steps.map(\.source) == ["a", "b"] && found.value?.isDecided == true)
    }

    // MARK: What is remembered

    private func question(_ user: EncodedString, _ password: [UInt8] = [1], from address: String = "10.0.0.1") -> LoginQuestion {
        question(user, password, ConnectionInfo(address: address))
    }

    private func question(_ user: EncodedString, _ password: [UInt8], _ info: ConnectionInfo) -> LoginQuestion {
        LoginQuestion(
            userName: user, password: password, clientIdentifier: "c", info: info,
            subject: LoginThrottle().subject(network: "n", site: "s", userName: user, clientIdentifier: "c"))
    }

    @Test func `an answer is given again as long as it holds, and only to the same question`() {
        let cache = LoginCache()
        let terms = LoginCache.Terms(seconds: 10, jitterSeconds: 2, staleSeconds: 60)
        let key = cache.key("http", question("u"))
        cache.remember(allowed("http"), key, terms, now: 1000, wallMilliseconds: 5000)
        #expect(cache.answer(key, now: 8_900) != nil && cache.answer(key, now: 13_001) == nil)
        #expect(cache.answer(key, isStale: true, now: 60_000) != nil && cache.answer(key, isStale: true, now: 61_001) == nil)
        for other in [
            cache.key("jwt", question("u")), cache.key("http", question("v")), cache.key("http", question("u", [2])),
            cache.key("http", question("u", from: "10.0.0.2")), cache.key("http", question("u", [])),
        ] {
            #expect(cache.answer(other, now: 1000) == nil)
        }
        // Not beyond the end of the login, and no failure.
        let brief = LoginAnswer.allowed(userName: nil, LoginGrant(source: "http", expiresAt: 7000))
        cache.remember(brief, key, terms, now: 1000, wallMilliseconds: 5000)
        #expect(cache.answer(key, now: 2_999) != nil && cache.answer(key, isStale: true, now: 3_000) == nil)
        let fresh = LoginCache()
        fresh.remember(.failed("x"), key, terms, now: 0, wallMilliseconds: 0)
        fresh.remember(.refused(.wrongPassword), key, .init(seconds: 0, staleSeconds: 60), now: 0, wallMilliseconds: 0)
        #expect(fresh.count == 0)
    }

    @Test func `an answer for one certificate is not given for another`() {
        let cache = LoginCache()
        func key(commonName: String?, subject: String?) -> LoginCache.Key {
            var info = ConnectionInfo(address: "10.0.0.1")
            (info.certificateCommonName, info.certificateSubject) = (commonName, subject)
            return cache.key("http", question("u", [1], info))
        }
        let keys = [
            key(commonName: "a", subject: "CN=a"), key(commonName: "b", subject: "CN=a"), key(commonName: "a", subject: "CN=b"),
            key(commonName: "a", subject: nil), key(commonName: "a", subject: ""), key(commonName: nil, subject: "CN=a"),
            key(commonName: "", subject: "CN=a"), key(commonName: nil, subject: nil), key(commonName: "", subject: ""),
            key(commonName: "aC", subject: "N=a"),
        ]
        #expect(Set(keys).count == keys.count)
        #expect(key(commonName: "a", subject: "CN=a") == keys[0])
    }

    @Test func `no more is remembered than there is room for, and the oldest goes first`() {
        let cache = LoginCache(bytesMax: 100 * Limits.loginCacheEntryBytes)
        let terms = LoginCache.Terms(seconds: 10)
        for number in 0..<5_000 {
            let key = cache.key("http", question("u", [UInt8(number & 255), UInt8(number >> 8)]))
            cache.remember(.refused(.wrongPassword), key, terms, now: 0, wallMilliseconds: 0)
        }
        #expect(cache.count == 100 && cache.byteCount == 100 * Limits.loginCacheEntryBytes)
        func numbered(_ number: Int) -> LoginQuestion { question("u", [UInt8(number & 255), UInt8(number >> 8)]) }
        let (oldest, newest) = (numbered(4_899), numbered(4_900))
        #expect(cache.answer(cache.key("http", oldest), now: 1) == nil && cache.answer(cache.key("http", newest), now: 1) != nil)
    }

    @Test func `answers that are replaced again and again take no more room, and keep their places`() {
        let cache = LoginCache(bytesMax: 10 * Limits.loginCacheEntryBytes)
        let terms = LoginCache.Terms(seconds: 10)
        let keys = (0..<11).map { cache.key("http", question("u", [$0])) }
        func remember(_ number: Int) {
            cache.remember(.refused(.wrongPassword), keys[number], terms, now: 0, wallMilliseconds: 0)
        }
        for number in 0..<10 { remember(number) }
        for turn in 0..<20_000 { remember(turn % 9) }
        #expect(cache.count == 10 && cache.queueCount <= 2 * 10 + 1024)
        // The one that was not replaced since is the oldest, and the one behind it comes next.
        remember(10)
        #expect(cache.answer(keys[9], now: 1) == nil && (0..<9).allSatisfy { cache.answer(keys[$0], now: 1) != nil })
        remember(9)
        let oldest = 20_000 % 9
        #expect((0..<11).allSatisfy { (cache.answer(keys[$0], now: 1) == nil) == ($0 == oldest) })
    }

    @Test func `a remembered answer stands in for a source that is down only if that is wanted`() {
        for (stale, isLetIn) in [(UInt64(0), false), (60, true)] {
            let source = Source("http", allowed("http"))
            let chain = chain(source, memory: LoginMemory(LoginCache(), .init(seconds: 0, staleSeconds: stale)))
            ask(chain)
            source.set(.failed("is down"))
            ask(chain)
            #expect((last?.refusal == nil) == isLetIn && source.now.asked == 2)
        }
        let source = Source("http", allowed("http"))
        let chain = chain(source, memory: LoginMemory(LoginCache(), .init(seconds: 60)))
        for _ in 0..<3 { ask(chain) }
        #expect(source.now.asked == 1 && last?.refusal == nil)
    }

    @Test(arguments: [LoginAnswer.refused(.wrongPassword), .next(.unknownUser)], [UInt64(0), 60])
    func `who was refused since does not come in while the source is down`(answer: LoginAnswer, seconds: UInt64) {
        let source = Source("http", allowed("http"))
        let cache = LoginCache()
        let memory = LoginMemory(cache, .init(seconds: seconds, staleSeconds: 60))
        let chain = chain(source, memory: memory)
        ask(chain)
        #expect(last?.refusal == nil && cache.count == 1)
        // As if the time were over for which it is given without a question.
        memory.slot("http", question("u")).remember(answer)
        source.set(.failed("is down"))
        ask(chain)
        #expect(last?.refusal != nil && cache.byteCount == cache.count * Limits.loginCacheEntryBytes)
    }

    @Test func `an answer is not given where another service of the same name is asked`() {
        let cache = LoginCache()
        let terms = LoginCache.Terms(seconds: 60, staleSeconds: 60)
        let memory = LoginMemory(cache, terms)
        let (open, strict, down) = (Source("http", allowed("http")), Source("http", .refused(.wrongPassword)), Source("http", nil))
        down.set(.failed("does not answer"))
        ask(chain(open, memory: memory))
        #expect(last?.refusal == nil)
        ask(chain(strict, memory: LoginMemory(cache, terms)))
        #expect(last?.refusal == .notAuthorized && strict.now.asked == 1)
        ask(chain(down, memory: LoginMemory(cache, terms)))
        #expect(last?.refusal == .serverUnavailable && down.now.asked == 1)
        // A listener that asks the same service has the same memory.
        ask(chain(down, memory: memory))
        #expect(last?.refusal == nil && down.now.asked == 1)
    }

    @Test(arguments: [LoginCache.Terms(seconds: 60), LoginCache.Terms(seconds: 0, staleSeconds: 60)])
    func `who is let in without an answer of the source does not hide that it is down`(terms: LoginCache.Terms) {
        let source = Source("ldap", allowed("ldap"))
        let chain = chain(source, memory: LoginMemory(LoginCache(), terms))
        ask(chain)
        source.set(.failed("is down"))
        // Of some logins there is nothing to ask, which says nothing of the source.
        for (number, unasked) in [LoginFailure.noPassword, .noToken, .noWebToken, .passwordIsNoText].enumerated() {
            ask(chain, "stranger", [UInt8(number)])
            #expect(last?.refusal == .serverUnavailable)
            ask(chain)
            #expect(last?.refusal == nil, "it is remembered")
            source.set(.next(unasked))
            ask(chain, "nobody", nil)
            source.set(.failed("is down"))
        }
        let tally = tallies.tally("ldap")
        #expect(tally.isDown && tally.counts.remembered >= 3 && tally.counts.allowed == 1)
        #expect(lines.value == ["The login source ldap is down."])
        source.set(.next(.unknownUser))
        ask(chain, "stranger", [9])
        #expect(!tally.isDown && lines.value.last == "The login source ldap answers again.")
    }

    @Test func `who lacks only its rules hears of the source of the rules, and of no other that was down`() {
        final class Rules: LoginRulesSource {
            let name = "rules"
            func rules(
                _ question: LoginQuestion, userName: EncodedString?, source: String,
                reply: @escaping @Sendable (LoginAnswer) -> Void
            ) -> (any AbandonedLogin)? {
                reply(.failed("are not there"))
                return nil
            }
        }
        // Another one lets in whom the first might have known; or what the first has answered before does.
        let (directory, file) = (Source("ldap", allowed("ldap")), Source("file", allowed("file")))
        let memory = LoginMemory(LoginCache(), .init(seconds: 0, staleSeconds: 60))
        let chain = LoginChain([(directory, memory), (file, nil)], rules: (Rules(), nil), tallies: tallies) { _ in }
        ask(chain)
        directory.set(.failed("does not answer"))
        ask(chain)
        ask(chain, "stranger")
        let words = outcomes.value.map { failure($0)?.1.words }
        #expect(words == Array(repeating: "the login source rules are not there", count: 3))
        #expect(outcomes.value.allSatisfy { $0.refusal == .serverUnavailable } && file.now.asked == 1)
    }

    @Test func `what a source knows from before is no sign that it is there`() {
        let chain = chain(Source("introspection", .failed("is down"), known: "known"))
        for _ in 0..<3 {
            ask(chain, "stranger")
            #expect(last?.refusal == .serverUnavailable)
            ask(chain, "known")
            #expect(last?.refusal == nil)
        }
        let tally = tallies.tally("introspection")
        #expect(tally.isDown && tally.counts.remembered == 3 && tally.counts.asked == 3)
        #expect(lines.value == ["The login source introspection is down."])
    }

    @Test func `a source whose user it cannot be is not asked`() {
        let picky = Source("picky", .failed("is down"), only: "mine")
        ask(chain(picky), "yours")
        #expect(last?.refusal == .notAuthorized && tallies.tally("picky").counts.asked == 0)
        ask(chain(picky, Source("file", allowed("file"))), "yours")
        #expect(last?.refusal == nil)
        ask(chain(picky), "mine")
        #expect(last?.refusal == .serverUnavailable && tallies.tally("picky").counts.failed == 1)
    }

    @Test func `an explanation says which answers are remembered`() {
        let source = Source("ldap", allowed("ldap"))
        let chain = chain(source, memory: LoginMemory(LoginCache(), .init(seconds: 0, staleSeconds: 60)))
        ask(chain)
        source.set(.failed("is down"))
        let found = Locked<[LoginExplanation]>([])
        let subject = LoginThrottle().subject(network: "n", site: "s", userName: "u", clientIdentifier: "c")
        _ = chain.explain(
            userName: "u", password: [1], clientIdentifier: "c", info: ConnectionInfo(address: "10.0.0.1"), subject: subject
        ) { [found] explanation in found.withLock { $0.append(explanation) } }
        #expect(found.value.map { $0.steps.map(\.isRemembered) } == [[false, true]])
        #expect(found.value.first?.outcome.refusal == nil)
    }
}
