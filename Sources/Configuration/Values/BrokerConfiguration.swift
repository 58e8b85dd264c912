/// Everything that an operator can tell the broker, as typed values: what the configuration file says, completed with
/// the defaults of mosquitto 2.1 where it is silent.
///
/// A plain value: made once by `ConfigurationReader` (or `default(ports:)`), then only read. Maxima of type `Int?` mean
/// "no limit" when they are nil. `listeners` is complete: each one carries the security settings that hold for it,
/// whether they were written globally or for it alone, so that nobody but the reader needs to know of
/// `per_listener_settings`.
public struct BrokerConfiguration: Sendable, Equatable {
    public var general = GeneralConfiguration()
    public var messaging = MessagingConfiguration()
    public var limits = LimitsConfiguration()
    public var persistence = PersistenceConfiguration()
    public var logging = LoggingConfiguration()
    public var administration = AdministrationConfiguration()
    public var cluster = ClusterConfiguration()
    /// The settings that hold for every listener which has none of its own.
    public var security = SecurityConfiguration()
    public var listeners: [ListenerConfiguration] = []
    public var bridges: [BridgeConfiguration] = []

    public init() {}

    /// The listeners that let somebody in.
    public var openListeners: [ListenerConfiguration] { listeners.filter { !$0.isClosed } }

    /// What the broker does without a configuration file: it listens on the loopback addresses only, on `ports` (or on
    /// 1883 when there are none), and lets anonymous clients in.
    public static func `default`(ports: [UInt16] = []) -> BrokerConfiguration {
        var configuration = BrokerConfiguration()
        configuration.security.allowsAnonymous = true
        configuration.listeners = loopbackListeners(ports: ports, security: configuration.security)
        return configuration
    }

    /// Adds what a broker without a configuration file has for those who watch it: HTTP on the loopback addresses, as
    /// mosquitto does.
    public mutating func addLocalAdministration() {
        var listener = ListenerConfiguration(endpoint: .loopback(port: Self.administrationPort))
        listener.application = .httpAPI
        listener.isDispensable = true
        listener.security = security
        listeners.append(listener)
    }

    /// The listeners of a broker that was told of none: one for each port on the loopback addresses.
    static func loopbackListeners(ports: [UInt16], security: SecurityConfiguration) -> [ListenerConfiguration] {
        (ports.isEmpty ? [defaultPort] : ports).map { port in
            var listener = ListenerConfiguration(endpoint: .loopback(port: port))
            listener.security = security
            return listener
        }
    }

    /// mosquitto's for HTTP.
    public static let administrationPort: UInt16 = 9883

    /// The port that IANA registered for MQTT.
    public static let defaultPort: UInt16 = 1883
}

extension BrokerConfiguration {
    /// The strictest of the listeners' promises: it says when the store is given what has changed, since all of it has
    /// one order.
    public var strictestDurability: Durability {
        var shortest: Int?
        for listener in listeners {
            switch listener.durability {
            case .commit: return .commit
            case .interval(let seconds): shortest = min(shortest ?? seconds, seconds)
            case .none: continue
            }
        }
        return shortest.map { .interval(seconds: $0) } ?? .none
    }
}

/// What concerns the broker's process rather than its clients.
public struct GeneralConfiguration: Sendable, Equatable {
    /// `martlet_threads`: how many event loops run; nil chooses by the cores that the broker may use.
    public var threads: Int?
    /// `martlet_compat`: whose defaults count where the versions of mosquitto differ.
    public var compatibility = MosquittoCompatibility.version2_1
    /// `martlet_profile`: a set of values that counts where the file is silent; nil is none.
    public var profile: ConfigurationProfile?
    /// `martlet_expand_environment`: `${NAME}` inside a value of the file stands for the environment's NAME.
    public var expandsEnvironment = false
    /// `user`: whom the broker becomes after it has opened its ports as root.
    public var userName = "mosquitto"
    /// `pid_file`: where the process identifier is written.
    public var processIdentifierFile: String?
    /// `sys_interval`: the period of the `$SYS` topics; nil switches them off.
    public var systemTopicIntervalSeconds: Int? = 10
    /// `enable_control_api`: the broker answers on `$CONTROL/broker/v1`.
    public var enablesControlAPI = false
    /// `set_tcp_nodelay`: Nagle's algorithm is off on the clients' connections, whatever this says.
    public var disablesTCPDelay = true
    /// `martlet_connect_timeout`: how long a connection may take until its CONNECT is complete.
    public var connectTimeoutSeconds = 30
    /// `martlet_node_name`: what the broker is called below `$SYS/brokers/`; nil for the host's name.
    public var nodeName: String?
    /// `packet_buffer_size`: how many bytes the header of a WebSocket's HTTP request may have.
    public var webSocketHeaderBytesMax = 4096

