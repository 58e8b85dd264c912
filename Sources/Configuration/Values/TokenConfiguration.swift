/// Logins by tokens: who signs them, what must stand in them, and what is taken from them.
public struct TokenConfiguration: Sendable, Equatable {
    /// `martlet_jwt_keys`: a file, or a URL, of the keys that tokens are signed with.
    public var keys: String?
    /// `martlet_jwt_cafile`: the authorities of that URL's server; nil for the system's.
    public var authoritiesFile: String?
    /// `martlet_jwt_secret_file`: the secret of tokens that an HMAC signs.
    public var secretFile: String?
    /// The same as it stands in the lines of mosquitto-go-auth's plug-in.
    public var secret: String?
    /// `martlet_jwt_algorithms`: those that tokens may be signed with, and no other.
    public var algorithms: [TokenAlgorithm] = []
    /// `martlet_jwt_from`: where clients put their tokens.
    public var location = TokenLocation.password
    /// `martlet_jwt_issuer`: `iss` is one of these; empty for anybody's.
    public var issuers: [String] = []
    /// `martlet_jwt_audience`: `aud` holds one of these; empty for tokens that have none.
    public var audiences: [String] = []
    /// `martlet_jwt_require`: `NAME` or `NAME=VALUE`, what else must stand in a token.
    public var requiredClaims = ["exp"]
    /// `martlet_jwt_leeway`: how far clocks may be apart, in seconds.
    public var leewaySeconds = 30
    /// `martlet_jwt_username_claim`: the claim with the user's name; nil to leave the one that the client gives.
    public var userNameClaim: String? = "sub"
    /// `martlet_jwt_clientid_claim`: the claim that has to be the Client Identifier.
    public var clientIdentifierClaim: String?
    /// `martlet_jwt_roles_claim`: the claim with roles of dynamic security.
    public var rolesClaim: String?
    /// `martlet_jwt_acl_claim`: the claim with access rules; nil to leave them where they are.
    public var accessClaim: String? = "acl"
    /// `martlet_jwt_max_size`: bytes of a token.
    public var bytesMax = 16 * 1024
    /// `martlet_introspection_url` and what belongs to it.
    public var introspection = IntrospectionConfiguration()

    public init() {}

    /// Whether tokens are checked here.
    public var hasKeys: Bool { keys != nil || secretFile != nil || secret != nil }

    /// Whether anybody can log in with a token.
    public var isEnabled: Bool { hasKeys || introspection.url != nil }

    /// Whether what clients give as their user names may be tokens that look like nothing.
    public var hidesUserNames: Bool { introspection.url != nil && location == .userName }

    /// The URL that `martlet_jwt_keys` names; nil where it names a file.
    public var keysURL: String? { keys.flatMap { Self.isURL($0) ? $0 : nil } }

    /// The file that `martlet_jwt_keys` names; nil where it names a URL.
    public var keysFile: String? { keys.flatMap { Self.isURL($0) ? nil : $0 } }

    /// Whether the keys are found by the issuer's OpenID Connect discovery.
    public var discoversKeys: Bool { keysURL?.hasSuffix(Self.discoveryPath) ?? false }

    /// What the URL of an issuer's discovery ends with.
    static let discoveryPath = "/.well-known/openid-configuration"

    static func isURL(_ text: String) -> Bool { text.hasPrefix("https://") || text.hasPrefix("http://") }
}

/// Logins by tokens that only their issuer can read, who is asked. RFC 7662.
public struct IntrospectionConfiguration: Sendable, Equatable {
    /// `martlet_introspection_url`.
    public var url: String?
    /// `martlet_introspection_cafile`: the authorities of its server; nil for the system's.
    public var authoritiesFile: String?
    /// `martlet_introspection_client_id`: as whom the broker asks.
    public var clientIdentifier: String?
    /// `martlet_introspection_secret_file`: the file with the password of that.
    public var secretFile: String?
    /// `martlet_introspection_cache`: for how many seconds an answer holds; nil to ask each time.
    public var cacheSeconds: Int? = 60

    public init() {}
}

/// How a token is signed: the names of RFC 7518, RFC 8037 and RFC 9864.
public enum TokenAlgorithm: String, Sendable, Equatable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case eddsa = "EdDSA"
    case ed25519 = "Ed25519"
    case ed448 = "Ed448"
    case hs256 = "HS256"
    case hs384 = "HS384"
    case hs512 = "HS512"

    /// Whether a secret signs, which both sides know.
    public var isSymmetric: Bool { [.hs256, .hs384, .hs512].contains(self) }
}

/// Where clients put their tokens.
public enum TokenLocation: String, Sendable, Equatable, CaseIterable {
    case password
    case userName = "username"
    /// Only in the Authentication Data of MQTT 5.0, where tokens can be wherever else they can be.
    case authentication = "auth"
}
