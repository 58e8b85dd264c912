/// One `connection` section: a bridge to another broker.
public struct BridgeConfiguration: Sendable, Equatable {
    public var name: String
    /// `address`: the broker and, after it, those to fail over to.
    public var addresses: [BridgeAddress] = []
    /// `topic`, in the order of the file.
    public var topics: [BridgeTopic] = []
    public var remote = BridgeIdentity()
    public var local = BridgeIdentity()
    /// `bridge_protocol_version`: 3, 4 or 5.
    public var protocolVersion: UInt8 = 4
    /// `cleansession`: at the remote broker.
    public var startsClean = false
    /// `local_cleansession`: here; nil is as `startsClean`.
    public var startsCleanLocally: Bool?
    /// `keepalive_interval`.
    public var keepAliveSeconds = 60
    /// `start_type`.
    public var start = BridgeStart.automatic
    /// `restart_timeout`.
    public var restart = BridgeRestart()
    /// `round_robin`: the next address is tried after each loss, instead of the first.
    public var isRoundRobin = false
    /// `threshold`: messages that wake a lazy bridge.
    public var lazyThresholdMessages = 10
    /// `idle_timeout`: after which a lazy bridge stops.
    public var idleTimeoutSeconds = 60
    /// `try_private`: the other broker is told that this is a bridge.
    public var announcesBridge = true
    /// `notifications`.
    public var notifies = true
    /// `notifications_local_only`.
    public var notifiesLocallyOnly = false
    /// `notification_topic`; nil is `$SYS/broker/connection/ID/state`.
    public var notificationTopic: String?
    /// `bridge_attempt_unsubscribe`.
    public var attemptsUnsubscribe = true
    /// `bridge_outgoing_retain`.
    public var sendsRetain = true
    /// `bridge_max_packet_size`; nil is no limit.
    public var packetBytesMax: Int?
    /// `bridge_max_topic_alias`.
    public var topicAliasMax: UInt16 = 10
    /// `bridge_receive_maximum`; nil is `LimitsConfiguration.inflightMessagesMax`.
    public var receiveMaximum: UInt16?
    /// `martlet_bridge_max_queued_messages`; 0 is no limit, nil is `LimitsConfiguration.queuedMessagesMax`.
    public var queuedMessagesMax: Int?
    /// `martlet_bridge_max_queued_bytes`; 0 is no limit, nil is `LimitsConfiguration.queuedBytesMax`.
    public var queuedBytesMax: Int?
    /// `martlet_bridge_queue_drop`; nil is `MessagingConfiguration.queueDropPolicy`.
    public var queueDropPolicy: QueueDropPolicy?
    /// `martlet_bridge_connections`: among which the topics that go out are divided.
    public var connectionCount = 1
    /// `bridge_session_expiry_interval`.
    public var sessionExpiryIntervalSeconds: UInt32 = 0
    /// `bridge_bind_address`.
    public var bindAddress: String?
    /// `bridge_tcp_keepalive`.
    public var tcpKeepAlive: TCPKeepAlive?
    /// `bridge_tcp_user_timeout`.
    public var tcpUserTimeoutMilliseconds: Int?
    /// `martlet_bridge_path`: messages say which brokers they were in.
    public var saysBrokers = true
    /// `bridge_reload_type`.
    public var reload = BridgeReload.lazy
    public var tls = BridgeTLSConfiguration()

    public init(name: String) {
        self.name = name
    }
}

/// The identity of the bridge at one of its two ends.
public struct BridgeIdentity: Sendable, Equatable {
    public var clientIdentifier: String?
    public var userName: String?
    public var password: String?

    public init() {}
}

/// When a bridge connects.
public enum BridgeStart: String, Sendable, Equatable, CaseIterable {
    case automatic
    case lazy
    case once
}

/// How long a bridge waits before it connects again: from `baseSeconds` to `capSeconds` at random, each time longer, starting anew after a
/// connection that lasted `stableSeconds`. Without a cap it waits `baseSeconds`.
public struct BridgeRestart: Sendable, Equatable {
    public var baseSeconds: Int
    public var capSeconds: Int?
    public var stableSeconds: Int?

    public init(baseSeconds: Int = 5, capSeconds: Int? = 30, stableSeconds: Int? = nil) {
        self.baseSeconds = baseSeconds
        self.capSeconds = capSeconds
        self.stableSeconds = stableSeconds
    }
}

/// When a reload of the configuration reaches a bridge: at its next connection, or at once.
public enum BridgeReload: String, Sendable, Equatable, CaseIterable {
    case lazy
    case immediate
}
