import BrokerCore
import Security

/// Who may log in at one listener and what they may do there, read from the files and ready to be asked.
struct ListenerSecurity: Sendable {
    /// Checks user names and passwords; nil when there is no password file.
    var authenticator: (any Authenticator)?
    /// The Authentication Methods of MQTT 5.0.
    var methods: [any EnhancedAuthenticator] = []
    /// nil for everybody everything.
    var accessControl: AccessControl?
    var preSharedKeys: PreSharedKeyFile?
}
