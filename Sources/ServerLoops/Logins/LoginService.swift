package import BrokerCore
package import BrokerModel
import MQTTCodec
package import Security
package import Transports

/// The logins under way on one loop: passes each to whoever decides it, and holds back the answers to those who keep
/// failing.
///
///     request ─► the listener's authenticator, or the connection's exchange ─► decided ─► [wait] ─► the core
///                   └ waits for its turn, see `CheckQueue`
///
/// An answer comes back as a message to the loop, also one that is known at once. Belongs to its loop.
package struct LoginService {
    /// An answer, on its way to the loop.
    package struct Decision: Sendable {
        package let connection: ConnectionID
        package let request: AuthenticationRequest
        package let outcome: AuthenticationOutcome
        /// The files that decided it.
        package let security: ListenerSecurity
        /// When it was asked for, in microseconds.
        package let askedAt: UInt64

        /// The authenticator that has decided, as measurements call it.
        package var backend: String {
            switch request.step {
            case .password: security.passwordBackend
            case .begin(let method, _), .proceed(let method, _): "\(method)"
            case .abandon: "none"
            }
        }
    }

    private struct Held {
        package let deadline: UInt64
        package let connection: ConnectionID
        package let outcome: AuthenticationOutcome
    }

    package var tables: SecurityTables
    private let throttle: LoginThrottle
    private let log: Log
    private let post: @Sendable (Decision) -> Void
    /// The logins that wait for an answer.
    private var checks: [ConnectionID: any AbandonedLogin] = [:]
    /// An exchange goes on with the files that it began with.
    private var exchanges: [ConnectionID: (exchange: any EnhancedExchange, security: ListenerSecurity)] = [:]
    private var held: [Held] = []
    /// When the first of the answers that are held back is due; milliseconds.
    package private(set) var nextDeadline: UInt64?
    /// The turn's clock.
    var nowMicroseconds: UInt64 = 0

    /// - Parameter post: brings a decision to `decided` on this loop; called on any thread.
    package init(tables: SecurityTables, throttle: LoginThrottle, log: Log, post: @escaping @Sendable (Decision) -> Void) {
        self.tables = tables
        self.throttle = throttle
        self.log = log
        self.post = post
    }

    /// Begins a login that the core asks a decision for.
    package mutating func request(_ request: AuthenticationRequest, from connection: ConnectionID) {
        let post = post
        let security = files(of: request, connection)
        let askedAt = nowMicroseconds
        @Sendable func answer(_ outcome: AuthenticationOutcome) {
            post(Decision(connection: connection, request: request, outcome: outcome, security: security, askedAt: askedAt))
        }
        switch request.step {
        case .password:
            guard let authenticator = security.authenticator else {
                answer(.refused(.notAuthorized, because: .noUsersKnown))
                return
            }
            checks[connection] = authenticator.authenticate(request, as: subject(of: request), reply: answer)
        case .begin(let method, let data):
            guard let authenticator = security.methods.first(where: { $0.method == method }) else {
                // [MQTT-4.12.0-1 v5]
                answer(.refused(.badAuthenticationMethod, because: .unknownMethod))
                return
            }
            let exchange = authenticator.makeExchange(for: request, as: subject(of: request))
            exchanges[connection] = (exchange, security)
            checks[connection] = exchange.begin(data: data, reply: answer)
        case .proceed(_, let data):
            // Without an exchange its end is on its way, or held back.
            guard let begun = exchanges[connection] else { return }
            checks[connection] = begun.exchange.proceed(data: data, reply: answer)
        case .abandon:
            exchanges[connection] = nil
            checks.removeValue(forKey: connection)?.abandon()
        }
    }

    /// Takes a decision, and gives the core's answer to `report`, now or when its time has come.
    package mutating func decided(_ decision: Decision, now: UInt64, report: (ConnectionID, AuthenticationOutcome) -> Void) {
        let (request, connection) = (decision.request, decision.connection)
        checks[connection] = nil
        let outcome = isOutdated(decision) ? .refused(.notAuthorized) : decision.outcome
        switch outcome {
        case .challenge: break
        case .accepted:
            exchanges[connection] = nil
            throttle.succeeded(subject(of: request), now: now)
        case .refused(.serverBusy, _), .refused(.serverUnavailable, _):
            exchanges[connection] = nil
        case .refused:
            exchanges[connection] = nil
            let verdict = throttle.failed(
                subject(of: request), address: request.info.address, clientIdentifier: request.clientIdentifier, now: now)
            if let report = verdict.report { log.write(.notice, report) }
            if verdict.delayMilliseconds > 0, held.count < Limits.heldAnswersMax {
                let deadline = now + verdict.delayMilliseconds
                held.append(Held(deadline: deadline, connection: connection, outcome: outcome))
                nextDeadline = min(nextDeadline ?? .max, deadline)
                return
            }
        }
        report(connection, outcome)
    }

    /// The files by which a request is decided.
    private func files(of request: AuthenticationRequest, _ connection: ConnectionID) -> ListenerSecurity {
        if case .proceed = request.step, let begun = exchanges[connection] { return begun.security }
        return tables.listeners[request.info.listener]
    }

    /// Whether somebody was let in by files that have changed since, and would not be by those that are in force.
    private func isOutdated(_ decision: Decision) -> Bool {
        guard case .accepted(let accepted, _, let grant) = decision.outcome else { return false }
        var (userName, method) = (accepted, nil as EncodedString?)
        switch decision.request.step {
        case .password(let asked, _): userName = accepted ?? asked
        case .begin(let name, _), .proceed(let name, _): method = name
        case .abandon: break
        }
        let login = ConnectedLogin(info: decision.request.info, userName: userName, method: method, source: grant?.source)
        return !tables.listeners[login.info.listener].keeps(login, of: decision.security)
    }

    /// Gives the answers whose time has come to `report`.
    package mutating func advance(to now: UInt64, report: (ConnectionID, AuthenticationOutcome) -> Void) {
        guard let due = nextDeadline, due <= now else { return }
        for answer in held where answer.deadline <= now { report(answer.connection, answer.outcome) }
        held.removeAll { $0.deadline <= now }
        nextDeadline = held.map(\.deadline).min()
    }

    /// Forgets a connection that is gone.
    package mutating func forget(_ connection: ConnectionID) {
        if !exchanges.isEmpty { exchanges[connection] = nil }
        if !checks.isEmpty, let check = checks.removeValue(forKey: connection) { check.abandon() }
    }

    /// The subject that the throttle counts a client's failures under.
    private func subject(of request: AuthenticationRequest) -> LoginSubject {
        var userName: EncodedString?
        if case .password(let name, _) = request.step { userName = name }
        let (address, client) = (request.info.address, request.clientIdentifier)
        guard let peer = PeerAddress(host: address), let network = peer.network else {
            // The file of a Unix socket.
            return throttle.subject(network: address, site: address, userName: userName, clientIdentifier: client)
        }
        return throttle.subject(network: network, site: peer.site, userName: userName, clientIdentifier: client)
    }
}

