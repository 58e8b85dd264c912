public import MQTTCodec

/// The limits and choices of a broker, each with its unit and its default: mosquitto's where mosquitto has one.
public struct BrokerSettings: Sendable {
    /// The listeners' own policies, by `ConnectionInfo.listener`. At least one; a running broker's become more, and
    /// none of them moves.
    public var listeners: [ListenerPolicy] = [ListenerPolicy()]

    /// The largest packet accepted, in bytes, fixed header included. `max_packet_size`
    public var packetBytesMax = 2_000_000
    /// A packet cannot be larger than its length field says: 256 MiB and the header. As a limit it is none, and nobody
    /// is told of it.
    public static let packetBytesLargest = 268_435_460
    /// The largest CONNECT accepted, in bytes without the Will Payload; a larger one ends the connection, as soon as it
    /// says that it is. `martlet_max_connect_size`
    public var connectBytesMax = 64 * 1024
    /// How many bytes all connections together may hold that are not logged in; beyond that the largest of them end.
    /// Each shard gets an equal part. 0 for no limit. `martlet_max_connecting_bytes`
    public var connectingBytesMax = 64 << 20
    /// The largest payload accepted, in bytes; 0 for no limit of its own. `message_size_limit`
    public var payloadBytesMax = 0
    /// How many QoS 1 and 2 messages may be in flight to a client, and from one that heeds Receive Maximum; 0 for no
    /// limit. `max_inflight_messages`
    public var inFlightMessagesMax = 20
    /// The bytes of those to a client, topics and properties included, from which on no more are sent; 0 for no limit.
    /// `max_inflight_bytes`
    public var inFlightBytesMax = 0
    /// How many messages wait for a client; 0 for no limit. `max_queued_messages`
    public var queuedMessagesMax = 1000
    /// The bytes of those, topics and properties included, from which on no more are queued; 0 for no limit.
    /// `max_queued_bytes`
    public var queuedBytesMax = 0
    /// Whether QoS 0 messages wait for a client that is away. `queue_qos0_messages`
    public var queuesQoS0 = false
    /// Whether subscribers get messages at the subscription's QoS even when published lower. `upgrade_outgoing_qos`
    public var upgradesOutgoingQoS = false
    /// The bytes that may wait in one connection's output before QoS 0 messages to it are dropped.
    /// `martlet_output_bytes_max`
    public var outputBytesMax = 64 << 20
    /// The longest Keep Alive accepted, in seconds; 0 for no limit. `max_keepalive`
    public var keepAliveSecondsMax: UInt16 = 0
    /// Whether that holds for 3.1 and 3.1.1 too, whose clients cannot be told another one and are refused. mosquitto
    /// 2.0 let them be. `martlet_compat`
    public var boundsEarlierKeepAlives = true
    /// The longest that a session outlives its connection, in seconds; `UInt32.max` for no limit.
    /// `persistent_client_expiration`
    public var sessionExpirySecondsMax = UInt32.max
    /// How long a connection may take until its CONNECT is complete, in milliseconds. `martlet_connect_timeout`
    public var connectTimeoutMilliseconds: UInt64 = 30_000
    /// How long a closing connection may take to drain its output, in milliseconds.
    public var lingerMilliseconds: UInt64 = 5_000
    /// Whether wills are published of 5.0 clients that are told that the broker goes, or is drained.
    /// `martlet_wills_at_stop`
    public var publishesWillsAtStop = true
    /// The most levels of a topic. `martlet_max_topic_levels`
    public var topicLevelsMax = 201
    /// The most bytes of a topic. `martlet_max_topic_length`
    public var topicBytesMax = 65_535
    /// The most subscriptions of a client; 0 for no limit. `martlet_max_subscriptions_per_client`
    public var subscriptionsPerClientMax = 10_000
    /// What each user may have at once, on all shards together.
    public var userBounds = UserBoundSettings()
    /// The most sessions of all shards together, connected or not; nil for no limit. `global_max_clients`
    public var sessionsMax: Int?
    /// The most connections; nil for no limit. Kept by the shell, which accepts them. `global_max_connections`
    public var connectionsMax: Int?
    /// How many connections a network may open in a second; nil for no limit. Kept by the shell too.
    /// `martlet_max_connections_per_second_per_address`
    public var connectionsPerSecondPerAddressMax: Int?
    /// How many connections may come in a second, on all listeners; nil for no limit. Kept by the shell too.
    /// `martlet_max_connections_per_second`
    public var connectionsPerSecondMax: Int?
    /// How many connections a network may have at a time, IPv4 by the address, IPv6 by its first 64 bits; nil for no
    /// limit. Kept by the shell too. `martlet_max_connections_per_address`
    public var connectionsPerAddressMax: Int?
    /// How many a larger network may have; nil for no limit. Kept by the shell too.
    /// `martlet_max_connections_per_network`
    public var connectionsPerNetwork: NetworkConnectionBound?
    /// How many TLS handshakes there may be at a time; nil for no limit. Kept by the shell too, where each loop has an
    /// equal part. `martlet_max_handshakes`
    public var handshakesMax: Int?
    /// How many messages wait for a client in memory, at least 1: those behind are left to the store, where there is
    /// one, and read when their turn comes near. `martlet_queue_messages_in_memory`
    public var residentMessagesMax = 256
    /// How many bytes they may have, at least 1; the last one may go beyond. `martlet_queue_bytes_in_memory`
    public var residentBytesMax = 1_000_000
    /// What gives way when a client's queue is full. `martlet_queue_drop`
    public var queueOverflow = QueueOverflow.dropsNewest
    /// The queues that have bounds of their own in place of these, by Client Identifier: those of bridges.
    /// `martlet_bridge_max_queued_messages`, `martlet_bridge_max_queued_bytes`, `martlet_bridge_queue_drop`
    public var ownQueueBounds: [EncodedString: QueueBound] = [:]
    /// The clients that divide topics among them, by Client Identifier: those of bridges with several connections. A
    /// session keeps its part until it ends. `martlet_bridge_connections`
    public var topicParts: [EncodedString: TopicPart] = [:]
    /// The topics in which the broker tells of bridges of its own: nobody else publishes there.
    public var ownBridgeStates: Set<[UInt8]> = []
    /// How many PUBLISH packets a client may send in a second; 0 for no limit. `martlet_max_messages_per_second`
    public var messagesPerSecondMax = 0
    /// How many bytes a client may send in a second; 0 for no limit. `martlet_max_bytes_per_second`
    public var bytesPerSecondMax = 0
    /// How many bytes the broker keeps for its clients before it refuses more: messages, sessions, subscriptions,
    /// packets that have come in part, and output; 0 for no limit. One bound for all shards. `memory_limit`
    public var keptBytesMax = 0
    /// Whether the store is given changes as they come, or only when the shell says `save`. `martlet_durability`
    public var storesAtOnce = true
    /// How many bytes may wait for the store before messages that must be kept are refused. Each shard gets an equal
    /// part.
    public var unstoredBytesMax = 256 << 20
    /// `retain_available`
    public var retainAvailable = true
    /// Minutes between two sweeps for retained messages that have expired, which else go when they are met; 0 for none.
    /// `retain_expiry_interval`
    public var retainedSweepMinutes: UInt32 = 0
    /// Whether a retained message is handed out only while its publisher may still write to its topic.
    /// `check_retain_source`
    public var checksRetainSource = true
    /// `martlet_wildcard_subscriptions`
    public var wildcardSubscriptionAvailable = true
    /// `martlet_subscription_identifiers`
    public var subscriptionIdentifiersAvailable = true
    /// `martlet_shared_subscriptions`
    public var sharedSubscriptionAvailable = true
    /// Whether a client that is refused something is told why in words. `martlet_reason_strings`
    public var sendsReasonStrings = true
    /// Whether a payload marked as UTF-8 is checked. `martlet_validate_payload_format`
    public var validatesPayloadFormat = false
    /// What becomes of a session when another user connects with its Client Identifier. `martlet_session_owner`
    public var foreignSession = ForeignSession.discards
    /// What `$SYS/broker/version` says.
    public var versionText = "martlet"
    /// Seconds between two publications below `$SYS`; 0 for none. `sys_interval`
    public var systemIntervalSeconds: UInt32 = 10
    /// What the shell's clock lacks of the milliseconds since 1970: `$SYS` is published when the wall clock shows a
    /// multiple of its interval.
    public var wallClockOffsetMilliseconds: UInt64 = 0
    /// The prefix of Response Information given to clients that ask for it; nil for none.
    public var responseInformationPrefix: EncodedString? = "response/"
    /// The Authentication Methods that the shell can carry out.
    public var authenticationMethods: [EncodedString] = []
    /// The topics of log lines that are written.
    public var logTopics: LogTopics = .standard
    /// Whether the coming and going of connections is logged. `connection_messages`
    public var logsConnections = true
    /// Whether the coming and going of clients is told as `Effect.presence`.
    public var tellsPresence = false
    /// Which of it is published below `$SYS/brokers/`. `martlet_presence_events`
    public var presenceTopics = PresenceTopics.none
    /// Whether a node of a cluster refuses new clients while that cannot be reached. `martlet_cluster_detached`
    public var refusesWithoutCluster = true
    /// What the broker is called there: one level of a topic. `martlet_node_name`
    public var nodeName = "martlet"
    /// What a bridge that says what its own broker is called is answered in CONNACK: another name than any other
    /// broker's, so that no message goes where it has been; nil for nothing. Bridges of this broker put it into the
    /// messages that they carry.
    public var brokerIdentifier: EncodedString?
    /// The topics below `$CONTROL/` at which somebody answers what is published there, as `Effect.control`.
    public var controlEndpoints: Set<TopicName> = []
    /// What becomes of clients that do not take what they are sent; nil for nothing. `martlet_slow_client`
    public var slowClients: SlowClientPolicy?
    /// Whether failed logins are told of as `Effect.offence`. `martlet_ban_after`
    public var countsFailedLogins = false
    /// How often a client's connections may end before it is told of as `Effect.offence`; nil for any number.
    /// `martlet_flapping`
    public var flapping: BanRule?

