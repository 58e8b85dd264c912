public import MQTTCodec

/// What a listener allows the clients that came through it.
public struct ListenerPolicy: Sendable {
    /// What the configuration calls it, the same as long as it listens at the same place; each listener has another one.
    public var name = ""
    /// The port as the log names it.
    public var port: UInt16 = 1883
    /// Whether clients may connect without a user name. `allow_anonymous`
    public var allowsAnonymous = true
    /// Whether user names and passwords are checked; without a check any are accepted.
    public var checksPasswords = false
    /// What measurements call whatever checks them.
    public var passwordBackend = "password_file"
    /// `max_qos`
    public var maximumQoS = QoS.exactlyOnce
    /// How many Topic Aliases a client may set. `max_topic_alias`
    public var topicAliasMaximum: UInt16 = 10
    /// How many Topic Aliases the broker sets towards a client. `max_topic_alias_broker`
    public var sentTopicAliasMaximum: UInt16 = 10
    /// `accept_protocol_versions`
    public var versions: Set<ProtocolVersion> = [.v31, .v311, .v5]
    /// Goes before the identifiers that the broker assigns. `listener_auto_id_prefix`
    public var assignedIdentifierPrefix = "auto-"
    /// Whether a client without an identifier is given one. `allow_zero_length_clientid`
    public var allowsEmptyClientIdentifier = true
    /// `use_username_as_clientid`
    public var usesUserNameAsClientIdentifier = false
    /// The most connections; nil for no limit. Kept by the shell, which accepts them. `max_connections`
    public var connectionsMax: Int?
    /// What Client Identifiers must begin with; nil for anything. `clientid_prefixes`
    public var clientIdentifierPrefix: String?
    /// What stands before every topic of these clients inside the broker, and never on their wire; empty for nothing. `mount_point`
    public var mountPoint: [UInt8] = []
    /// `use_identity_as_username`, `use_subject_as_username`
    public var userNameSource = UserNameSource.login
    /// The access rules, which say who may read and write which topics; nil when everybody may everything. `acl_file`
    public var accessControl: AccessControl?
    /// Whether acknowledgements wait until what they stand for is durable, while there is a store. `martlet_durability`
    public var holdsAcknowledgements = true
    /// Whether SUBSCRIBE is refused where no delivery would be allowed. `martlet_acl_check_subscribe`
    public var checksAccessOnSubscribe = false

    /// Whether it lets nobody in any more: the configuration does not name it any longer. It keeps its place among the listeners, by which
    /// sessions and their messages know where they came from; what its rules were is known no more.
    public var isClosed = false

    /// Whether it is none, but stands for the clients that are the broker's own.
    package private(set) var isOwn = false

    public init() {}

    /// What the broker's own clients may do: everything.
    package static var own: ListenerPolicy {
        var policy = ListenerPolicy()
        policy.name = "the broker itself"
        policy.isOwn = true
        return policy
    }

    /// What those of them may do that go by a user's rules.
    package static func ownUsers(rules: AccessControl?) -> ListenerPolicy {
        var policy = own
        policy.name = "a user inside the broker"
        policy.accessControl = rules
        return policy
    }
}

extension StoredListener {
    /// Its place among the listeners that there are; nil when it is not there any more.
    package func index(among settings: BrokerSettings) -> Int? {
        switch self {
        case .place(let place): settings.listeners.indices.contains(Int(place)) ? Int(place) : nil
        case .name(settings.own.name): BrokerSettings.ownListener
        case .name(settings.ownUsers.name): BrokerSettings.ownUsersListener
        case .name(let name): settings.listeners.firstIndex { $0.name == name && !$0.isClosed }
        }
    }
}

/// Where the clients of a listener have their user names from.
public enum UserNameSource: Sendable {
    /// CONNECT, and whatever checks it.
    case login
    /// The common name in the certificate, or the identity of the pre-shared key, that the transport has verified.
    case identity
    /// The whole subject of that certificate.
    case subject
}

/// What becomes of a session when somebody connects with its Client Identifier who is not its owner: a session belongs to its user name and
/// its listener's mount point.
public enum ForeignSession: Sendable {
    /// It ends, as with Clean Start, and the newcomer gets one of its own.
    case discards
    /// It stays as it is, and so does its connection; the newcomer is refused.
    case refusesNewcomer
}
