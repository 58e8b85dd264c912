/// The settings that say who may connect to a listener and what they may do there.
public struct SecurityConfiguration: Sendable, Equatable {
    /// `allow_anonymous`: a CONNECT without user name is let in.
    public var allowsAnonymous = false
    /// `allow_zero_length_clientid`: the broker assigns an identifier to a client without one.
    public var allowsZeroLengthClientIdentifier = true
    /// `auto_id_prefix`: what assigned identifiers begin with.
    public var assignedIdentifierPrefix = "auto-"
    /// `clientid_prefixes`: what identifiers of clients have to begin with.
    public var clientIdentifierPrefix: String?
    /// `password_file`.
    public var passwordFile: String?
    /// `martlet_scram_file`: the users that log in with SCRAM-SHA-256, and what the broker keeps of their passwords.
    public var scramFile: String?
    /// `acl_file`.
    public var accessControlFile: String?
    /// `psk_file`: identities and their keys for TLS without certificates.
    public var preSharedKeyFile: String?
    /// `plugin` with its `plugin_opt_*`, in the order of the file. The password and access files of mosquitto's plugins for them are
    /// already in `passwordFile` and `accessControlFile`.
    public var plugins: [PluginConfiguration] = []
    /// `auth_plugin_deny_special_chars`: `+` and `#` in a user name or client identifier deny every access that a plugin decides.
    public var deniesSpecialCharacters = true
    /// `martlet_acl_check_subscribe`: a SUBSCRIBE to what the client may never read is refused, not only the deliveries.
    public var checksAccessOnSubscribe = false

    /// `MARTLET_USER` of the environment, who logs in besides those of `passwordFile`.
    public var firstUser: FirstUser?

    public init() {}
}

/// What becomes of a session when somebody connects with its client identifier who is not its owner.
public enum ForeignSessionPolicy: String, Sendable, Equatable, CaseIterable {
    /// It ends, and the newcomer gets one of its own.
    case discard
    /// The newcomer is refused with "client identifier not valid".
    case refuse
}