    public init() {}

    /// What the broker's own clients may do, and those of them that go by a user's access rules.
    @usableFromInline package private(set) var own = ListenerPolicy.own
    @usableFromInline package private(set) var ownUsers = ListenerPolicy.ownUsers(rules: nil)

    /// What stands for a listener in `ConnectionInfo.listener` of the broker's own clients.
    @inlinable public static var ownListener: Int { -1 }

    /// The listener's number of the broker's own clients that go by a user's access rules.
    package static let ownUsersListener = -2

    /// What holds for clients of a listener, or for the broker's own.
    @inlinable @inline(__always)
    public func policy(of listener: Int) -> ListenerPolicy {
        if listener >= 0 { return listeners[listener] }
        return listener == Self.ownListener ? own : ownUsers
    }

    /// These settings with policies for the broker's own clients.
    package func withOwnPolicies() -> BrokerSettings {
        var settings = self
        settings.ownUsers = .ownUsers(rules: settings.listeners.lazy.compactMap(\.accessControl).first)
        return settings
    }
}

/// How many a user may have at once; nil for any number. Of clients without a user name nothing is counted.
public struct UserBoundSettings: Hashable, Sendable {
    /// `martlet_max_connections_per_user`
    public var connectionsMax: Int?
    /// Connected or not. `martlet_max_sessions_per_user`
    public var sessionsMax: Int?
    /// Of all of the user's sessions together. `martlet_max_subscriptions_per_user`
    public var subscriptionsMax: Int?