/// The logins and rights of one listener, read from the files and ready to be asked.
package struct ListenerSecurity: Sendable {
    /// Checks user names and passwords; nil when there is no password file.
    package var authenticator: (any Authenticator)?
    /// The same, source by source: explains logins to administrators.
    package var sources: LoginChain?
    /// The Authentication Methods of MQTT 5.0.
    package var methods: [any EnhancedAuthenticator] = []
    /// nil for everybody everything.
    package var accessControl: AccessControl?
    /// Whether a part of it is dynamic security.
    package var isDynamic = false
    /// Whether logins may bring rules along.
    package var takesRulesFromLogins = false
    package var preSharedKeys: PreSharedKeyFile?
    /// From where clients may connect; nil for anywhere.
    package var addresses: AddressRules?
    /// Whether a client needs no login. `allow_anonymous`
    package var allowsAnonymous = false
    /// Whether it speaks HTTP: clients of MQTT come by it only from the dashboard, and are administrators, whom no rule
    /// binds.
    package var isForAdministrators = false
    /// Whether user names are what clients say, not what their certificates do.
    package var acceptsClientUserNames = true
    /// The users that a certificate may name; nil for any.
    package var knownUsers: (any UserDirectory)?

    /// What measurements call whatever checks passwords.
    package var passwordBackend: String {
        authenticator is LoginChain ? "auth_chain" : isDynamic ? "dynamic_security" : "password_file"
    }

    /// Whether a login that was accepted by what the files said earlier would be accepted by what they say now: its
    /// user is still there, with the same password or key. A certificate that was revoked meanwhile is not seen.
    package func keeps(_ login: ConnectedLogin, of earlier: ListenerSecurity) -> Bool {
        if let identity = login.info.preSharedKeyIdentity.map({ Array($0.utf8) }) {
            guard let key = preSharedKeys?.key(for: identity), key == earlier.preSharedKeys?.key(for: identity) else {
                return false
            }
        }
        if let name = login.method {
            guard let user = login.userName, let method = methods.first(where: { $0.method == name }),
                let before = earlier.methods.first(where: { $0.method == name })
            else { return false }
            return method.keeps(user, of: before)
        }
        // Who has no name may have to go for that; who has one from a certificate needs no password.
        guard let user = login.userName else { return true }
        if let knownUsers, !knownUsers.isKnown(user) { return false }
        guard acceptsClientUserNames else { return true }
        // Where names were never checked, those who gave one stay, as with mosquitto.
        guard let authenticator else { return allowsAnonymous || earlier.authenticator == nil }
        return earlier.authenticator.map { authenticator.keeps(user, by: login.source, of: $0) } ?? false
    }

    package init(
        authenticator: (any Authenticator)? = nil, methods: [any EnhancedAuthenticator] = [], accessControl: AccessControl? = nil,
        isDynamic: Bool = false, preSharedKeys: PreSharedKeyFile? = nil, allowsAnonymous: Bool = false,
        isForAdministrators: Bool = false, acceptsClientUserNames: Bool = true
    ) {
        self.authenticator = authenticator
        self.methods = methods
        self.accessControl = accessControl
        self.isDynamic = isDynamic
        self.preSharedKeys = preSharedKeys
        self.allowsAnonymous = allowsAnonymous
        self.isForAdministrators = isForAdministrators
        self.acceptsClientUserNames = acceptsClientUserNames
    }
}

/// The files of users, rules and keys of all listeners, in memory. Immutable: a reload makes new ones, or fails and
/// leaves the old in force.
package struct SecurityTables: Sendable {
    /// In the order of the configuration.
    package let listeners: [ListenerSecurity]
    /// Warnings of what is probably not meant as it stands in the files.
    package let warnings: [SecurityFileProblem]

    package init(listeners: [ListenerSecurity], warnings: [SecurityFileProblem]) {
        (self.listeners, self.warnings) = (listeners, warnings)
    }

    /// Whether a login that was accepted by earlier tables of the same listeners would be accepted by these.
    package func keeps(_ login: ConnectedLogin, of earlier: SecurityTables) -> Bool {
        listeners[login.info.listener].keeps(login, of: earlier.listeners[login.info.listener])
    }
}

extension Limits {
    /// Answers to failed logins that are held back; beyond them they go out at once. Bytes: 64 each.
    static let heldAnswersMax = 4096
}
