internal import BrokerModel
internal import Cryptography
internal import HTTP
internal import MQTTCodec

/// Finds out who asks, and whether they may.
extension Administration {
    /// Finds out who asks, and goes on; answers itself where a login fails. What somebody shows counts before what they are without it: a wrong
    /// token is refused where none would do.
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
                next(Identity(name: name, role: role(of: userName, listener), means: .password, credential: .user(userName)))
            case .refused: call.fail(Self.unauthorized(call, "The login has failed."))
            case .unavailable: call.fail(.unavailable)
            }
        }
    }

    /// What a user may do who has logged in: as the configuration says, or as access rules for `$CONTROL/martlet/v1` say. Without any rule,
    /// nothing: a file of passwords must not make every device an administrator.
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
