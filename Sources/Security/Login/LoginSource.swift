public import BrokerModel
public import MQTTCodec
internal import Platform
internal import Synchronization

/// Somewhere that users are known: a file, a directory, a web service, whoever signs tokens. A `LoginChain` asks one
/// after the other.
public protocol LoginSource: AnyObject, Sendable {
    /// What `martlet_auth_chain`, the log and the metrics call it.
    var name: String { get }

    /// Decides. Called on a loop's thread, where it must take microseconds.
    ///
    /// - Parameters:
    ///   - question: who wants to come in.
    ///   - reply: called once, now or later, on any thread.
    /// - Returns: what to tell when the client is gone; nil when nothing waits.
    func decide(_ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void) -> (any AbandonedLogin)?

    /// What the source knows of a login from before, and need not ask for; nil for nothing.
    func recalled(_ question: LoginQuestion) -> LoginAnswer?

    /// Whether a user of that name may be the source's at all; of others it is not asked.
    func isAsked(about userName: EncodedString?) -> Bool

    /// Whether a user whom a source of the same name has let in would be let in still, see `Authenticator.keeps`.
    func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool
}

extension LoginSource {
    public func recalled(_ question: LoginQuestion) -> LoginAnswer? { nil }

    public func isAsked(about userName: EncodedString?) -> Bool { true }
}

/// Somewhere that rules are known for clients whom a source of logins has let in without any.
public protocol LoginRulesSource: AnyObject, Sendable {
    /// What the log and the metrics call it.
    var name: String { get }

    /// Asks for the rules of a client that is let in, as `LoginSource.decide` does. `next` leaves it to the listener's
    /// rules; a failure keeps the client out, which might do more than it may else.
    ///
    /// - Parameters:
    ///   - question: what the source of logins was asked.
    ///   - userName: the one that was proved.
    ///   - source: which source of logins has let the client in.
    ///   - reply: called once, now or later, on any thread.
    func rules(
        _ question: LoginQuestion, userName: EncodedString?, source: String,
        reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)?
}

/// What a source of logins is asked.
public struct LoginQuestion: Sendable {
    /// As CONNECT gave them; nil for none.
    public let userName: EncodedString?
    public let password: [UInt8]?
    public let clientIdentifier: EncodedString
    public let info: ConnectionInfo
    /// Whom the throttle takes the client for.
    public let subject: LoginSubject
    /// Whether nobody is asked behind this source, so that an unknown user's answer is to take as long as a known
    /// one's.
    public let isLast: Bool

    public init(
        userName: EncodedString?, password: [UInt8]?, clientIdentifier: EncodedString, info: ConnectionInfo,
        subject: LoginSubject, isLast: Bool = false
    ) {
        (self.userName, self.password, self.clientIdentifier) = (userName, password, clientIdentifier)
        (self.info, self.subject, self.isLast) = (info, subject, isLast)
    }
}

/// What a source of logins answers.
public enum LoginAnswer: Sendable {
    /// The client is who it says; the user name is the one of CONNECT if it is nil.
    case allowed(userName: EncodedString?, LoginGrant)
    /// The source knows the user and refuses it: nobody else is asked.
    case refused(LoginFailure)
    /// The source does not know the user: the next one is asked.
    case next(LoginFailure)
    /// The source cannot say, in words that follow its name: "does not answer". The next one is asked; if nobody lets
    /// the client in it is told that the server is unavailable.
    case failed(String)
    /// Too many are asked for at the moment.
    case busy
}

extension LoginFailure {
    /// What is said of a login that holds no token, by a source that knows tokens alone.
    public static let noToken = LoginFailure.reported("no token is where one is looked for")

    /// The same of tokens that are checked here.
    public static let noWebToken = LoginFailure.reported("no token (JWT) is where one is looked for")

    /// What is said of a login for which there is no room.
    public static let tooManyLogins = LoginFailure.reported("too many logins wait for an answer")

    /// What is said of a password that a service cannot be told.
    public static let passwordIsNoText = LoginFailure.reported("its password is no UTF-8, which the service cannot be told")

    /// Whether it says that the source had nothing to ask for.
    fileprivate var isOfUnaskedSource: Bool {
        [.noUserName, .noPassword, .noToken, .noWebToken, .passwordIsNoText].contains(self)
    }
}