    public init() {}

    package var isEmpty: Bool { connectionsMax == nil && sessionsMax == nil && subscriptionsMax == nil }
}

/// How many connections one network may have at a time, and how many bits of an address are its network's.
public struct NetworkConnectionBound: Hashable, Sendable {
    public var count: Int
    public var ipv4Bits: Int
    public var ipv6Bits: Int

    public init(count: Int, ipv4Bits: Int, ipv6Bits: Int) {
        (self.count, self.ipv4Bits, self.ipv6Bits) = (count, ipv4Bits, ipv6Bits)
    }
}

/// How much waits for a client, and what gives way beyond that.
public struct QueueBound: Hashable, Sendable {
    /// 0 for no limit.
    public var messagesMax: Int
    /// The bytes of those, topics and properties included, from which on no more are queued; 0 for no limit.
    public var bytesMax: Int
    public var overflow: QueueOverflow

    public init(messagesMax: Int, bytesMax: Int, overflow: QueueOverflow) {
        (self.messagesMax, self.bytesMax, self.overflow) = (messagesMax, bytesMax, overflow)
    }
}

extension BrokerSettings {
    /// The bound of queues that have none of their own.
    public var queueBound: QueueBound {
        QueueBound(messagesMax: queuedMessagesMax, bytesMax: queuedBytesMax, overflow: queueOverflow)
    }

