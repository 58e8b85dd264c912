import Glibc
import Platform

/// One address where clients connect, and what holds for those that do.
public struct ListenerConfiguration: Sendable, Equatable {
    /// `listener`: where it listens.
    public var endpoint: ListenerEndpoint
    /// `protocol`.
    public var application = ListenerProtocol.mqtt
    /// `accept_protocol_versions`: the protocol levels that are let in: 3 (MQTT 3.1), 4 (3.1.1) and 5.
    public var acceptedProtocolVersions: Set<UInt8> = [3, 4, 5]
    /// `socket_domain`: the one address family; nil is both.
    public var addressFamily: AddressFamily?
    /// `bind_interface`: the one network interface.
    public var interface: String?
    /// `max_connections`; nil is no limit.
    public var connectionsMax: Int?
    /// `martlet_max_connections_per_second` in its section: new connections of this listener; nil is no limit.
    public var connectionsPerSecondMax: Int?
    /// `martlet_allow_from`, `martlet_deny_from`: from where clients may connect.
    public var addresses = ListenerAddresses()
    /// `max_qos`: the highest QoS that a client may publish with.
    public var qosMax: UInt8 = 2
    /// `max_topic_alias`: topic aliases that a client may use towards the broker.
    public var topicAliasMax: UInt16 = 10
    /// `max_topic_alias_broker`: topic aliases that the broker uses towards a client.
    public var topicAliasMaxBroker: UInt16 = 10
    /// `mount_point`: what every topic of these clients is prefixed with inside the broker.
    public var mountPoint: String?
    /// `use_username_as_clientid`.
    public var usesUserNameAsClientIdentifier = false
    /// `enable_proxy_protocol`: the version of the PROXY header that each connection begins with; nil is none.
    public var proxyProtocolVersion: UInt8?
    /// `proxy_protocol_v2_require_tls`: the header has to say that the client came with TLS.
    public var proxyProtocolRequiresTLS = false
    /// `martlet_proxy_trusted`: whose PROXY headers are believed (empty: anybody's), or without those whose
    /// X-Forwarded-For (empty: nobody's).
    public var trustedProxies: [NetworkRange] = []
    /// `http_dir`: the directory of static files.
    public var httpDirectory: String?
    /// `martlet_http_serve`: what a listener with protocol http_api offers.
    public var httpOffers = Set(HTTPOffer.allCases)
    /// Whether the broker starts without it, with a line in its log, where its address cannot be had: clients are
    /// served all the same.
    public var isDispensable = false
    /// Whether the broker has it of itself, and no file names it: mosquitto's API does not tell of it.
    public var isBrokersOwn = false
    /// Whether a running broker has closed it, because its files do not name it any more: it keeps its place among the
    /// others, by which clients and sessions are known to have come from it. Never of a configuration that was read.
    public var isClosed = false
    /// `websockets_origin`: the origins that browsers may come from. Empty: any.
    public var webSocketOrigins: [String] = []
    /// `martlet_clientid_prefix`: what Client Identifiers begin with, `%u` for the user name; its own, or else the
    /// broker's; empty for anything.
    public var userIdentifierPrefix = ""
    /// `martlet_default_rule`: what clients may do that have no rules of their own; its own, or else the broker's.
    public var defaultRules: [String] = []
    /// `martlet_durability`: what an acknowledgement to these clients promises while persistence is on; its own, or
    /// else the broker's.
    public var durability = Durability.commit
    public var tls = ListenerTLSConfiguration()
    /// What holds for this listener: its own settings, or else the broker's.
    public var security = SecurityConfiguration()

    /// Whether it has a port, and other machines may not connect to it.
    public var isForThisMachine: Bool {
        if case .unixSocket = endpoint { false } else { !isReachableFromElsewhere }
    }

    /// Whether other machines may connect, as far as the configuration tells.
    var isReachableFromElsewhere: Bool {
        switch endpoint {
        case .loopback, .unixSocket: false
        case .tcp(_, let host?): !host.hasPrefix("127.") && !["::1", "localhost"].contains(host)
        case .tcp(_, nil): interface != "lo"
        }
    }

