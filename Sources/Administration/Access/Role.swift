internal import BrokerModel
internal import HTTP
internal import MQTTCodec
internal import Platform

/// What somebody may do over HTTP.
public enum AdministrationRole: String, Sendable, CaseIterable {
    /// Read what is measured, and nothing else.
    case metrics
    /// See.
    case viewer
    /// See and change.
    case admin

    func fulfils(_ need: Route.Need) -> Bool {
        switch need {
        case .nothing, .metrics: true
        case .viewer: self != .metrics
        case .admin: self == .admin
        }
    }
}

/// The identity of the one who asks, as far as it is known.
struct Identity: Sendable {
    enum Means: String, Sendable {
        case none
        case anonymous
        case password
        case token
        case session
        /// The peer's process, on a Unix socket.
        case peer
        /// Another node of the cluster has found out who asks.
        case node
    }

    /// What stands for it from one request to the next.
    enum Credential: Sendable {
        /// A trusted process, or nobody in particular.
        case none
        case token(TokenTable.Token)
        /// By its key in the table.
        case session([UInt8])
        /// By the name that access rules know.
        case user(EncodedString)
    }

    /// Of the user or the token.
    var name: String?
    /// Nil for somebody who may do nothing.
    var role: AdministrationRole?
    var means: Means
    var credential = Credential.none
    /// Until when this is so, in milliseconds since 1970; nil for ever.
    var expiresAt: UInt64?

    static let nobody = Identity(name: nil, role: nil, means: .none)
}

/// Links that each let one browser in as administrator, once: the one in the log of a broker without a configuration,
/// and those that `martlet ctl dashboard` asks for.
///
/// Invariant: at most `Limits.loginLinksMax`; the oldest gives way to another one.
struct LoginLinks {
    private struct Link {
        let secret: String
        /// The user that the link was made for; nil for whoever reads the log.
        let owner: String?
        /// Milliseconds since 1970; nil for as long as the broker runs.
        let expiresAt: UInt64?
    }

    private var links: [Link] = []

    /// Makes one, and returns its secret.
    mutating func make(for owner: String?, until expiresAt: UInt64?) -> String {
        if links.count >= Limits.loginLinksMax { links.removeFirst() }
        let secret = Secret.make()
        links.append(Link(secret: secret, owner: owner, expiresAt: expiresAt))
        return secret
    }

    /// Takes the identity that comes in by a secret, which is worth nothing from then on; nil for nobody.
    mutating func take(_ secret: String, at now: UInt64) -> Identity? {
        links.removeAll { $0.expiresAt.map { $0 <= now } ?? false }
        guard let index = links.firstIndex(where: { Administration.equal($0.secret, secret) }) else { return nil }
        return Identity(name: links.remove(at: index).owner, role: .admin, means: .token)
    }
}

/// By what somebody reads a stream: it ends when that is over.
struct StreamRight {
    let who: Identity
    let listener: Int
    let need: Route.Need

    init(_ call: Call) { (who, listener, need) = (call.who, call.origin.listener, call.route.need) }
}

/// Streams whose readers may read them no more.
extension Administration {
    /// Ends the streams of those whose token, session or role is not what it was when they began. Whoever may still
    /// read comes back.
    func endUnentitledStreams(_ now: Moment) {
        endStreams { !holds($0, now) }
    }

    /// Ends the streams of these users, logged in with each request or once.
    func endStreams(ofUsers names: Set<String>) {
        endStreams { right in
            switch right.who.credential {
            case .user, .session: right.who.name.map { names.contains($0) } ?? false
            case .token, .none: false
            }
        }
    }

    func endStreams(where isOver: (StreamRight) -> Bool) {
        events.end { isOver($0) }
        sockets.end { isOver($0) }
        traces.endReaders(where: isOver)
    }

    private func holds(_ right: StreamRight, _ now: Moment) -> Bool {
        let who = right.who
        guard (who.expiresAt ?? .max) > now.wallMilliseconds else { return false }
        return switch who.credential {
        case .none: true
        case .token(let token): tokens.tokens.contains(token)
        // Somebody who reads is there: the session is not idle.
        case .session(let key): sessions.use(key, now: now)
        case .user(let userName): role(of: userName, right.listener)?.fulfils(right.need) ?? false
        }
    }
}