    /// Whether publishers may be refused because of somebody's queue.
    package var mayRefusePublishers: Bool {
        queueOverflow == .refusesPublisher || ownQueueBounds.values.contains { $0.overflow == .refusesPublisher }
    }
}

/// What gives way when a message comes for a client whose queue is full.
public enum QueueOverflow: Sendable {
    /// The message that comes, as mosquitto does.
    case dropsNewest
    /// The message that has waited longest.
    case dropsOldest
    /// Nothing: the publisher is refused with Quota exceeded, before anybody gets the message. What it was not refused
    /// is queued by all.
    case refusesPublisher
}

/// What becomes of clients that do not take what they are sent. `martlet_slow_client`
public struct SlowClientPolicy: Hashable, Sendable {
    /// Whether such a client's connection ends; else it is only told of.
    public var disconnects: Bool
    /// How long its oldest message may have waited, in milliseconds.
    public var milliseconds: UInt64

    public init(disconnects: Bool, milliseconds: UInt64) {
        (self.disconnects, self.milliseconds) = (disconnects, milliseconds)
    }
}

/// What a log line is about: mosquitto's `log_type` values.
public struct LogTopics: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let debug = LogTopics(rawValue: 1)
    public static let error = LogTopics(rawValue: 2)
    public static let warning = LogTopics(rawValue: 4)
    public static let notice = LogTopics(rawValue: 8)
    public static let information = LogTopics(rawValue: 16)
    public static let subscribe = LogTopics(rawValue: 32)
    public static let unsubscribe = LogTopics(rawValue: 64)
    public static let internalEvents = LogTopics(rawValue: 128)
    public static let webSockets = LogTopics(rawValue: 256)

    /// The topics that are logged when nothing is configured.
    public static let standard: LogTopics = [.error, .warning, .notice, .information]
    public static let all: LogTopics = [
        .debug, .error, .warning, .notice, .information, .subscribe, .unsubscribe, .internalEvents, .webSockets,
    ]
}

