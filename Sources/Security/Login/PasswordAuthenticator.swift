public import BrokerModel
internal import Glibc
public import MQTTCodec
internal import Platform
internal import Synchronization

/// Checks user names and passwords against a file, away from the loops: one check of a good hash is milliseconds of
/// work.
public final class PasswordAuthenticator: Authenticator, LoginSource {
    public let name = "password_file"
    public let users: PasswordFile
    private let workers: WorkerPool

    public init(users: PasswordFile, workers: WorkerPool) {
        self.users = users
        self.workers = workers
    }

    public func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        guard case .password(let userName?, let password?) = request.step, !password.isEmpty else {
            // Whoever leaves one of them out cannot be known, whatever the file says; nor can who has nothing to say.
            var hasName = false
            if case .password(_?, _) = request.step { hasName = true }
            reply(.refused(.notAuthorized, because: hasName ? .noPassword : .noUserName))
            return nil
        }
        let check = PasswordCheck(of: subject) { [users] in
            switch users.matches(user: userName, password: password) {
            case true?: reply(.accepted(userName: userName, data: nil))
            // mosquitto's answer, and the same for a wrong name as for a wrong password.
            case false?: reply(.refused(.notAuthorized, because: users.knows(userName) ? .wrongPassword : .unknownUser))
            case nil: reply(.refused(.serverBusy, because: .tooManyLogins))
            }
        } refuse: {
            reply(.refused(.serverBusy, because: .tooManyLogins))
        }
        workers.submit(check)
        return check
    }

    public func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool {
        guard let earlier = earlier as? PasswordAuthenticator else { return false }
        return earlier === self || users.hasSameEntry(of: userName, as: earlier.users)
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let userName = question.userName, let password = question.password, !password.isEmpty else {
            reply(.next(question.userName == nil ? .noUserName : .noPassword))
            return nil
        }
        let isKnown = users.knows(userName)
        guard isKnown || question.isLast else {
            reply(.next(.unknownUser))
            return nil
        }
        let check = PasswordCheck(of: question.subject) { [users, name] in
            switch users.matches(user: userName, password: password) {
            case true?: reply(.allowed(userName: userName, LoginGrant(source: name)))
            case false?: reply(isKnown ? .refused(.wrongPassword) : .next(.unknownUser))
            case nil: reply(.busy)
            }
        } refuse: {
            reply(.busy)
        }
        workers.submit(check)
        return check
    }

    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? PasswordAuthenticator).map { keeps(userName, of: $0 as any Authenticator) } ?? false
    }
}

/// Decides who may log in with a user name and a password, for all connections of a listener: a file, later a directory
/// or a web service.
public protocol Authenticator: AnyObject, Sendable {
    /// Decides a request.
    ///
    /// - Parameters:
    ///   - request: its step is `.password`.
    ///   - subject: whom `LoginThrottle` takes the client for.
    ///   - reply: called once, now or later, on any thread.
    /// - Returns: what may be abandoned as long as it waits; nil when nothing does.
    func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)?

    /// Whether a user whom `earlier` has let in would be let in still, as far as can be told without asking for the
    /// password again: false for one that is gone, or has another password. Cheap, for a reload asks for every
    /// connection.
    func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool

    /// The same for a login of which it is known which source let it in, see `LoginGrant.source`.
    func keeps(_ userName: EncodedString, by source: String?, of earlier: any Authenticator) -> Bool
}

extension Authenticator {
    public func keeps(_ userName: EncodedString, by source: String?, of earlier: any Authenticator) -> Bool {
        keeps(userName, of: earlier)
    }
}

/// A few threads that check passwords, which must not be done on a loop, and the bounded queue before them.
///
/// Threads start when there is work for them, so a broker without passwords has none, and run with less priority than
/// the loops. They keep the signal mask of whoever submits the first check. For any thread.
public final class WorkerPool: @unchecked Sendable {
    /// The throttle, which knows those who log in.
    public let throttle: LoginThrottle
    private let name: String
    private let threadsMax: Int
    private let monitor = Monitor()
    // All below only inside the monitor.
    private var queue: CheckQueue
    private var busy = 0
    private var threads: [NamedThread] = []
    private var isStopping = false

