public import MQTTCodec

/// A decision that a shard asks its shell for.
public struct AuthenticationRequest: Sendable {
    public enum Step: Sendable {
        /// A user name and perhaps a password, as CONNECT gave them.
        case password(userName: EncodedString?, password: [UInt8]?)
        /// CONNECT with an Authentication Method, or AUTH that begins a re-authentication.
        case begin(method: EncodedString, data: [UInt8]?)
        /// AUTH with the client's answer to a challenge.
        case proceed(method: EncodedString, data: [UInt8]?)
        /// The connection went away in the middle; nothing is to be answered.
        case abandon
    }

    public let clientIdentifier: EncodedString
    public let info: ConnectionInfo
    public let step: Step

    public init(clientIdentifier: EncodedString, info: ConnectionInfo, step: Step) {
        self.clientIdentifier = clientIdentifier
        self.info = info
        self.step = step
    }
}

/// The shell's answer to an `AuthenticationRequest`.
public enum AuthenticationOutcome: Sendable {
    /// The client is who it says. `data` goes back with the last packet of an enhanced authentication; `userName`, if
    /// given, replaces the one in CONNECT; `grant` is what the login brought along.
    case accepted(userName: EncodedString?, data: [UInt8]?, grant: LoginGrant? = nil)
    /// Send `data` to the client and wait for its answer.
    case challenge(data: [UInt8])
    /// The client is told the reason code, the log what lies behind it.
    case refused(ReasonCode, because: LoginFailure = .unspecified)
}

/// A login that was accepted.
public struct VerifiedLogin: Sendable {
    /// Nil for a client without a user name.
    public let userName: EncodedString?
    /// What CONNACK carries of an enhanced authentication.
    public let authenticationData: [UInt8]?
    /// What the login brought along; nil for nothing.
    public let grant: LoginGrant?

    package init(userName: EncodedString?, authenticationData: [UInt8]?, grant: LoginGrant? = nil) {
        self.userName = userName
        self.authenticationData = authenticationData
        self.grant = grant
    }
}

/// What a login brought along beside the user's name: from a token, or from a service that was asked.
///
/// Immutable: the connection that logged in and its session share it. The session has it until its client logs in
/// again.
public final class LoginGrant: Sendable {
    /// Who decided, as `martlet_auth_chain`, the log and the metrics call it.
    public let source: String
    /// What the client is called; nil for what CONNECT says. A client without an identifier gets it, one with another
    /// is refused.
    public let clientIdentifier: EncodedString?
    /// What is asked before the listener's rules; nil for those alone.
    public let rights: RoleRights?
    /// Whether the listener's rules are not asked where `rights` say nothing: then it is refused.
    public let decidesAll: Bool
    /// Whether no rule binds the client.
    public let isSuperuser: Bool
    /// The groups and roles of dynamic security that it has beside its own: by its certificate.
    public let memberships: AccessMemberships
    /// What else is known of the client, for rules.
    public let attributes: [(name: String, value: String)]
    /// When the connection ends, in milliseconds since 1970; nil for never.
    public let expiresAt: UInt64?
    /// Who is asked about topics that no rule grants; nil for nobody. Only beside `rights`.
    public let topics: (any TopicAuthority)?
    /// Whether the next login is asked for again, since somebody could not be asked.
    public let isProvisional: Bool

    public init(
        source: String, clientIdentifier: EncodedString? = nil, rights: RoleRights? = nil, decidesAll: Bool = false,
        isSuperuser: Bool = false, attributes: [(name: String, value: String)] = [], expiresAt: UInt64? = nil,
        topics: (any TopicAuthority)? = nil, isProvisional: Bool = false,
        memberships: AccessMemberships = AccessMemberships()
    ) {
        self.memberships = memberships
        self.source = source
        self.clientIdentifier = clientIdentifier
        self.rights = rights
        self.decidesAll = decidesAll
        self.isSuperuser = isSuperuser
        self.attributes = attributes
        self.expiresAt = expiresAt
        self.topics = topics
        self.isProvisional = isProvisional
    }

    /// The same, with what the client's certificate says; nil for nothing at all.
    package static func adding(_ claims: CertificateClaims, to grant: LoginGrant?) -> LoginGrant? {
        guard !claims.memberships.isEmpty || !claims.attributes.isEmpty else { return grant }
        let grant = grant ?? LoginGrant(source: certificate)
        return LoginGrant(
            source: grant.source, clientIdentifier: grant.clientIdentifier, rights: grant.rights, decidesAll: grant.decidesAll,
            isSuperuser: grant.isSuperuser, attributes: grant.attributes + claims.attributes.map { ($0.name, $0.value) },
            expiresAt: grant.expiresAt, topics: grant.topics, isProvisional: grant.isProvisional,
            memberships: claims.memberships)
    }

    private static let certificate = "certificate"

    /// The source of logins that has let the client in; nil where none was asked.
    package var loginSource: String? { source == Self.certificate ? nil : source }
}

/// Why a client was not let in: for the operator's log. The client is told less, so that nobody finds out which users
/// there are.
public enum LoginFailure: Sendable, Equatable {
    case unspecified
    case unknownUser
    case wrongPassword
    /// Anonymous clients are not let in, and this one gave no user name.
    case noUserName
    case noPassword
    case unknownMethod
    /// The listener has nobody to compare the user with.
    case noUsersKnown
    case noCertificateName
    /// Why the certificate does not say who the client is, as a part of a sentence.
    case certificate(String)
    /// What the login has proved is another user than the certificate or the session has.
    case otherUser
    /// Its identifier, user or address is.
    case banned
    /// A source of logins refuses it, or could not be asked, in these words.
    case reported(String)

    /// The failure as a part of a sentence: `wrong password`.
    public var words: String {
        switch self {
        case .unspecified: "the login was not accepted"
        case .unknownUser: "unknown user"
        case .wrongPassword: "wrong password"
        case .noUserName: "no user name, and anonymous clients are not allowed"
        case .noPassword: "no password"
        case .unknownMethod: "unknown authentication method"
        case .noUsersKnown: "its listener has no users (password_file) and does not allow anonymous clients"
        case .noCertificateName: "no certificate or key that names a user"
        case .certificate(let words): "the certificate does not say who this is: \(words)"
        case .otherUser: "another user than the one of the certificate or the session"
        case .banned: "banned"
        case .reported(let words): words
        }
    }
}