/// A login that waits for an answer, or for its turn.
public protocol AbandonedLogin: AnyObject, Sendable {
    /// Nobody waits for the answer any more. For any thread.
    func abandon()
}

/// What became of the questions to one source of logins since the broker's start. For any thread.
public final class LoginSourceTally: Sendable {
    /// The counts at one moment.
    public struct Counts: Sendable, Equatable {
        public var asked: UInt64 = 0
        public var allowed: UInt64 = 0
        public var refused: UInt64 = 0
        /// The source did not know the user.
        public var unknown: UInt64 = 0
        public var failed: UInt64 = 0
        /// Answers that were given again, without a question to the source or instead of one that failed.
        public var remembered: UInt64 = 0
        /// How long the answers took.
        public var latency = Histogram()
        /// Failures without an answer between them.
        public var failuresInARow: UInt64 = 0
        /// What the last failure was, as `LoginAnswer.failed` says it; empty for none.
        public var lastFailure = ""
    }

    public let name: String
    private let state = Locked(State())

    private struct State {
        var counts = Counts()
        /// When the log was told of a failure last, in milliseconds; nil for never.
        var reportedAt: UInt64?
    }

    public init(name: String) { self.name = name }

    public var counts: Counts { state.withLock { $0.counts } }

    /// Whether the source fails at present: the last so many questions in a row.
    public var isDown: Bool { counts.failuresInARow >= Limits.failuresOfSourceDown }

    func asked() { state.withLock { $0.counts.asked += 1 } }

    func remembered() { state.withLock { $0.counts.remembered += 1 } }

    /// - Parameter now: milliseconds of a monotonic clock.
    /// - Returns: a line for the log, when there is news.
    func answered(_ answer: LoginAnswer, microseconds: UInt64, now: UInt64) -> String? {
        state.withLock { state in
            state.counts.latency.record(microseconds)
            switch answer {
            case .allowed: state.counts.allowed += 1
            case .refused: state.counts.refused += 1
            case .next(let failure):
                state.counts.unknown += 1
                // It was not asked, and so has not shown to be there.
                if failure.isOfUnaskedSource { return nil }
            case .busy: return nil
            case .failed(let words):
                state.counts.failed += 1
                state.counts.failuresInARow += 1
                state.counts.lastFailure = words
                if let reportedAt = state.reportedAt, now < reportedAt + Limits.sourceSilenceMilliseconds { return nil }
                state.reportedAt = now
                return "The login source \(name) \(words)."
            }
            let wasDown = state.counts.failuresInARow > 0 && state.reportedAt != nil
            (state.counts.failuresInARow, state.counts.lastFailure, state.reportedAt) = (0, "", nil)
            return wasDown ? "The login source \(name) answers again." : nil
        }
    }
}

extension LoginSourceTally {
    /// Counts a question that no chain asks.
    ///
    /// - Parameters:
    ///   - report: gets lines for the log.
    ///   - reply: gets the answer.
    /// - Returns: what the source replies to.
    public func counting(
        report: @escaping @Sendable (String) -> Void, _ reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> @Sendable (LoginAnswer) -> Void {
        asked()
        let began = MonotonicClock.microseconds()
        return { [self] answer in
            let took = MonotonicClock.microseconds() &- began
            if let line = answered(answer, microseconds: took, now: MonotonicClock.milliseconds()) { report(line) }
            reply(answer)
        }
    }
}

/// The counts of all sources of logins, which outlive a reload. For any thread.
public final class LoginSourceTallies: Sendable {
    private let tallies = Locked<[LoginSourceTally]>([])

    public init() {}

    /// The one of a source, made when it is first asked for.
    public func tally(_ name: String) -> LoginSourceTally {
        tallies.withLock { tallies in
            if let known = tallies.first(where: { $0.name == name }) { return known }
            let made = LoginSourceTally(name: name)
            tallies.append(made)
            return made
        }
    }

    /// In the order in which they came to be.
    public var all: [LoginSourceTally] { tallies.value }
}

extension Limits {
    /// Failures in a row after which a source of logins counts as down.
    static let failuresOfSourceDown: UInt64 = 3

    /// Milliseconds in which the log is told once that a source of logins fails.
    static let sourceSilenceMilliseconds: UInt64 = 10_000
}
