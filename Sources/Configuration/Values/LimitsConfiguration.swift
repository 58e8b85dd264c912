/// The bounds of everything that a client could make grow. A maximum of nil means that there is no limit.
public struct LimitsConfiguration: Sendable, Equatable {
    // MARK: The whole broker

    /// `global_max_clients`: sessions, connected or not.
    public var clientsMax: Int?
    /// `global_max_connections`: connections on all listeners.
    public var connectionsMax: Int?
    /// `memory_limit`: bytes of memory kept for clients; beyond it what adds to them is refused: messages, sessions, subscriptions.
    public var memoryBytesMax: Int?
    /// `martlet_max_connections_per_second_per_address`: new connections from one address.
    public var connectionsPerSecondPerAddressMax: Int?
    /// `martlet_max_connecting_bytes`: bytes that all connections hold that are not logged in; beyond it the largest of them end.
    public var connectingBytesMax: Int? = 64 * 1024 * 1024

    // MARK: One packet

    /// `max_packet_size`: bytes of one packet, announced to MQTT 5 clients.
    public var packetBytesMax: Int? = 2_000_000
    /// `martlet_max_connect_size`: bytes of a CONNECT without the payload of its will.
    public var connectBytesMax = 64 * 1024
    /// `message_size_limit`: bytes of one payload; a larger message is acknowledged and dropped, or refused with 0x83 in MQTT 5.
    public var payloadBytesMax: Int?
    /// `martlet_max_topic_levels`: levels of a topic name or filter.
    public var topicLevelsMax = 201
    /// `martlet_max_topic_length`: bytes of a topic name or filter.
    public var topicBytesMax = 65_535

    // MARK: One client

    /// `max_inflight_messages`: QoS 1 and 2 messages on their way to one client, and the receive maximum that it is told.
    public var inflightMessagesMax: Int? = 20
    /// `max_inflight_bytes`: bytes of those messages.
    public var inflightBytesMax: Int?
    /// `max_queued_messages`: messages that wait for one client beyond those in flight.
    public var queuedMessagesMax: Int? = 1000
    /// `max_queued_bytes`: bytes of those messages.
    public var queuedBytesMax: Int?
    /// `martlet_queue_messages_in_memory`: how many of those messages memory holds, where there is a store.
    public var queuedMessagesInMemoryMax = 256
    /// `martlet_queue_bytes_in_memory`: bytes of the messages that memory holds.
    public var queuedBytesInMemoryMax = 1_000_000
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
    /// `persistent_client_expiration`: how long a session without an expiry interval of its own outlives its connection.
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