    /// The files that secrets were read from.
    public var secretFiles: [SecretFile] = []

    public init() {}
}

/// The version of mosquitto whose defaults are taken.
public enum MosquittoCompatibility: String, Sendable, Equatable, CaseIterable {
    case version2_0 = "2.0"
    case version2_1 = "2.1"
}

/// The settings that say who may see and steer the broker over HTTP, and how far.
public struct AdministrationConfiguration: Sendable, Equatable {
    /// `martlet_http_user`: what users may do, by their names.
    public var users: [String: HTTPRole] = [:]
    /// `martlet_http_token_file`: the tokens of programs; nil is none.
    public var tokenFile: String?
    /// `martlet_http_host`: the names by which requests may call this machine, besides those of loopback.
    public var hosts: [String] = []
    /// `martlet_http_origin`: the origins whose pages may use the API.
    public var origins: [String] = []
    /// `martlet_http_payloads`: who may see the payloads of messages.
    public var payloads = PayloadRight.admin
    /// `martlet_metrics_anonymous`: whether measurements are for everybody.
    public var areMetricsAnonymous = false
    /// `martlet_audit_log`: the file that says who has changed what; nil is the log.
    public var auditFile: String?

    public init() {}
}

/// What a user may do over HTTP.
public enum HTTPRole: String, Sendable, Equatable, CaseIterable {
    /// See.
    case viewer
    /// See and change.
    case admin
}

/// The roles that may see the payloads of messages.
public enum PayloadRight: String, Sendable, Equatable, CaseIterable {
    case none
    case admin
    case viewer
}

/// The settings of logging: what is logged, how, and where to.
public struct LoggingConfiguration: Sendable, Equatable {
    /// `log_dest`, each once, in the order of the file. Empty: nothing is logged.
    public var destinations: [LogDestination] = [.standardError]
    /// `log_type`.
    public var types: LogTypes = .standard
    /// `connection_messages`: connects and disconnects are logged.
    public var logsConnections = true
    /// `log_timestamp`.
    public var hasTimestamp = true
    /// `log_timestamp_format`, as of strftime; nil is seconds since 1970.
    public var timestampFormat: String?
    /// `log_facility`: N of syslog's LOCALN; nil is DAEMON.
    public var syslogLocalFacility: Int?
    /// `martlet_log_format`.
    public var format = LogFormat.text

    public init() {}
}

/// A place that log lines go to.
public enum LogDestination: Sendable, Hashable {
    case standardOutput
    case standardError
    case syslog
    /// Messages below `$SYS/broker/log`.
    case topic
    case file(path: String)
}

/// The shape of a log line.
public enum LogFormat: String, Sendable, Equatable, CaseIterable {
    case text
    case json
}

/// A set of kinds of log lines.
public struct LogTypes: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    public static let error = LogTypes(rawValue: 1 << 0)
    public static let warning = LogTypes(rawValue: 1 << 1)
    public static let notice = LogTypes(rawValue: 1 << 2)
    public static let information = LogTypes(rawValue: 1 << 3)
    public static let debug = LogTypes(rawValue: 1 << 4)
    public static let subscribe = LogTypes(rawValue: 1 << 5)
    public static let unsubscribe = LogTypes(rawValue: 1 << 6)
    public static let webSockets = LogTypes(rawValue: 1 << 7)
    public static let `internal` = LogTypes(rawValue: 1 << 8)

    /// The types that are logged when the file names no `log_type`.
    public static let standard: LogTypes = [.error, .warning, .notice, .information]
    public static let all = LogTypes(rawValue: (1 << 9) - 1)
}

/// A set of values for a place that a broker runs in, which one line of the file asks for.
///
/// A profile is a list of lines. Each counts as if it stood in the file, unless the file has a line of its own with
/// that option: above or below the profile's line, or in a file that is included.
public enum ConfigurationProfile: String, Sendable, Equatable, CaseIterable {
    /// Strangers reach the broker: whatever one of them could make grow, or do often, has a bound.
    case internet

    /// The lines that it stands for, each an option of the whole broker with its value, in the order of the example
    /// file.
    public var lines: [(name: String, value: String)] {
        switch self {
        case .internet:
            [
                // The whole broker.
                ("global_max_clients", "50000"),
                ("global_max_connections", "20000"),
                ("memory_limit", "2000000000"),
                // One packet.
                ("max_packet_size", "262144"),
                ("martlet_max_topic_levels", "20"),
                ("martlet_max_topic_length", "1024"),
                // One client.
                ("max_inflight_bytes", "1000000"),
                ("max_queued_messages", "1000"),
                ("max_queued_bytes", "4000000"),
                ("martlet_max_subscriptions_per_client", "100"),
                ("martlet_output_bytes_max", "4000000"),
                ("martlet_max_messages_per_second", "1000"),
                ("martlet_max_bytes_per_second", "4000000"),
                ("martlet_max_connections_per_second_per_address", "50"),
                // Time.
                ("max_keepalive", "1200"),
                ("persistent_client_expiration", "14d"),
                ("martlet_max_session_expiry_interval", "1209600"),
                ("martlet_connect_timeout", "10"),
                // The disk.
                ("martlet_store_bytes_max", "4000000000"),
            ]
        }
    }
}