    /// - Parameters:
    ///   - name: what `ps` and `top` show of its threads.
    ///   - threads: how many checks run at the same time, at least one.
    ///   - queue: how many checks wait at most.
    ///   - queueOfNetwork: how many of one network; nil for half of that.
    ///   - throttle: tells whose check is first.
    public init(name: String, threads: Int, queue: Int, queueOfNetwork: Int? = nil, throttle: LoginThrottle = LoginThrottle()) {
        self.name = name
        self.throttle = throttle
        threadsMax = max(1, threads)
        self.queue = CheckQueue(
            throttle: throttle, countMax: queue,
            countOfNetworkMax: queueOfNetwork ?? max(1, queue / Limits.pendingLoginsPerNetworkDivisor))
    }

    /// Has the check made when its turn comes. It is refused, now or later, when too many wait, when no thread can be
    /// started, and after `stop`.
    public func submit(_ check: PasswordCheck) {
        let refused: PasswordCheck? = monitor.withLock {
            guard !isStopping, startThread() else { return check }
            let dueBefore = queue.nextDue
            let refused = queue.add(check, now: MonotonicClock.milliseconds())
            // Who waits knows of those that may not begin sooner.
            if queue.nextDue != dueBefore { monitor.signal() }
            return refused
        }
        refused?.giveWay()
    }

    /// Whether the threads end: what waits for somebody else is to give up.
    public var isEnding: Bool { monitor.withLock { isStopping } }

    /// Ends the threads; what runs is waited for, what waits is dropped. To be called before the last reference goes.
    public func stop() {
        let ending = monitor.withLock {
            isStopping = true
            queue.removeAll()
            monitor.signal()
            defer { threads = [] }
            return threads
        }
        for thread in ending { thread.join() }
    }

    /// One more thread, if those that have nothing to do are not more than the checks that wait. False when there is
    /// none at all.
    private func startThread() -> Bool {
        guard threads.count < threadsMax, threads.count - busy <= queue.count else { return true }
        do throws(SystemError) {
            threads.append(try NamedThread.start(name: name) { [self] in run() })
            return true
        } catch {
            return !threads.isEmpty
        }
    }

    private func run() {
        // Linux takes this for the calling thread alone.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.niceness)
        while let check = next() {
            check.run()
            monitor.withLock { busy -= 1 }
        }
    }

    /// Waits for a check whose turn it is; nil at the end.
    private func next() -> PasswordCheck? {
        monitor.withLock {
            while !isStopping {
                let now = MonotonicClock.milliseconds()
                if let check = queue.takeNext(now: now) {
                    busy += 1
                    return check
                }
                if let due = queue.nextDue {
                    monitor.wait(milliseconds: Int(clamping: due > now ? due - now : 1))
                } else {
                    monitor.wait()
                }
            }
            return nil
        }
    }

    private static let niceness: Int32 = 5
}

/// The passwords that wait to be checked, in an order in which a flood of wrong ones keeps nobody else waiting.
///
/// Next is whoever has failed less, by `LoginThrottle`'s account of network, site and user name: so networks take
/// turns, a flood comes behind everybody else after its first failure, and one that fails in the name of a user comes
/// behind the other users. Among equals the last one to come is the first: when more come than can be checked, some
/// wait in vain in any order, and in this one those who still wait are served.
///
/// Bounded, in all and for each network: one that is too many gives way, which is the one with the most failures when
/// it came, and among equals the one that has waited longest. A search through all that wait for each check that
/// begins, and a shorter one for each that comes.
struct CheckQueue {
    private struct Entry {
        let check: PasswordCheck
        let network: UInt64
        /// When it came.
        let rank: UInt32
    }

    private let throttle: LoginThrottle
    private let countMax: Int
    private let countOfNetworkMax: Int
    /// In the order in which they came.
    private var entries: [Entry] = []
    /// When one of those that are left may begin, after `takeNext` found none; milliseconds.
    private(set) var nextDue: UInt64?

    /// - Parameters:
    ///   - countMax: how many wait at most.
    ///   - countOfNetworkMax: how many of one network.
    init(throttle: LoginThrottle, countMax: Int, countOfNetworkMax: Int) {
        self.throttle = throttle
        self.countMax = countMax
        self.countOfNetworkMax = countOfNetworkMax
    }

    var count: Int { entries.count }

