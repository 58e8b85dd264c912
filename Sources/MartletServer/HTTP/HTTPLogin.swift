import BrokerCore
import Configuration
import EpollLoop
import HTTP
import HTTPServer
import MQTTCodec
import Security
import Transports

/// Logins over HTTP: by the users, passwords and throttles of the listener, as if each request were a client with the identifier
/// `http-api`. Belongs to the control thread.
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
    private var desk: LoginDesk
    private var lastNumber: UInt32 = 0
    private var pending: [ConnectionID: (info: ConnectionInfo, done: (Outcome) -> Void)] = [:]

    /// - Parameter post: brings a decision to `decided` on the control thread; called on any thread.
    init(
        on loop: EventLoop, tables: SecurityTables, throttle: LoginThrottle, log: Log,
        post: @escaping @Sendable (LoginDesk.Decision) -> Void
    ) {
        self.loop = loop
        self.log = log
        desk = LoginDesk(tables: tables, throttle: throttle, log: log, post: post)
    }

    /// The users and rules that are in force.
    var tables: SecurityTables {
        get { desk.tables }
        set { desk.tables = newValue }
    }

    /// Decides who asks; `done` is called once, now or later, and not when the peer goes before.
    ///
    /// - Parameter names: where the listener has user names from.
    func decide(_ exchange: HTTPExchange, names: CertificateUserName, _ done: @escaping (Outcome) -> Void) {
        let peer = exchange.peer
        let security = desk.tables.listeners[peer.listener]
        if names != .none {
            let identity = peer.identity
            let name =
                names == .identity ? identity.certificateCommonName ?? identity.preSharedKeyIdentity : identity.certificateSubject
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
        lastNumber &+= 1
        let connection = ConnectionID(slot: lastNumber, generation: 0)
        pending[connection] = (info, done)
        desk.request(
            AuthenticationRequest(
                clientIdentifier: Self.clientIdentifier, info: info, step: .password(userName: user, password: password)),
            from: connection)
        return { [weak self] in
            self?.pending[connection] = nil
            self?.desk.forget(connection)
        }
    }

    /// A password was checked.
    func decided(_ decision: LoginDesk.Decision) {
        var told: [(ConnectionID, AuthenticationOutcome)] = []
        desk.decided(decision, now: loop.nowMilliseconds) { told.append(($0, $1)) }
        setAlarm()
        tell(told)
    }

    func alarmRang() {
        var told: [(ConnectionID, AuthenticationOutcome)] = []
        desk.advance(to: loop.nowMilliseconds) { told.append(($0, $1)) }
        setAlarm()
        tell(told)
    }

    /// What follows may ask for other logins, or bring other users: the desk is done with these.
    private func tell(_ outcomes: [(ConnectionID, AuthenticationOutcome)]) {
        for (connection, outcome) in outcomes { tell(connection, outcome) }
    }

    private func setAlarm() {
        if let deadline = desk.nextDeadline { loop.setAlarm(at: deadline, for: self) }
    }

    private func tell(_ connection: ConnectionID, _ outcome: AuthenticationOutcome) {
        guard let (info, done) = pending.removeValue(forKey: connection) else { return }
        switch outcome {
        case .accepted(let user, _): done(.accepted(user))
        case .refused(.serverBusy, _): done(.busy)
        case .refused(_, let failure):
            let port = info.port == 0 ? "" : " port \(info.port)"
            log.write(
                .notice, "Login failed from \(info.address)\(port): \(failure.words), client 'http-api'.",
                LogFields(address: info.address, reason: failure.words))
            done(.refused)
        case .challenge: done(.refused)
        }
    }

    /// mosquitto's.
    static let clientIdentifier: EncodedString = "http-api"
}