    /// Whether it is a Unix socket from which the broker is administered: it lets in no client of MQTT, and nobody from
    /// elsewhere.
    public var isAdministrationSocket: Bool {
        if case .unixSocket = endpoint { application == .httpAPI } else { false }
    }

    /// Whether this machine alone can administer the broker there, and no client of MQTT comes by it.
    public var isLocalAdministration: Bool { application == .httpAPI && !isReachableFromElsewhere }

    /// Whether what clients give as their user names may be tokens, which are shown to nobody.
    public var hidesUserNames: Bool {
        security.tokens.hidesUserNames && (tls.userNameSource == .none || tls.requiresPasswordToo)
    }

    public init(endpoint: ListenerEndpoint) {
        self.endpoint = endpoint
    }

    /// Whether both listen at the same address.
    public func hasAddress(of other: ListenerConfiguration) -> Bool {
        endpoint == other.endpoint && interface == other.interface && addressFamily == other.addressFamily
    }

    /// Whether connections of both have the same layers, so that those of the one may go on as the other's.
    public func speaksAs(_ other: ListenerConfiguration) -> Bool {
        application == other.application && tls.isEnabled == other.tls.isEnabled
            && proxyProtocolVersion == other.proxyProtocolVersion
    }
}

/// Where a listener listens.
public enum ListenerEndpoint: Sendable, Hashable {
    /// A port of `host`, or of every address when that is nil.
    case tcp(port: UInt16, host: String?)
    /// A port of 127.0.0.1 and, where there is IPv6, of ::1.
    case loopback(port: UInt16)
    case unixSocket(path: String)
}

/// From where clients may connect to a listener: of the networks that hold an address the narrowest decides, and of two
/// alike the one that denies. An address that none holds may connect unless some are allowed.
public struct ListenerAddresses: Sendable, Equatable {
    /// `martlet_allow_from`.
    public var allowed: [NetworkRange] = []
    /// `martlet_deny_from`.
    public var denied: [NetworkRange] = []
    /// `martlet_allow_from_file`: files with a network on each line.
    public var allowedFiles: [String] = []
    /// `martlet_deny_from_file`.
    public var deniedFiles: [String] = []

    public init() {}

    /// Whether nothing is said: everybody may connect.
    public var isEmpty: Bool { allowed.isEmpty && denied.isEmpty && allowedFiles.isEmpty && deniedFiles.isEmpty }
}

/// The protocol that is spoken on a listener.
public enum ListenerProtocol: String, Sendable, Equatable, CaseIterable {
    case mqtt
    case webSockets = "websockets"
    case httpAPI = "http_api"
}

/// Something that is offered over HTTP.
public enum HTTPOffer: String, Sendable, Equatable, CaseIterable {
    /// Whether the broker lives and is ready.
    case health
    /// Figures for Prometheus.
    case metrics
    /// What programs ask and order.
    case api
    /// Pages for people.
    case dashboard
}

/// A family of network addresses.
public enum AddressFamily: String, Sendable, Equatable, CaseIterable {
    case ipv4
    case ipv6
}

/// What of a client's certificate (or pre-shared key) becomes its user name.
public enum CertificateUserName: Sendable, Equatable {
    case none
    /// The common name, or the identity of the pre-shared key.
    case identity
    case subject
    /// A name of the certificate. `martlet_certificate_username`
    case name(CertificateNameChoice)
}

/// Which name of a certificate is meant.
public struct CertificateNameChoice: Sendable, Equatable {
    public enum Kind: String, Sendable, Equatable, CaseIterable {
        case commonName = "cn"
        case subject
        case uri = "san-uri"
        case dns = "san-dns"
        case email = "san-email"
        case spiffe
    }

    public var kind: Kind
    /// Which of several, counted from 1; nil where there must be one alone.
    public var index: Int?

    public init(_ kind: Kind, index: Int? = nil) { (self.kind, self.index) = (kind, index) }
}

/// What of a client's certificate is looked at beside its names.
public enum CertificatePart: String, Sendable, Equatable, CaseIterable {
    case organizationalUnit = "ou"
    case organization = "o"
    case commonName = "cn"
    case locality = "l"
    case state = "st"
    case country = "c"
    case domainComponent = "dc"
    case userIdentifier = "uid"
    case uri = "san-uri"
    case dns = "san-dns"
    case email = "san-email"
}