/// The cluster that the broker is a node of.
public struct ClusterConfiguration: Sendable, Equatable {
    /// `martlet_cluster_servers`: the addresses of NATS servers; empty on a broker that is alone.
    public var servers: [String] = []
    /// `martlet_cluster_name`: what all its nodes call it.
    public var name: String?
    /// `martlet_node_address`: where clients reach this node, `HOST` or `HOST:PORT`.
    public var nodeAddress: String?
    /// `martlet_cluster_user`, `martlet_cluster_password`: the login at the servers.
    public var userName: String?
    public var password: String?
    /// `martlet_cluster_token`: instead of a user.
    public var token: String?
    /// `martlet_cluster_nkey_file`: instead of both, a file with the seed of a user's key.
    public var keyFile: String?
    /// `martlet_cluster_tls`: whether TLS is used even with servers that do not ask for it.
    public var requiresTLS = false
    /// `martlet_cluster_cafile`: whose certificates servers may show; nil for the system's own.
    public var authoritiesFile: String?
    /// `martlet_cluster_certfile`, `martlet_cluster_keyfile`: the node's own certificate.
    public var certificateFile: String?
    public var certificateKeyFile: String?
    /// `martlet_cluster_replicas`: on how many servers what the cluster shares is kept; nil for three where there is a
    /// cluster of servers, else one.
    public var replicas: Int?
    /// `martlet_cluster_partitions`: how many partitions the cluster's log has.
    public var partitions = 1
    /// `martlet_cluster_detached`: what becomes of new clients while no server can be reached.
    public var detached = DetachedConduct.refuse

    /// `martlet_cluster_mode`: what an acknowledgement has to say; nil for whatever it says.
    public var mode: ClusterMode?
    /// `martlet_cluster_session_wait`: how long clients wait for a node that is away and has their sessions, in
    /// seconds.
    public var sessionWaitSeconds = 5
    /// `martlet_cluster_monitors`: where the servers' monitoring is.
    public var monitors: [String] = []

    public var isEnabled: Bool { !servers.isEmpty }

    public init() {}
}

/// What an acknowledgement of QoS 1 and 2 says in a cluster.
public enum ClusterMode: String, Sendable, Equatable, CaseIterable {
    /// The message is on the disks of a majority of the servers.
    case synced
    /// The message is in the memories of a majority.
    case replicated
}

/// What a node does that cannot reach the cluster's servers.
public enum DetachedConduct: String, Sendable, Equatable, CaseIterable {
    /// New clients are refused with Server unavailable; those that are there go on among themselves.
    case refuse
    /// New clients are let in, and go on with those of this node.
    case local
}

/// The bounds of everything that a client could make grow. A maximum of nil means that there is no limit.
public struct LimitsConfiguration: Sendable, Equatable {
    // MARK: The whole broker

    /// `global_max_clients`: sessions, connected or not.
    public var clientsMax: Int?
    /// `global_max_connections`: connections on all listeners.
    public var connectionsMax: Int?
    /// `memory_limit`: bytes of memory kept for clients; beyond it what adds to them is refused: messages, sessions,
    /// subscriptions.
    public var memoryBytesMax: Int?
    /// `martlet_max_connections_per_second_per_address`: new connections from one address.
    public var connectionsPerSecondPerAddressMax: Int?
    /// `martlet_default_rule` outside of every listener's section.
    public var defaultRules: [String] = []
    /// `martlet_clientid_prefix` outside of every listener's section.
    public var userIdentifierPrefix = ""
    /// `martlet_max_connections_per_second` outside of every listener's section: new connections of all of them.
    public var connectionsPerSecondMax: Int?
    /// `martlet_max_connections_per_address`: connections at a time from one address.
    public var connectionsPerAddressMax: Int?
    /// `martlet_max_connections_per_network`: connections at a time from one network; nil is no limit.
    public var connectionsPerNetwork: NetworkConnectionLimit?
    /// `martlet_max_connections_per_user`: connections at a time of one user name; nil is no limit.
    public var connectionsPerUserMax: Int?
    /// `martlet_max_sessions_per_user`: sessions, connected or not, likewise.
    public var sessionsPerUserMax: Int?
    /// `martlet_max_subscriptions_per_user`: subscriptions of all of these sessions, likewise.
    public var subscriptionsPerUserMax: Int?
    /// `martlet_max_handshakes`: TLS handshakes at a time; nil is no limit.
    public var handshakesMax: Int? = 1000
    /// `martlet_max_connecting_bytes`: bytes that all connections hold that are not logged in; beyond it the largest of
    /// them end.
    public var connectingBytesMax: Int? = 64 * 1024 * 1024

