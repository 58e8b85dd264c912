public import BrokerModel
public import MQTTCodec
internal import Platform

/// Asks several sources of logins, one after the other, until one lets the client in or refuses it.
///
///     source 1 ─► allowed, refused: that is the answer       unknown, failed ─► source 2 ─► …
///
/// When nobody knows the client it is refused; if one of those that were asked could not answer, it is told that the
/// server is unavailable, and may come again. Immutable; for any thread.
public final class LoginChain: Authenticator {
    fileprivate struct Member<Source: Sendable>: Sendable {
        let source: Source
        let memory: LoginMemory?
        let tally: LoginSourceTally
    }

    fileprivate let members: [Member<any LoginSource>]
    fileprivate let report: @Sendable (String) -> Void
    fileprivate let rules: Member<any LoginRulesSource>?

    /// - Parameters:
    ///   - sources: the one that is asked first stands first; with how its answers are remembered, nil where they are
    ///     not.
    ///   - rules: who is asked for the rules of clients that come without any; nil for nobody.
    ///   - tallies: count what becomes of the questions.
    ///   - report: gets lines for the log, at most one in 10 s of each source.
    public init(
        _ sources: [(source: any LoginSource, memory: LoginMemory?)],
        rules: (source: any LoginRulesSource, memory: LoginMemory?)? = nil, tallies: LoginSourceTallies,
        report: @escaping @Sendable (String) -> Void
    ) {
        self.rules = rules.map { Member(source: $0.source, memory: $0.memory, tally: tallies.tally($0.source.name)) }
        members = sources.map { Member(source: $0.source, memory: $0.memory, tally: tallies.tally($0.source.name)) }
        self.report = report
    }

    /// What the sources are called, in the order in which they are asked.
    public var names: [String] { members.map(\.source.name) }

    public func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        guard case .password(let userName, let password) = request.step else {
            reply(.refused(.notAuthorized))
            return nil
        }
        let walk = ChainWalk(
            self, userName: userName, password: password, clientIdentifier: request.clientIdentifier, info: request.info,
            subject: subject
        ) { reply($0.outcome) }
        walk.ask(0)
        return walk
    }

    public func keeps(_ userName: EncodedString, by source: String?, of earlier: any Authenticator) -> Bool {
        if earlier === self { return true }
        guard let earlier = earlier as? LoginChain else { return false }
        // A login that does not say whose it is was any source's.
        return members.contains { member in
            guard source == nil || source == member.source.name else { return false }
            return earlier.members.first { $0.source.name == member.source.name }
                .map { member.source.keeps(userName, of: $0.source) } ?? false
        }
    }

    public func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool {
        keeps(userName, by: nil, of: earlier)
    }

    /// Has every source say what it thinks of a login, until one decides; for administrators.
    ///
    /// - Parameters:
    ///   - userName: as CONNECT would give it; nil for none, and so on.
    ///   - password: likewise.
    ///   - clientIdentifier: likewise.
    ///   - info: where the client would come from.
    ///   - subject: whom the throttle would take it for.
    ///   - reply: called once, on any thread, with what each that was asked has said.
    /// - Returns: what to tell when nobody waits any more.
    public func explain(
        userName: EncodedString?, password: [UInt8]?, clientIdentifier: EncodedString, info: ConnectionInfo,
        subject: LoginSubject, reply: @escaping @Sendable (LoginExplanation) -> Void
    ) -> any AbandonedLogin {
        let walk = ChainWalk(
            self, userName: userName, password: password, clientIdentifier: clientIdentifier, info: info, subject: subject,
            reply: reply)
        walk.ask(0)
        return walk
    }
}

/// How a chain came to its answer.
public struct LoginExplanation: Sendable {
    /// What one source has said.
    public struct Step: Sendable {
        public let source: String
        public let answer: LoginAnswer
        /// Whether it is an answer from before, and the source was not asked, or could not be.
        public let isRemembered: Bool
        public let microseconds: UInt64
    }