/// The clients whom their certificate puts into a group of dynamic security, or gives a role.
public struct CertificateMembership: Sendable, Equatable {
    public var part: CertificatePart
    /// What the part has to be; nil where the part itself names the group or role.
    public var value: String?
    /// The group or role; nil likewise.
    public var name: String?

    public init(_ part: CertificatePart, value: String? = nil, name: String? = nil) {
        (self.part, self.value, self.name) = (part, value, name)
    }
}

/// An attribute that clients have from their certificates.
public struct CertificateAttribute: Sendable, Equatable {
    public var name: String
    public var part: CertificatePart

    public init(name: String, part: CertificatePart) { (self.name, self.part) = (name, part) }
}

/// A certificate of a listener beside its first one, for the hosts that it names.
public struct NamedCertificate: Sendable, Equatable {
    public var certificateFile: String
    public var keyFile: String

    public init(certificateFile: String, keyFile: String) {
        (self.certificateFile, self.keyFile) = (certificateFile, keyFile)
    }
}

/// Addresses that begin alike, or one of them: `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1`.
public struct NetworkRange: Sendable, Hashable {
    /// An IPv4 or IPv6 address in numbers.
    public let host: String
    /// How many of its bits count: 0 to 32, or to 128.
    public let bits: Int

    /// From the text; nil when it is no address, or has more bits than one.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard let host = parts.first, parts.count <= 2 else { return nil }
        var room = in6_addr()
        let isIPv4 = inet_pton(AF_INET, host, &room) == 1
        guard isIPv4 || inet_pton(AF_INET6, host, &room) == 1 else { return nil }
        let longest = isIPv4 ? 32 : 128
        let bits = parts.count == 1 ? longest : Int(parts[1])
        guard let bits, (0...longest).contains(bits) else { return nil }
        self.host = host
        self.bits = bits
    }
}

extension NetworkRange: CustomStringConvertible {
    public var description: String { "\(host)/\(bits)" }
}

/// Whether and how the broker keeps its state across a restart.
public struct PersistenceConfiguration: Sendable, Equatable {
    /// `persistence`.
    public var isEnabled = false
    /// Whether mosquitto's plug-in for SQLite has switched it on, whose file is imported then when there is no store
    /// yet.
    public var isOfPlugin = false
    /// `persistence_location`: the directory; nil is the directory that the broker was started in.
    public var location: String?
    /// `persistence_file`: mosquitto's file, which is imported when there is no store yet, and what the store is named
    /// after.
    public var file = defaultFile
    /// mosquitto's name for its file.
    public static let defaultFile = "mosquitto.db"
    /// `martlet_durability` outside of every listener's section: what an acknowledgement promises while persistence is
    /// on.
    public var durability = Durability.commit
    /// `martlet_store_bytes_max`: how many bytes of the store may be in use before it is full; nil is as many as the
    /// disk has.
    public var bytesMax: Int?
    /// `autosave_interval`: the number after which the store is compacted, in seconds or, if `autosavesOnChanges`, in
    /// changes; nil never.
    public var autosaveInterval: Int? = 1800
    /// `autosave_on_changes`.
    public var autosavesOnChanges = false

    public init() {}

    /// What the store's database is called: martlet.db, or with another `persistence_file` a name that holds that of
    /// the file, so that brokers may share a directory.
    public var storeName: String { file == Self.defaultFile ? "martlet.db" : "martlet-\(file)" }
}

/// What an acknowledgement promises.
public enum Durability: Sendable, Equatable {
    /// What was acknowledged survives `kill -9` and a power cut.
    case commit
    /// What was acknowledged begins to be written at most that many seconds later; a crash costs what was not.
    case interval(seconds: Int)
    /// Nothing before an orderly stop.
    case none
}

