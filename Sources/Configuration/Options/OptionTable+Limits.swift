extension ConfigurationOption {
    /// The bounds of what clients can make grow.
    static let limitOptions: [ConfigurationOption] = [
        .init(
            "global_max_clients", \BrokerConfiguration.limits.clientsMax, .count,
            "The largest number of sessions, connected or not, on all threads together; -1 means no limit.", reload: true),
        .init(
            "global_max_connections", \BrokerConfiguration.limits.connectionsMax, .count,
            "The largest number of connections on all listeners; -1 means no limit.", reload: true),
        .init(
            "memory_limit", \BrokerConfiguration.limits.memoryBytesMax, .limit(),
            """
            The most bytes of memory that are kept for clients: sessions, subscriptions, messages, packets that have come in part, and output;
            0 means no limit. Beyond it what needs more is refused with Quota exceeded (0x97), and what makes room goes on. mosquitto counts
            all of its heap, some megabytes more, and closes the connection of a client that needs more.
            """, reload: true),
        .init(
            "max_packet_size", optional: \BrokerConfiguration.limits.packet.bytesMax, .integer(20...268_435_460),
            "The largest packet in bytes.", reload: true),
        .init(
            "martlet_max_connect_size", \BrokerConfiguration.limits.packet.connectBytesMax, .integer(256...268_435_460),
            "The largest CONNECT in bytes, without the payload of its will.", reload: true),
        .init(
            "martlet_max_connecting_bytes", \BrokerConfiguration.limits.connectingBytesMax, .limit(),
            "The most bytes that all connections together may hold before they are logged in; 0 means no limit.", reload: true),
        .init(
            "message_size_limit", \BrokerConfiguration.limits.packet.payloadBytesMax, .limit(268_435_455),
            "The largest payload in bytes; 0 means no limit.", reload: true),
        .init(
            "max_inflight_messages", \BrokerConfiguration.limits.queue.inflightMessagesMax, .limit(65535),
            "The largest number of QoS 1 and 2 messages on their way to one client; 0 means no limit.", reload: true),
        .init(
            "max_inflight_bytes", \BrokerConfiguration.limits.queue.inflightBytesMax, .limit(),
            "The bytes of those messages, topics and properties included, at which no more are sent; 0 means no limit.",
            reload: true),
        .init(
            "max_queued_messages", \BrokerConfiguration.limits.queue.messagesMax, .limit(),
            "The largest number of messages queued for one client; 0 means no limit.", reload: true),
        .init(
            "max_queued_bytes", \BrokerConfiguration.limits.queue.bytesMax, .limit(),
            "The bytes of those messages, topics and properties included, at which no more are queued; 0 means no limit.",
            reload: true),
        .init(
            "martlet_queue_messages_in_memory", \BrokerConfiguration.limits.queue.messagesInMemoryMax, .integer(1...1_000_000),
            "How many of those messages are in memory, where there is a store; the others are only on disk until it is their turn.",
            reload: true),
        .init(
            "martlet_queue_bytes_in_memory", \BrokerConfiguration.limits.queue.bytesInMemoryMax, .integer(1...1_000_000_000),
            "The bytes of the messages in memory, topics and properties included; the last one may go beyond.", reload: true
        ),
        .init(
            "max_keepalive", \BrokerConfiguration.limits.keepAliveSecondsMax, .limit(65535),
            "The longest keep alive in seconds; 0 means any.", reload: true),
        .init(
            "persistent_client_expiration", \BrokerConfiguration.limits.persistentClientExpirationSeconds, .duration,
            "How long the session of a disconnected client is kept at most, whatever the client asks for; without it, for ever.",
            reload: true),
        .init(
            "martlet_clientid_prefix", \BrokerConfiguration.limits.userIdentifierPrefix, own: \ListenerDraft.userIdentifierPrefix,
            inForce: \ListenerConfiguration.userIdentifierPrefix, .identifierPrefix,
            """
            What client identifiers have to begin with; %u stands for the user name, so that %u- keeps each user to identifiers of their own.
            Identifiers that the broker assigns begin so too. In a listener's section, for its clients.
            """, reload: true),
        defaultRule,
        .init(
            "martlet_max_session_expiry_interval", \BrokerConfiguration.limits.sessionExpiryIntervalSecondsMax,
            .limit(Int(UInt32.max)),
            "The longest session expiry interval in seconds; 0 means any.", reload: true),
        .init(
            "martlet_max_topic_levels", \BrokerConfiguration.limits.packet.topicLevelsMax, .integer(1...65536),
            "The largest number of levels of a topic.", reload: true),
        .init(
            "martlet_max_topic_length", \BrokerConfiguration.limits.packet.topicBytesMax, .integer(1...65535),
            "The largest number of bytes of a topic.", reload: true),
        .init(
            "martlet_max_subscriptions_per_client", \BrokerConfiguration.limits.subscriptionsPerClientMax, .limit(),
            "The largest number of subscriptions of one client; 0 means no limit.", reload: true),
        .init(
            "martlet_output_bytes_max", \BrokerConfiguration.limits.outputBytesMax, .integer(65536...Limits.outputBytesMax),
            "The largest number of bytes that wait for one client's connection, 64 KiB to 1 GiB.", reload: true),
        .init(
            "martlet_slow_client", optional: \BrokerConfiguration.limits.slowClients, .slowClients,
            """
            What happens to a client whose oldest message has waited so long, queued or unread by the client: a line in the log, or
            also a disconnect with Quota exceeded (0x97). Its session is kept.
            """, reload: true),
        .init(
            "martlet_max_messages_per_second", \BrokerConfiguration.limits.messagesPerSecondMax, .limit(),
            "The largest number of messages that one client may publish in a second; 0 means no limit.", reload: true),
        .init(
            "martlet_max_bytes_per_second", \BrokerConfiguration.limits.bytesPerSecondMax, .limit(),
            "The largest number of bytes that one client may send in a second; 0 means no limit.", reload: true),
        .init(
            "martlet_max_connections_per_second_per_address", \BrokerConfiguration.limits.connectionsPerSecondPerAddressMax,
            .limit(),
            "The largest number of connections that one address may open in a second; 0 means no limit.", reload: true),
        connectionRate,
        .init(
            "martlet_max_connections_per_address", \BrokerConfiguration.limits.connectionsPerAddressMax, .limit(),
            """
            The largest number of connections that one address has at a time, of IPv6 its first 64 bits; 0 means no limit. Those count that
            have come since the option is set.
            """, reload: true),
        .init(
            "martlet_max_connections_per_network", optional: \BrokerConfiguration.limits.connectionsPerNetwork,
            .networkConnections,
            """
            The same for a network: 500 /24 /48 means 500 connections from any 24 bits of IPv4, or 48 of IPv6, which are used if no others are
            given.
            """, reload: true),
        .init(
            "martlet_max_connections_per_user", \BrokerConfiguration.limits.connectionsPerUserMax, .limit(),
            """
            The largest number of connections that one user name has at a time; one more is refused with Quota exceeded (0x97), and those that
            are there stay. 0 means no limit. Those count that have come since the option is set, in a cluster those of this node.
            """, reload: true),
        .init(
            "martlet_max_sessions_per_user", \BrokerConfiguration.limits.sessionsPerUserMax, .limit(),
            "The same for sessions, connected or not.", reload: true),
        .init(
            "martlet_max_subscriptions_per_user", \BrokerConfiguration.limits.subscriptionsPerUserMax, .limit(),
            "The same for subscriptions, of all sessions of the user together: SUBACK refuses one more with 0x97.", reload: true),
        .init(
            "martlet_max_handshakes", \BrokerConfiguration.limits.handshakesMax, .limit(),
            """
            The largest number of TLS handshakes at a time. Who comes later waits for a place, in the order of coming; one that waits for its
            client for a second gives its place up. 0 means no limit.
            """, reload: true),
        .init(
            "martlet_ban_after", optional: \BrokerConfiguration.limits.banAfter, .offences,
            """
            Bans an address after failed logins: 10/60s 300s means 10 in 60 seconds, for 300 seconds. Clients that are connected stay, new ones
            are refused. Clients behind a NAT, or behind a proxy without the PROXY protocol, share one address.
            """, reload: true),
        .init(
            "martlet_flapping", optional: \BrokerConfiguration.limits.flapping, .offences,
            """
            Bans a client whose connections keep ending: 15/60s 300s means 15 in 60 seconds, for 300 seconds. The ban is for the client
            identifier with this user and address, so that nobody can get another user's client banned.
            """, reload: true),
    ]

    private static let defaultRule: ConfigurationOption = {
        let (name, shape) = ("martlet_default_rule", "[ACCESS] FILTER")
        let summary = """
            What clients may do for whom there are no rules: no line of the acl_file is their user's, and dynamic security has no role for
            them. It is written as behind the word pattern in an acl_file: read,from=10.0.0.0/8 devices/%c/#. One line for each rule; in a
            listener's section, for its clients.
            """
        var row = ConfigurationOption(name, shape: shape, summary, reload: true, extent: .line) {
            (text: String, configuration: inout BrokerConfiguration, _: Bool) in
            configuration.limits.defaultRules.append(text)
            return nil
        }
        let own = ConfigurationOption(name, shape: shape, summary, reload: true, extent: .line) {
            (text: String, listener: inout ListenerDraft, _: Bool) in
            listener.configuration.defaultRules.append(text)
            return nil
        }
        row.section = .listenerOrGlobal
        if case .global(let setter) = row.action, case .listener(let ownSetter) = own.action {
            row.action = .listenerOrGlobal(ownSetter, setter)
        }
        row.differs = ListenerDraft.difference { $0.configuration.defaultRules.joined(separator: "\n") }
        return row
    }()

    private static let connectionRate: ConfigurationOption = {
        let (name, summary) = (
            "martlet_max_connections_per_second",
            "The largest number of new connections in a second, on all listeners together; in a listener's section, on this one. 0 means no limit."
        )
        var row = ConfigurationOption(
            name, \BrokerConfiguration.limits.connectionsPerSecondMax, .limit(), summary, reload: true)
        let own = ConfigurationOption(
            name, \ListenerDraft.configuration.connectionsPerSecondMax, .limit(), summary, reload: true)
        row.section = .listenerOrGlobal
        if case .global(let setter) = row.action, case .listener(let ownSetter) = own.action {
            row.action = .listenerOrGlobal(ownSetter, setter)
        }
        let (differs, ownDiffers) = (row.differs, own.differs)
        row.differs = { differs($0, $1) || ownDiffers($0, $1) }
        return row
    }()
}

extension Limits {
    /// The largest `martlet_output_bytes_max`, in bytes: a GiB for each connection that does not read is more than any
    /// machine has room for.
    static let outputBytesMax = 1 << 30
}