    /// Takes in one that has come.
    ///
    /// - Returns: the one that gives way, if there are too many: one that waited, or this one itself.
    mutating func add(_ check: PasswordCheck, now: UInt64) -> PasswordCheck? {
        let standing = throttle.standing(of: check.subject, now: now)
        entries.append(Entry(check: check, network: check.subject.network, rank: standing.rank))
        nextDue = min(nextDue ?? .max, standing.mayBeginAt)
        let ofNetwork = entries.reduce(0) { $0 + ($1.network == check.subject.network ? 1 : 0) }
        if ofNetwork > countOfNetworkMax { return removeLast { $0.network == check.subject.network } }
        return entries.count > countMax ? removeLast { _ in true } : nil
    }

    /// Takes out the one whose turn it is; nil when none may begin now, see `nextDue`.
    mutating func takeNext(now: UInt64) -> PasswordCheck? {
        entries.removeAll { !$0.check.isWanted }
        var best: (position: Int, rank: UInt32)?
        nextDue = nil
        for (position, entry) in entries.enumerated() {
            let standing = throttle.standing(of: entry.check.subject, now: now)
            guard standing.mayBeginAt <= now else {
                nextDue = min(nextDue ?? .max, standing.mayBeginAt)
                continue
            }
            if standing.rank <= best?.rank ?? .max { best = (position, standing.rank) }
        }
        guard let best else { return nil }
        let check = entries.remove(at: best.position).check
        throttle.began(check.subject, now: now)
        // Who else waits may begin at once, for all that is known.
        if !entries.isEmpty { nextDue = now }
        return check
    }

    mutating func removeAll() { entries = [] }

    /// Takes out the one that would come last, of those that `isCandidate`.
    private mutating func removeLast(_ isCandidate: (Entry) -> Bool) -> PasswordCheck? {
        var worst: Int?
        for (position, entry) in entries.enumerated() where isCandidate(entry) {
            if let known = worst, entries[known].rank >= entry.rank { continue }
            worst = position
        }
        return worst.map { entries.remove(at: $0).check }
    }
}

/// A password that waits to be checked, or is being checked.
public final class PasswordCheck: AbandonedLogin {
    let subject: LoginSubject
    private let work: @Sendable () -> Void
    private let refuse: @Sendable () -> Void
    private let isAbandoned = Atomic<Bool>(false)

    /// - Parameters:
    ///   - subject: whose password it is.
    ///   - work: checks and answers.
    ///   - refuse: answers when the check has to give way to others. One of the two is called, on any thread, unless
    ///     the check is abandoned.
    public init(of subject: LoginSubject, work: @escaping @Sendable () -> Void, refuse: @escaping @Sendable () -> Void) {
        self.subject = subject
        self.work = work
        self.refuse = refuse
    }

    /// Nobody waits for the answer any more; what has not begun never will. For any thread.
    public func abandon() { isAbandoned.store(true, ordering: .relaxed) }

    var isWanted: Bool { !isAbandoned.load(ordering: .relaxed) }

    func run() { work() }

    func giveWay() { refuse() }
}

/// An Authentication Method of MQTT 5.0, for all connections of a listener. [MQTT 5.0, section 4.12]
public protocol EnhancedAuthenticator: AnyObject, Sendable {
    /// Its name in CONNECT and AUTH.
    var method: EncodedString { get }

    /// The state of one authentication; another one for each, also for each re-authentication.
    ///
    /// - Parameters:
    ///   - request: says who begins it: as CONNECT says, or the session is called.
    ///   - subject: whom `LoginThrottle` takes the client for.
    func makeExchange(for request: AuthenticationRequest, as subject: LoginSubject) -> any EnhancedExchange

    /// Whether a connection's login stays valid, as with an `Authenticator`.
    func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool
}

/// One authentication under way. Belongs to its connection's loop; what it does must take microseconds.
public protocol EnhancedExchange: AnyObject {
    /// CONNECT or the AUTH that begins a re-authentication, with what the client sent along. The first call.
    ///
    /// - Parameters:
    ///   - data: the Authentication Data of that packet; nil without.
    ///   - reply: called once, now or later, on any thread.
    /// - Returns: what to tell when the client is gone; nil when nothing waits.
    func begin(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)?

    /// The client's answer to the challenge that the call before has replied with.
    func proceed(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)?
}

extension Limits {
    /// Which part of the logins that wait for a check one network may have, as a divisor; of more, the one with the
    /// most failures is told that the broker is busy.
    static let pendingLoginsPerNetworkDivisor = 2
}