/// The TLS side of a listener.
///
/// `isEnabled` is `certificateFile != nil && keyFile != nil || preSharedKeyHint != nil`; without it nothing else
/// counts.
public struct ListenerTLSConfiguration: Sendable, Equatable {
    /// `certfile`: the chain that the listener shows.
    public var certificateFile: String?
    /// `keyfile`.
    public var keyFile: String?
    /// `cafile`: the authorities of the clients' certificates.
    public var authoritiesFile: String?
    /// `capath`.
    public var authoritiesDirectory: String?
    /// `crlfile`: the certificates that were revoked.
    public var revocationListFile: String?
    /// `dhparamfile`.
    public var diffieHellmanParametersFile: String?
    /// `ciphers`: for TLS 1.2, in OpenSSL's notation.
    public var ciphers: String?
    /// `ciphers_tls1.3`.
    public var cipherSuites: String?
    /// `tls_version`: the lowest version.
    public var versionMin = TLSVersion.tls1_2
    /// `require_certificate`.
    public var requiresCertificate = false
    /// `use_identity_as_username`, `use_subject_as_username`, `martlet_certificate_username`.
    public var userNameSource = CertificateUserName.none
    /// `martlet_certificate_clientid`: what of the certificate the Client Identifier has to be; nil for nothing.
    public var clientIdentifierSource: CertificateNameChoice?
    /// `martlet_certificate_and_login`: the user has to give the password too.
    public var requiresPasswordToo = false
    /// `martlet_certificate_known_user`: the certificate's name has to be a user of a file or of dynamic security.
    public var requiresKnownUser = false
    /// `martlet_certificate_group`: the groups of dynamic security that a certificate puts its client into.
    public var certificateGroups: [CertificateMembership] = []
    /// `martlet_certificate_role`: the roles that it gives.
    public var certificateRoles: [CertificateMembership] = []
    /// `martlet_certificate_attribute`: what rules have of it for `%{client_attrs.NAME}`.
    public var certificateAttributes: [CertificateAttribute] = []
    /// `martlet_certificate`: certificates for the hosts that they name.
    public var namedCertificates: [NamedCertificate] = []
    /// `martlet_sni_strict`: a client that asks for a host that no certificate names is refused.
    public var refusesUnknownHosts = false
    /// `martlet_tls_tickets`: sessions can be resumed by tickets.
    public var givesTickets = true
    /// `martlet_tls_ticket_lifetime`, in seconds.
    public var ticketSeconds = 7200
    /// `martlet_tls_ticket_key_file`: the keys of tickets that nodes share.
    public var ticketKeyFiles: [String] = []
    /// `martlet_ocsp_file`: the authority's answer about the certificate.
    public var statusFile: String?
    /// `martlet_tls_groups`: the groups of the key exchange, in OpenSSL's notation.
    public var groups: String?
    /// `disable_client_cert_date_checks`.
    public var ignoresCertificateDates = false
    /// `psk_hint`: pre-shared keys are used, and this is the hint for the clients.
    public var preSharedKeyHint: String?

    public init() {}

    public var isEnabled: Bool {
        (certificateFile != nil && keyFile != nil) || preSharedKeyHint != nil
    }
}

/// A version of TLS that may be the lowest of a listener.
public enum TLSVersion: String, Sendable, Equatable, CaseIterable {
    case tls1_2 = "tlsv1.2"
    case tls1_3 = "tlsv1.3"
}

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
    /// `plugin` with its `plugin_opt_*`, in the order of the file. The password and access files of mosquitto's plugins
    /// for them are already in `passwordFile` and `accessControlFile`.
    public var plugins: [PluginConfiguration] = []
    /// `auth_plugin_deny_special_chars`: `+` and `#` in a user name or client identifier deny every access that a
    /// plugin decides.
    public var deniesSpecialCharacters = true
    /// `martlet_acl_check_subscribe`: a SUBSCRIBE to what the client may never read is refused, not only the
    /// deliveries.
    public var checksAccessOnSubscribe = false

    /// Who is asked about logins besides those files.
    public var logins = LoginConfiguration()

    /// `martlet_jwt_*` and `martlet_introspection_*`: logins by tokens.
    public var tokens = TokenConfiguration()

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

/// One `plugin` line and the `plugin_opt_*` lines after it.
public struct PluginConfiguration: Sendable, Equatable {
    public var plugin: BuiltInPlugin
    /// NAME to value of `plugin_opt_NAME`.
    public var options: [String: String] = [:]

