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
    fileprivate struct Member {
        let source: any LoginSource
        let tally: LoginSourceTally
    }

    fileprivate let members: [Member]
    fileprivate let report: @Sendable (String) -> Void
    fileprivate let rules: (source: any LoginRulesSource, tally: LoginSourceTally)?

    /// - Parameters:
    ///   - sources: the one that is asked first stands first.
    ///   - rules: who is asked for the rules of clients that come without any; nil for nobody.
    ///   - tallies: count what becomes of the questions.
    ///   - report: gets lines for the log, at most one in 10 s of each source.
    public init(
        _ sources: [any LoginSource], rules: (any LoginRulesSource)? = nil, tallies: LoginSourceTallies,
        report: @escaping @Sendable (String) -> Void
    ) {
        self.rules = rules.map { ($0, tallies.tally($0.name)) }
        members = sources.map { Member(source: $0, tally: tallies.tally($0.name)) }
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
        public let microseconds: UInt64
    }

    /// In the order in which they were asked; the last one has decided, if `isDecided`.
    public let steps: [Step]
    /// Whether a source knew the user.
    public let isDecided: Bool

    /// What the client is told.
    public var outcome: AuthenticationOutcome {
        if isDecided, let last = steps.last {
            switch last.answer {
            case .allowed(let userName, let grant): return .accepted(userName: userName, data: nil, grant: grant)
            case .refused(let failure): return .refused(.notAuthorized, because: failure)
            case .busy: return .refused(.serverBusy)
            case .next, .failed: break
            }
        }
        for step in steps {
            guard case .failed(let words) = step.answer else { continue }
            return .refused(.serverUnavailable, because: .reported("the login source \(step.source) \(words)"))
        }
        // The most that anybody has said: of a user without a password no source knows anything.
        let failures = steps.compactMap { step in if case .next(let failure) = step.answer { failure } else { nil } }
        return .refused(.notAuthorized, because: failures.last ?? .noUsersKnown)
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
        let question = LoginQuestion(
            userName: userName, password: password, clientIdentifier: clientIdentifier, info: info, subject: subject,
            isLast: index == chain.members.count - 1)
        member.tally.asked()
        let began = MonotonicClock.microseconds()
        let waiting = member.source.decide(question) { [self] answer in
            guard record(answer, from: member.source.name, member.tally, since: began) else { return }
            switch answer {
            case .allowed(let userName, let grant): askForRules(question, userName, grant)
            case .refused, .busy: finish(isDecided: true)
            case .next, .failed: ask(index + 1)
            }
        }
        wait(for: waiting, step: index)
    }

    /// Who comes without rules may have some elsewhere.
    private func askForRules(_ question: LoginQuestion, _ userName: EncodedString?, _ grant: LoginGrant) {
        guard let rules = chain.rules, grant.rights == nil, !grant.isSuperuser else { return finish(isDecided: true) }
        rules.tally.asked()
        let began = MonotonicClock.microseconds()
        let step = state.withLock { $0.steps.count }
        let waiting = rules.source.rules(
            question, userName: userName ?? question.userName, source: grant.source
        ) { [self] answer in
            guard record(Self.combined(grant, userName, answer), from: rules.source.name, rules.tally, since: began) else { return }
            finish(isDecided: true)
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
    private func record(_ answer: LoginAnswer, from source: String, _ tally: LoginSourceTally, since began: UInt64) -> Bool {
        let took = MonotonicClock.microseconds() &- began
        if let line = tally.answered(answer, microseconds: took, now: MonotonicClock.milliseconds()) { chain.report(line) }
        return state.withLock { state in
            state.steps.append(LoginExplanation.Step(source: source, answer: answer, microseconds: took))
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
