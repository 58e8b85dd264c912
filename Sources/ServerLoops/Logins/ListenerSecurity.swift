package import BrokerCore
package import BrokerModel
package import Security

/// The logins and rights of one listener, read from the files and ready to be asked.
package struct ListenerSecurity: Sendable {
    /// Checks user names and passwords; nil when there is no password file.
    package var authenticator: (any Authenticator)?
    /// The Authentication Methods of MQTT 5.0.
    package var methods: [any EnhancedAuthenticator] = []
    /// nil for everybody everything.
    package var accessControl: AccessControl?
    /// Whether a part of it is dynamic security.
    package var isDynamic = false
    package var preSharedKeys: PreSharedKeyFile?
    /// Whether a client needs no login. `allow_anonymous`
    package var allowsAnonymous = false
    /// Whether it speaks HTTP: clients of MQTT come by it only from the dashboard, and are administrators, whom no rule binds.
    package var isForAdministrators = false
    /// Whether user names are what clients say, not what their certificates do.
    package var takesNamesFromClients = true

    /// What measurements call whatever checks passwords.
    package var passwordBackend: String { isDynamic ? "dynamic_security" : "password_file" }

    /// Whether a login that was accepted by what the files said earlier would be accepted by what they say now: its user is still there, with
    /// the same password or key. A certificate that was revoked meanwhile is not seen.
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
        guard let user = login.userName, takesNamesFromClients else { return true }
        // Where names were never checked, those who gave one stay, as with mosquitto.
        guard let authenticator else { return allowsAnonymous || earlier.authenticator == nil }
        return earlier.authenticator.map { authenticator.keeps(user, of: $0) } ?? false
    }

    package init(
        authenticator: (any Authenticator)? = nil, methods: [any EnhancedAuthenticator] = [], accessControl: AccessControl? = nil,
        isDynamic: Bool = false, preSharedKeys: PreSharedKeyFile? = nil, allowsAnonymous: Bool = false,
        isForAdministrators: Bool = false, takesNamesFromClients: Bool = true
    ) {
        self.authenticator = authenticator
        self.methods = methods
        self.accessControl = accessControl
        self.isDynamic = isDynamic
        self.preSharedKeys = preSharedKeys
        self.allowsAnonymous = allowsAnonymous
        self.isForAdministrators = isForAdministrators
        self.takesNamesFromClients = takesNamesFromClients
    }
}