    /// In the order in which they were asked; the last one has decided, if `isDecided`.
    public let steps: [Step]
    /// Whether a source knew the user.
    public let isDecided: Bool

    /// What the client is told.
    public var outcome: AuthenticationOutcome {
        if isDecided, let last = steps.last {
            // One that could not say before it has kept nobody out: another one knew the client, or its memory did.
            switch last.answer {
            case .allowed(let userName, let grant): return .accepted(userName: userName, data: nil, grant: grant)
            case .refused(let failure): return .refused(.notAuthorized, because: failure)
            case .busy: return .refused(.serverBusy, because: .tooManyLogins)
            case .failed(let words): return Self.unavailable(last.source, words)
            case .next: break
            }
        }
        for step in steps {
            if case .failed(let words) = step.answer { return Self.unavailable(step.source, words) }
        }
        // The most that anybody has said: of a user without a password no source knows anything.
        let failures = steps.compactMap { step in if case .next(let failure) = step.answer { failure } else { nil } }
        return .refused(.notAuthorized, because: failures.last ?? .noUsersKnown)
    }

    private static func unavailable(_ source: String, _ words: String) -> AuthenticationOutcome {
        .refused(.serverUnavailable, because: .reported("the login source \(source) \(words)"))
    }
}

/// One login on its way along a chain.
private final class ChainWalk: AbandonedLogin {
    private struct State {
        var steps: [LoginExplanation.Step] = []
        /// What waits at the source that is asked.
        var waiting: (step: Int, login: any AbandonedLogin)?
        var isAbandoned = false
    }

    private let chain: LoginChain
    private let userName: EncodedString?
    private let password: [UInt8]?
    private let clientIdentifier: EncodedString
    private let info: ConnectionInfo
    private let subject: LoginSubject
    private let reply: @Sendable (LoginExplanation) -> Void
    private let state = Locked(State())

    init(
        _ chain: LoginChain, userName: EncodedString?, password: [UInt8]?, clientIdentifier: EncodedString,
        info: ConnectionInfo, subject: LoginSubject, reply: @escaping @Sendable (LoginExplanation) -> Void
    ) {
        (self.chain, self.userName, self.password, self.clientIdentifier) = (chain, userName, password, clientIdentifier)
        (self.info, self.subject, self.reply) = (info, subject, reply)
    }

    /// Asks the source at that place, and those behind it as its answer wants.
    func ask(_ index: Int) {
        guard index < chain.members.count else { return finish(isDecided: false) }
        let member = chain.members[index]
        guard member.source.isAsked(about: userName) else {
            if record(.next(.unknownUser), of: member.tally.name) { ask(index + 1) }
            return
        }
        let question = LoginQuestion(
            userName: userName, password: password, clientIdentifier: clientIdentifier, info: info, subject: subject,
            isLast: index == chain.members.count - 1)
        ask(member, keyed: member.tally.name, question, recalled: member.source.recalled(question)) { source, reply in
            source.decide(question, reply: reply)
        } then: { [self] answer in
            switch answer {
            case .allowed(let userName, let grant): askForRules(question, userName, grant)
            case .refused, .busy: finish(isDecided: true)
            case .next, .failed: ask(index + 1)
            }
        }
    }

    /// Who comes without rules may have some elsewhere.
    private func askForRules(_ question: LoginQuestion, _ userName: EncodedString?, _ grant: LoginGrant) {
        guard let rules = chain.rules, grant.rights == nil, !grant.isSuperuser else { return finish(isDecided: true) }
        let user = userName ?? question.userName
        ask(rules, keyed: "\(rules.tally.name) \(grant.source)\(userName.map { " \($0)" } ?? "")", question) { source, reply in
            source.rules(question, userName: user, source: grant.source, reply: reply)
        } as: { answer in
            Self.combined(grant, userName, answer)
        } then: { [self] _ in
            finish(isDecided: true)
        }
    }