/// What a listener allows the clients that came through it.
public struct ListenerPolicy: Sendable {
    /// What the configuration calls it, the same as long as it listens at the same place; each listener has another
    /// one.
    public var name = ""
    /// The port as the log names it.
    public var port: UInt16 = 1883
    /// Whether clients may connect without a user name. `allow_anonymous`
    public var allowsAnonymous = true
    /// Whether user names and passwords are checked; without a check any are accepted.
    public var checksPasswords = false
    /// What measurements call whatever checks them.
    public var passwordBackend = "password_file"
    /// Whether logins may bring rules along, see `LoginGrant`.
    public var takesRulesFromLogins = false
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
    /// How many connections may come in a second; nil for no limit. Kept by the shell too.
    /// `martlet_max_connections_per_second`
    public var connectionsPerSecondMax: Int?
    /// What Client Identifiers must begin with; nil for anything. `clientid_prefixes`
    public var clientIdentifierPrefix: String?
    /// What Client Identifiers must begin with, in which `%u` stands for the user name; empty for anything.
    /// `martlet_clientid_prefix`
    public var userIdentifierPrefix = ""
    /// What stands before every topic of these clients inside the broker, and never on their wire; empty for nothing.
    /// `mount_point`
    public var mountPoint = MountPoint()
    /// `use_identity_as_username`, `use_subject_as_username`, `martlet_certificate_username`
    public var userNameSource = UserNameSource.login
    /// Whether what a client gives as its user name may be a token that looks like nothing, and is shown to nobody
    /// until the login says who the user is. `martlet_jwt_from username` with `martlet_introspection_url`
    public var hidesUserNames = false
    /// Whether the Client Identifier has to be what the certificate says. `martlet_certificate_clientid`
    public var takesIdentifierFromCertificate = false
    /// Whether the user that a certificate names has to give a password too. `martlet_certificate_and_login`
    public var requiresPasswordToo = false
    /// The users that a certificate may name; nil for any. `martlet_certificate_known_user`
    public var knownUsers: (any UserDirectory)?
    /// The access rules, which say who may read and write which topics; nil when everybody may everything. `acl_file`
    public var accessControl: AccessControl?
    /// Whether acknowledgements wait until what they stand for is durable, while there is a store. `martlet_durability`
    public var holdsAcknowledgements = true
    /// Whether SUBSCRIBE is refused where no delivery would be allowed. `martlet_acl_check_subscribe`
    public var checksAccessOnSubscribe = false

    /// Whether it lets nobody in any more: the configuration does not name it any longer. It keeps its place among the
    /// listeners, by which sessions and their messages know where they came from; what its rules were is known no more.
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
    /// The name of that certificate that the listener asks for: `CertificateClaims.userName`.
    case certificate

    /// The user name that the transport vouches for; nil where it knows none, and of a login.
    package func name(in info: ConnectionInfo) -> EncodedString? {
        switch self {
        case .login: nil
        case .identity: (info.certificateCommonName ?? info.preSharedKeyIdentity).flatMap { EncodedString($0) }
        case .subject: info.certificateSubject.flatMap { EncodedString($0) }
        case .certificate: info.certificateClaims.userName.flatMap { EncodedString($0) }
        }
    }
}

/// Knows which users there are. For any thread; answers at once.
public protocol UserDirectory: Sendable {
    /// Whether there is a user of that name who may come in.
    func isKnown(_ userName: EncodedString) -> Bool
}

/// What becomes of a session when somebody connects with its Client Identifier who is not its owner: a session belongs
/// to its user name and its listener's mount point.
public enum ForeignSession: Sendable {
    /// It ends, as with Clean Start, and the newcomer gets one of its own.
    case discards
    /// It stays as it is, and so does its connection; the newcomer is refused.
    case refusesNewcomer
}

/// What a line of the log is about, one by one: for logs that programs read.
public final class LogFields: Sendable {
    /// The Client Identifier, as the log shows it.
    public let client: String?
    public let user: String?
    /// The peer's address, without its port.
    public let address: String?
    public let topic: String?
    /// Why something was refused or has ended.
    public let reason: String?

    /// The fields of a line; nil for those that it has not.
    public init(
        client: String? = nil, user: String? = nil, address: String? = nil, topic: String? = nil, reason: String? = nil
    ) {
        self.client = client
        self.user = user
        self.address = address
        self.topic = topic
        self.reason = reason
    }
}