    public init(plugin: BuiltInPlugin) {
        self.plugin = plugin
    }
}

/// A plug-in of mosquitto that Martlet has built in. Its library is never loaded; the file's name tells which one is
/// meant.
public enum BuiltInPlugin: String, Sendable, Equatable, CaseIterable {
    case dynamicSecurity = "mosquitto_dynamic_security"
    case passwordFile = "mosquitto_password_file"
    case accessControlFile = "mosquitto_acl_file"
    case persistSQLite = "mosquitto_persist_sqlite"
    case sparkplugAware = "mosquitto_sparkplug_aware"
    /// mosquitto-go-auth, under whatever name it is installed.
    case goAuth = "go-auth"

    /// Whether this version of Martlet has it. A configuration that uses one it has not is refused.
    public var isAvailable: Bool {
        switch self {
        case .dynamicSecurity, .passwordFile, .accessControlFile, .persistSQLite, .goAuth: true
        case .sparkplugAware: false
        }
    }

    /// The plug-in that the library at `path` holds, or nil if it is none of mosquitto's own.
    public init?(path: String) {
        let fileName = path.split(separator: "/").last.map(String.init) ?? path
        if fileName.lowercased().holds("go-auth") {
            self = .goAuth
            return
        }
        self.init(rawValue: fileName.hasSuffix(".so") ? String(fileName.dropLast(3)) : fileName)
    }
}

/// What the broker offers its clients and how it treats their messages.
public struct MessagingConfiguration: Sendable, Equatable {
    /// `retain_available`: without it a retained PUBLISH is refused.
    public var isRetainAvailable = true
    /// `martlet_shared_subscriptions`: `$share/GROUP/FILTER` is offered.
    public var areSharedSubscriptionsAvailable = true
    /// `martlet_wildcard_subscriptions`: filters with `+` and `#` are offered.
    public var areWildcardSubscriptionsAvailable = true
    /// `martlet_subscription_identifiers`: subscription identifiers are offered.
    public var areSubscriptionIdentifiersAvailable = true
    /// `martlet_reason_strings`: refusals carry the reason in words.
    public var sendsReasonStrings = true
    /// `martlet_validate_payload_format`: a payload that says it is UTF-8 is checked.
    public var validatesPayloadFormat = false
    /// `allow_duplicate_messages`: a client whose subscriptions overlap gets a message once for each of them.
    public var allowsDuplicateMessages = true
    /// `upgrade_outgoing_qos`: a message leaves with the subscription's QoS even when it was published with a lower
    /// one.
    public var upgradesOutgoingQoS = false
    /// `queue_qos0_messages`: QoS 0 messages wait for absent clients too.
    public var queuesQoS0Messages = false
    /// `check_retain_source`: a retained message is delivered only while its publisher may still write to its topic.
    public var checksRetainSource = true
    /// `retain_expiry_interval`: the period in which expired retained messages are removed; nil leaves it to the
    /// broker.
    public var retainExpirySweepMinutes: Int?
    /// `martlet_queue_drop`: what happens to a message when its receiver's queue is full.
    public var queueDropPolicy = QueueDropPolicy.newest
    /// `martlet_wills_at_stop`: wills are published of MQTT 5.0 clients that are told that the broker goes.
    public var publishesWillsAtStop = true
    /// `martlet_session_owner`: what becomes of a session when another user connects with its client identifier.
    public var foreignSessionPolicy = ForeignSessionPolicy.discard
    /// `martlet_presence_events`: what is published of clients below `$SYS/brokers/`.
    public var presenceEvents = PresenceEvents.none

    public init() {}
}

/// The events of clients that are published below `$SYS/brokers/`.
public enum PresenceEvents: String, Sendable, Equatable, CaseIterable {
    case none
    /// Events of clients that come and go.
    case connections
    /// Subscriptions and refused clients too.
    case all
}

/// What gives way when a client's queue is full.
public enum QueueDropPolicy: String, Sendable, Equatable, CaseIterable {
    /// The message that arrives, as mosquitto does.
    case newest
    /// The message that has waited longest.
    case oldest
    /// Nothing: the publisher's QoS 1 or 2 message is refused with "quota exceeded".
    case refuse
}