/// Finds out who asks, and whether they may.
extension Administration {
    /// Finds out who asks, and goes on; answers itself where a login fails. What somebody shows counts before what they
    /// are without it: a wrong token is refused where none would do.
    func identify(_ call: Call, _ next: @escaping () -> Void) {
        let (request, now) = (call.request, call.startedAt)
        if let secret = request.bearerToken {
            guard let token = tokens.find(secret, now: now) else {
                return call.fail(Self.unauthorized(call, "Unknown token."))
            }
            call.who = Identity(
                name: token.name, role: token.role, means: .token, credential: .token(token),
                expiresAt: token.expiresAt.map { $0 * 1000 })
            return next()
        }
        if let credentials = request.basicCredentials {
            return logIn(call, credentials.username, credentials.password) { identity in
                call.who = identity
                next()
            }
        }
        if request.fields["Authorization"] != nil {
            return call.fail(Self.unauthorized(call, "Unsupported authentication scheme: use Basic or Bearer."))
        }
        if let secret = request.cookie(Self.cookieName), let identity = sessions.find(secret, now: now) {
            call.who = identity
        } else if call.origin.isTrustedProcess {
            call.who = Identity(name: call.origin.processUser, role: .admin, means: .peer)
        } else if let role = listener(call.origin.listener).anonymousRole {
            call.who = Identity(name: nil, role: role, means: .anonymous)
        }
        next()
    }

    /// Checks a name and a password; answers itself where they are not right.
    func logIn(
        _ call: Call, _ name: String, _ password: [UInt8], _ next: @escaping (Identity) -> Void
    ) {
        guard let userName = EncodedString(name) else {
            return call.fail(Self.unauthorized(call, "The login has failed."))
        }
        let listener = call.origin.listener
        let login = AdministrationLogin(
            userName: userName, password: password, listener: listener, address: call.origin.address)
        call.onGone = broker.logIn(login) { [self] answer in
            switch answer {
            case .accepted(let userName):
                // Who logs in by a token is who that says.
                next(
                    Identity(
                        name: userName.withoutToken.description, role: role(of: userName, listener), means: .password,
                        credential: .user(userName)))
            case .refused: call.fail(Self.unauthorized(call, "The login has failed."))
            case .unavailable: call.fail(.unavailable)
            }
        }
    }

    /// What a user may do who has logged in: as the configuration says, or as access rules for `$CONTROL/martlet/v1`
    /// say. Without any rule, nothing: a file of passwords must not make every device an administrator.
    func role(of userName: EncodedString, _ listener: Int) -> AdministrationRole? {
        if let role = settings.users[userName.description] { return role }
        if broker.permits(userName, ofListener: listener, to: .write, topic: Self.controlTopic)
            == .granted
        {
            return .admin
        }
        return broker.permits(userName, ofListener: listener, to: .read, topic: Self.controlTopic)
            == .granted ? .viewer : nil
    }

    /// Throws what somebody is answered who may not.
    func check(_ call: Call) throws(APIError) {
        switch call.route.need {
        case .nothing: return
        case .metrics where settings.allowsAnonymousMetrics && call.who.means == .none: return
        case .metrics, .viewer, .admin: break
        }
        guard call.who.means != .none else { throw Self.unauthorized(call, "Log in first.") }
        guard let role = call.who.role, role.fulfils(call.route.need) else {
            throw APIError(.forbidden, "That needs the role \(call.route.need.rawValue).")
        }
    }

    /// Whether somebody may see the payloads of messages.
    func maySeePayloads(_ who: Identity) -> Bool {
        switch settings.payloads {
        case .none: false
        case .admin: who.role == .admin
        case .viewer: who.role == .admin || who.role == .viewer
        }
    }

    /// Asks for a login. A page is not asked for Basic, which would make its browser ask the user.
    static func unauthorized(_ call: Call, _ message: String) -> APIError {
        let isPage = call.request.fields["Sec-Fetch-Mode"].map { $0 != "navigate" } ?? false
        var fields: HTTPFields = ["WWW-Authenticate": "Bearer realm=\"martlet\""]
        if !isPage { fields.append("WWW-Authenticate", "Basic realm=\"martlet\", charset=\"UTF-8\"") }
        return APIError(.unauthorized, message, fields: fields)
    }

    static func equal(_ left: String, _ right: String) -> Bool {
        ConstantTime.equal(Array(left.utf8), Array(right.utf8))
    }

    static let cookieName = "martlet_session"
    private static let controlTopic: TopicName = "$CONTROL/martlet/v1"
}

extension Limits {
    /// Links that let a browser in which nobody has used yet: the oldest gives way. Bytes: 512, as names of users of
    /// the machine are short.
    static let loginLinksMax = 16
}
