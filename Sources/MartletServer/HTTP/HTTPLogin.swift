import Administration
import BrokerModel
import Configuration
import HTTP
import HTTPServer
import MQTTCodec
import Platform
import Security
import ServerLoops
import Transports

/// Logins over HTTP: by the users, passwords and throttles of the listener, as if each request were a client with the
/// identifier `http-api`. Belongs to the control thread.
final class HTTPLogin: AlarmHandler {
    enum Outcome {
        /// nil: nobody in particular.
        case accepted(EncodedString?)
        case refused
        /// Too many passwords wait to be checked.
        case busy
    }

    private let loop: EventLoop
    private let log: Log
    private let bans: BanService
    private var service: LoginService
    private var lastNumber: UInt32 = 0
    private struct Pending {
        let info: ConnectionInfo
        /// The authenticator that decides, as the counts of logins name it.
        let backend: String
        let done: (Outcome) -> Void
    }

    private var pending: [ConnectionID: Pending] = [:]
    private var lines = LineLimit()
    private let activity: HTTPActivity

    /// - Parameter post: brings a decision to `decided` on the control thread; called on any thread.
    init(
        on loop: EventLoop, tables: SecurityTables, throttle: LoginThrottle, bans: BanService, activity: HTTPActivity, log: Log,
        post: @escaping @Sendable (LoginService.Decision) -> Void
    ) {
        self.loop = loop
        self.log = log
        self.bans = bans
        self.activity = activity
        service = LoginService(tables: tables, throttle: throttle, log: log, post: post)
    }

    /// The users and rules that are in force.
    var tables: SecurityTables {
        get { service.tables }
        set { service.tables = newValue }
    }

    /// Decides who asks; `done` is called once, now or later, and not when the peer goes before.
    ///
    /// - Parameter names: where the listener has user names from.
    func decide(_ exchange: HTTPExchange, names: CertificateUserName, _ done: @escaping (Outcome) -> Void) {
        let peer = exchange.peer
        let security = service.tables.listeners[peer.listener]
        if names != .none {
            let identity = peer.identity
            let name: String? =
                switch names {
                case .none: nil
                case .identity: identity.certificateCommonName ?? identity.preSharedKeyIdentity
                case .subject: identity.certificateSubject
                case .name(let choice):
                    identity.certificate.flatMap { try? CertificateNameSelector(choice).name(in: $0) }
                }
            return done(name.flatMap { EncodedString($0) }.map { .accepted($0) } ?? .refused)
        }
        guard let credentials = exchange.request.basicCredentials, let user = EncodedString(credentials.username) else {
            return done(security.allowsAnonymous ? .accepted(nil) : .refused)
        }
        // Where names are not checked, those who give one come as far as those who give none, as with mosquitto.
        guard security.authenticator != nil || !security.allowsAnonymous else { return done(.accepted(user)) }
        let info = ConnectionInfo(address: peer.host, port: peer.address.port, listener: peer.listener)
        exchange.onGone = check(user, password: credentials.password, from: info, done)
    }

    /// Has a name and password checked by the listener's login, whatever else it lets in.
    ///
    /// - Returns: what to call when nobody waits for the answer any more.
    @discardableResult
    func check(
        _ user: EncodedString, password: [UInt8], from info: ConnectionInfo, _ done: @escaping (Outcome) -> Void
    ) -> () -> Void {
        guard !bans.refusesPasswords(of: info.address) else {
            logFailure(.banned, info)
            done(.refused)
            return {}
        }
        lastNumber &+= 1
        let connection = ConnectionID(slot: lastNumber, generation: 0)
        pending[connection] = Pending(info: info, backend: service.tables.listeners[info.listener].passwordBackend, done: done)
        service.request(
            AuthenticationRequest(
                clientIdentifier: Self.clientIdentifier, info: info, step: .password(userName: user, password: password)),
            from: connection)
        return { [weak self] in
            self?.pending[connection] = nil
            self?.service.forget(connection)
        }
    }

    /// Counts a login from this address that has failed: too many of them may end in a ban.
    func hasFailed(_ address: String) { bans.received(.failedLogin(address: address), at: Moment.now()) }

    /// Takes the outcome of a login whose password was checked.
    func decided(_ decision: LoginService.Decision) {
        var told: [(ConnectionID, AuthenticationOutcome)] = []
        service.decided(decision, now: loop.nowMilliseconds) { told.append(($0, $1)) }
        setAlarm()
        report(told)
    }

    func alarmRang() {
        var told: [(ConnectionID, AuthenticationOutcome)] = []
        service.advance(to: loop.nowMilliseconds) { told.append(($0, $1)) }
        setAlarm()
        report(told)
    }

    /// Reports outcomes after all state is settled: what a caller does with one may begin other logins, or change the
    /// users.
    private func report(_ outcomes: [(ConnectionID, AuthenticationOutcome)]) {
        for (connection, outcome) in outcomes { report(connection, outcome) }
    }

    private func setAlarm() {
        if let deadline = service.nextDeadline { loop.setAlarm(at: deadline, for: self) }
    }

    private func report(_ connection: ConnectionID, _ outcome: AuthenticationOutcome) {
        guard let login = pending.removeValue(forKey: connection) else { return }
        let (result, answer): (LoginTally.Result, Outcome) =
            switch outcome {
            case .accepted(let user, _, _): (.accepted, .accepted(user))
            case .refused(.serverBusy, _), .refused(.serverUnavailable, _): (.unavailable, .busy)
            case .refused, .challenge: (.refused, .refused)
            }
        activity.logins.count(LoginTally(login.backend, result))
        if case .refused(let reason, let failure) = outcome, ![.serverBusy, .serverUnavailable].contains(reason) {
            logFailure(failure, login.info)
            hasFailed(login.info.address)
        }
        login.done(answer)
    }

    private func logFailure(_ failure: LoginFailure, _ info: ConnectionInfo) {
        let isWritten = lines.admits(now: loop.nowMilliseconds) {
            log.write(.notice, "\($0) more logins over HTTP have failed.")
        }
        guard isWritten else { return }
        let port = info.port == 0 ? "" : " port \(info.port)"
        log.write(
            .notice, "Login failed from \(info.address)\(port): \(failure.words), client 'http-api'.",
            LogFields(address: info.address, reason: failure.words))
    }

    /// mosquitto's.
    static let clientIdentifier: EncodedString = "http-api"
}

/// What has come over HTTP since the start, for whoever counts. Belongs to the control thread.
final class HTTPActivity {
    /// The connections that there are.
    let connections = HTTPConnectionCounts()
    /// Connections that came to nothing.
    var refusals = Tally<RefusedConnection>()
    /// The passwords that were checked.
    var logins = Tally<LoginTally>()
}

/// Bounds how often a line about strangers is logged, who may cause it as fast as they like: further lines are counted,
/// and their number is logged with the next one.
struct LineLimit {
    private var second: UInt64?
    private var lines = 0
    private var leftOut = 0

    /// Whether a line is written.
    ///
    /// - Parameters:
    ///   - now: in milliseconds.
    ///   - report: called with the number of lines that were not written before.
    mutating func admits(now: UInt64, _ report: (Int) -> Void) -> Bool {
        if now / 1000 != second {
            (second, lines) = (now / 1000, 0)
            if leftOut > 0 { report(leftOut) }
            leftOut = 0
        }
        guard lines < Limits.strangerLinesPerSecondMax else {
            leftOut += 1
            return false
        }
        lines += 1
        return true
    }
}