    public var packet = PacketLimitsConfiguration()

    // MARK: One client

    public var queue = QueueLimitsConfiguration()
    /// `martlet_output_bytes_max`: bytes that are encoded for one client and not yet taken by its connection.
    public var outputBytesMax = 64 * 1024 * 1024
    /// `martlet_max_subscriptions_per_client`.
    public var subscriptionsPerClientMax: Int? = 10_000
    /// `martlet_max_messages_per_second`: PUBLISH packets from one client.
    public var messagesPerSecondMax: Int?
    /// `martlet_max_bytes_per_second`: bytes from one client.
    public var bytesPerSecondMax: Int?

    // MARK: Time

    /// `max_keepalive`: the longest keep alive; nil allows any, also none.
    public var keepAliveSecondsMax: Int?
    /// `persistent_client_expiration`: how long a session without an expiry interval of its own outlives its
    /// connection.
    public var persistentClientExpirationSeconds: Int?
    /// `martlet_max_session_expiry_interval`: the longest session expiry interval that an MQTT 5 client gets.
    public var sessionExpiryIntervalSecondsMax: Int?

    /// `martlet_slow_client`: what becomes of clients that do not take what they are sent; nil for nothing.
    public var slowClients: SlowClients?

    // MARK: Bans

    /// `martlet_ban_after`: how often logins of an address may fail; nil for any number.
    public var banAfter: OffenceLimit?
    /// `martlet_flapping`: how often a client's connections may end; nil for any number.
    public var flapping: OffenceLimit?

    public init() {}
}

/// How many connections one network may have at a time, and how large a network is.
public struct NetworkConnectionLimit: Sendable, Equatable {
    public var count: Int
    /// How many bits of an IPv4 address are the network's, 1 to 32.
    public var ipv4Bits: Int
    /// How many bits of an IPv6 address are, 1 to 128.
    public var ipv6Bits: Int

    public init(count: Int, ipv4Bits: Int = 24, ipv6Bits: Int = 48) {
        (self.count, self.ipv4Bits, self.ipv6Bits) = (count, ipv4Bits, ipv6Bits)
    }
}

/// The bounds of one packet. A maximum of nil means that there is no limit.
public struct PacketLimitsConfiguration: Sendable, Equatable {
    /// `max_packet_size`: bytes of one packet, announced to MQTT 5 clients.
    public var bytesMax: Int? = 2_000_000
    /// `martlet_max_connect_size`: bytes of a CONNECT without the payload of its will.
    public var connectBytesMax = 64 * 1024
    /// `message_size_limit`: bytes of one payload; a larger message is acknowledged and dropped, or refused with 0x83
    /// in MQTT 5.
    public var payloadBytesMax: Int?
    /// `martlet_max_topic_levels`: levels of a topic name or filter.
    public var topicLevelsMax = 201
    /// `martlet_max_topic_length`: bytes of a topic name or filter.
    public var topicBytesMax = 65_535

    public init() {}
}

/// What waits for one client, and is on its way to it. A maximum of nil means that there is no limit.
public struct QueueLimitsConfiguration: Sendable, Equatable {
    /// `max_inflight_messages`: QoS 1 and 2 messages on their way to one client, and the receive maximum that it is
    /// told.
    public var inflightMessagesMax: Int? = 20
    /// `max_inflight_bytes`: bytes of those messages.
    public var inflightBytesMax: Int?
    /// `max_queued_messages`: messages that wait for one client beyond those in flight.
    public var messagesMax: Int? = 1000
    /// `max_queued_bytes`: bytes of those messages.
    public var bytesMax: Int?
    /// `martlet_queue_messages_in_memory`: how many of those messages memory holds, where there is a store.
    public var messagesInMemoryMax = 256
    /// `martlet_queue_bytes_in_memory`: bytes of the messages that memory holds.
    public var bytesInMemoryMax = 1_000_000

    public init() {}
}

/// How often somebody may do something before they are banned, and for how long they are.
public struct OffenceLimit: Sendable, Equatable {
    /// So many times are too many.
    public var count: Int
    public var windowSeconds: Int
    public var banSeconds: Int

    public init(count: Int, windowSeconds: Int, banSeconds: Int) {
        (self.count, self.windowSeconds, self.banSeconds) = (count, windowSeconds, banSeconds)
    }
}

/// What becomes of a client whose oldest message has waited too long.
public struct SlowClients: Sendable, Equatable {
    /// Whether its connection ends; else it is only told of.
    public var disconnects: Bool
    public var seconds: Int

    public init(disconnects: Bool, seconds: Int) { (self.disconnects, self.seconds) = (disconnects, seconds) }
}