    /// Has a source answer, or takes what it has answered before.
    ///
    /// - Parameters:
    ///   - member: the source.
    ///   - name: of the question, where answers are remembered.
    ///   - recalled: what the source knows itself.
    ///   - decide: asks it.
    ///   - combined: what its answer comes to for the login.
    ///   - proceed: called once, unless nobody waits any more.
    private func ask<Source>(
        _ member: LoginChain.Member<Source>, keyed name: String, _ question: LoginQuestion, recalled: LoginAnswer? = nil,
        _ decide: (Source, @escaping @Sendable (LoginAnswer) -> Void) -> (any AbandonedLogin)?,
        as combined: @escaping @Sendable (LoginAnswer) -> LoginAnswer = { $0 },
        then proceed: @escaping @Sendable (LoginAnswer) -> Void
    ) {
        let (slot, tally) = (member.memory?.slot(name, question), member.tally)
        // Nobody was asked, and so nobody has shown to be there, or not to be.
        let recall = { @Sendable [self] (known: LoginAnswer) in
            tally.remembered()
            let answer = combined(known)
            if record(answer, of: tally.name, isRemembered: true) { proceed(answer) }
        }
        if let known = slot?.answer() ?? recalled { return recall(known) }
        tally.asked()
        let began = MonotonicClock.microseconds()
        let step = state.withLock { $0.steps.count }
        let waiting = decide(member.source) { [self] said in
            let took = MonotonicClock.microseconds() &- began
            let answer = combined(said)
            if let line = tally.answered(answer, microseconds: took, now: MonotonicClock.milliseconds()) { chain.report(line) }
            slot?.remember(said)
            guard record(answer, of: tally.name, microseconds: took) else { return }
            if case .failed = said, let known = slot?.answer(isStale: true) { return recall(known) }
            proceed(answer)
        }
        wait(for: waiting, step: step)
    }

    /// What the login is with its rules.
    private static func combined(_ grant: LoginGrant, _ userName: EncodedString?, _ answer: LoginAnswer) -> LoginAnswer {
        switch answer {
        case .allowed(_, let rules):
            let ends = [grant.expiresAt, rules.expiresAt].compactMap { $0 }.min()
            return .allowed(
                userName: userName,
                LoginGrant(
                    source: grant.source, clientIdentifier: grant.clientIdentifier, rights: rules.rights,
                    decidesAll: rules.decidesAll, isSuperuser: rules.isSuperuser, attributes: grant.attributes + rules.attributes,
                    expiresAt: ends, topics: rules.topics))
        case .next: return .allowed(userName: userName, grant)
        case .refused, .failed, .busy: return answer
        }
    }

    private func wait(for waiting: (any AbandonedLogin)?, step: Int) {
        guard let waiting else { return }
        let isGone = state.withLock { state in
            // It may have been answered already, and the next one be waited for.
            if !state.isAbandoned, state.steps.count == step { state.waiting = (step, waiting) }
            return state.isAbandoned
        }
        if isGone { waiting.abandon() }
    }

    /// Writes down what a source has said.
    ///
    /// - Returns: whether the client waits still.
    private func record(
        _ answer: LoginAnswer, of source: String, isRemembered: Bool = false, microseconds: UInt64 = 0
    ) -> Bool {
        state.withLock { state in
            state.steps.append(
                LoginExplanation.Step(
                    source: source, answer: answer, isRemembered: isRemembered, microseconds: microseconds))
            state.waiting = nil
            return !state.isAbandoned
        }
    }

    private func finish(isDecided: Bool) {
        reply(LoginExplanation(steps: state.withLock { $0.steps }, isDecided: isDecided))
    }

    func abandon() {
        let waiting = state.withLock { state in
            state.isAbandoned = true
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.login.abandon()
    }
}
