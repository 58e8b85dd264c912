extension ConfigurationOption {
    /// Bridges to other brokers.
    static let bridgeOptions: [ConfigurationOption] = (bridgeConnectionOptions + bridgeSessionOptions + bridgeTLSOptions).map {
        row in
        var row = row
        row.isReloadable = true
        return row
    }

    private static let bridgeConnectionOptions: [ConfigurationOption] = [
        .init(
            "connection", .connection, shape: "NAME",
            "Begins the section of a bridge. The bridge options after it are for this bridge."),
        address,
        address.also("addresses"),
        .init(
            "topic", shape: "PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]",
            "Topics that the bridge forwards; one line for each pattern.",
            set: addTopic),
        .init(
            "start_type", \BridgeConfiguration.schedule.start, .choice,
            "When the bridge connects: always, when messages are queued, or once."),
        .init(
            "threshold", \BridgeConfiguration.schedule.lazyThresholdMessages, .integer(atLeast: 1...Limits.countMax),
            "The number of queued messages that starts a lazy bridge."),
        .init(
            "idle_timeout", \BridgeConfiguration.schedule.idleTimeoutSeconds, .integer(atLeast: 1...Int.largestTime),
            "Seconds without messages after which a lazy bridge stops."),
        .init(
            "restart_timeout", \BridgeConfiguration.schedule.restart, .restart,
            "Seconds until it reconnects: the first delay, the longest, and how long a connection must last to begin with the first again."
        ),
        .init(
            "round_robin", \BridgeConfiguration.schedule.isRoundRobin, .boolean,
            "After a lost connection the next address is tried, not the first."),
        .init(
            "bridge_bind_address", optional: \BridgeConfiguration.tcp.bindAddress, .text("ADDRESS"),
            "The local address that the bridge connects from."),
        .init(
            "bridge_tcp_keepalive", optional: \BridgeConfiguration.tcp.keepAlive, .tcpKeepAlive,
            "TCP keepalive, which detects dead connections."),
        .init(
            "bridge_tcp_user_timeout", \BridgeConfiguration.tcp.userTimeoutMilliseconds, .limit(.largestTime),
            "Milliseconds that sent bytes may stay unacknowledged; 0 leaves it to the system."),
        .init(
            "bridge_reload_type", \BridgeConfiguration.reload, .choice,
            "Whether a reload takes effect at the next connection or at once."),
    ]

    private static let bridgeSessionOptions: [ConfigurationOption] = [
        .init(
            "bridge_protocol_version", \BridgeConfiguration.protocolVersion,
            .oneOf(["mqttv31": 3, "mqttv311": 4, "mqttv50": 5]), "The version of MQTT."),
        cleanSession,
        .init(
            "local_cleansession", optional: \BridgeConfiguration.session.startsCleanLocally, .boolean,
            "Whether the session in this broker is clean; without it, as cleansession."),
        remoteClientIdentifier,
        remoteClientIdentifier.also("clientid"),
        remoteUserName,
        remoteUserName.also("username"),
        remotePassword,
        remotePassword.also("password"),
        .init(
            "local_clientid", optional: \BridgeConfiguration.local.clientIdentifier, .text("TEXT"),
            "The client identifier in this broker."),
        .init(
            "local_username", optional: \BridgeConfiguration.local.userName, .text("TEXT"), "The user name in this broker."),
        .init(
            "local_password", optional: \BridgeConfiguration.local.password, .text("TEXT"),
            "The password in this broker. file:PATH takes it from a file."),
        .init(
            "keepalive_interval", \BridgeConfiguration.keepAliveSeconds, .integer(atLeast: 5...65535), "The keep alive in seconds."),
        .init(
            "try_private", \BridgeConfiguration.announcesBridge, .boolean, "Tells the remote broker that this client is a bridge."),
        .init(
            "notifications", \BridgeConfiguration.notifications.isEnabled, .boolean,
            "Publishes whether the bridge is connected, as a retained 1 or 0."),
        .init(
            "notifications_local_only", \BridgeConfiguration.notifications.isLocalOnly, .boolean,
            "Publishes these notifications in this broker only."),
        .init(
            "notification_topic", optional: \BridgeConfiguration.notifications.topic, .topicPrefix("TOPIC"),
            "The topic of these notifications; $SYS/broker/connection/ID/state if it is not given."),
        .init(
            "bridge_attempt_unsubscribe", \BridgeConfiguration.attemptsUnsubscribe, .boolean,
            "Unsubscribes at the remote broker from topics that no longer come in."),
        .init(
            "bridge_outgoing_retain", \BridgeConfiguration.sendsRetain, .boolean, "Messages go out with their retain flag."),
        .init(
            "bridge_max_packet_size", \BridgeConfiguration.packetBytesMax, .limit(268_435_460),
            "The largest packet in bytes; 0 means no limit."),
        .init(
            "bridge_max_topic_alias", \BridgeConfiguration.topicAliasMax, .integer(0...65535),
            "The most topic aliases that either broker uses; 0 means none."),
        .init(
            "bridge_receive_maximum", optional: \BridgeConfiguration.receiveMaximum, .integer(1...65535),
            "The receive maximum; max_inflight_messages if it is not given."),
        .init(
            "bridge_session_expiry_interval", \BridgeConfiguration.session.expiryIntervalSeconds, .integer(0...UInt32.max),
            "The session expiry interval in seconds."),
        .init(
            "martlet_bridge_max_queued_messages", optional: \BridgeConfiguration.queue.messagesMax, .integer(0...Limits.countMax),
            "The largest number of messages queued for the remote broker; 0 means no limit. Without it, max_queued_messages."),
        .init(
            "martlet_bridge_max_queued_bytes", optional: \BridgeConfiguration.queue.bytesMax, .integer(0...Limits.countMax),
            "The bytes of those messages at which no more are queued; 0 means no limit. Without it, max_queued_bytes."),
        .init(
            "martlet_bridge_queue_drop", optional: \BridgeConfiguration.queue.dropPolicy, .choice,
            "What is dropped when that queue is full, as in martlet_queue_drop; without it, the value of martlet_queue_drop."),
        .init(
            "martlet_bridge_connections", \BridgeConfiguration.connectionCount, .integer(1...Limits.bridgeConnectionsMax),
            "The number of parallel connections, each with its own queue. Outgoing topics are divided among them."),
        .init(
            "martlet_bridge_path", \BridgeConfiguration.saysBrokers, .boolean,
            "MQTT 5.0 messages carry the brokers they have passed in a User Property, and are not sent to them again."),
    ]

    private static let bridgeTLSOptions: [ConfigurationOption] = [
        .init(
            "bridge_cafile", optional: \BridgeConfiguration.tls.authoritiesFile, .text("PATH"),
            "CA certificates for the remote broker's certificate. Enables TLS."),
        .init(
            "bridge_capath", optional: \BridgeConfiguration.tls.authoritiesDirectory, .text("DIRECTORY"),
            "The same, as a directory of files. Enables TLS."),
        .init(
            "bridge_tls_use_os_certs", \BridgeConfiguration.tls.usesSystemAuthorities, .boolean,
            "Uses the system's CA certificates. Enables TLS."),
        .init(
            "bridge_certfile", optional: \BridgeConfiguration.tls.certificateFile, .text("PATH"), "The bridge's client certificate."
        ),
        .init("bridge_keyfile", optional: \BridgeConfiguration.tls.keyFile, .text("PATH"), "The private key of bridge_certfile."),
        .init(
            "bridge_insecure", \BridgeConfiguration.tls.ignoresHostName, .boolean,
            "The host name in the remote broker's certificate is not verified."),
        .init("bridge_tls_version", \BridgeConfiguration.tls.versionMin, .choice, "The lowest version of TLS."),
        .init(
            "bridge_alpn", optional: \BridgeConfiguration.tls.applicationProtocol, .text("NAME"),
            "The ALPN protocol to request."),
        .init(
            "bridge_ciphers", optional: \BridgeConfiguration.tls.ciphers, .text("LIST"), "The ciphers of TLS 1.2."),
        .init(
            "bridge_ciphers_tls1.3", optional: \BridgeConfiguration.tls.cipherSuites, .text("LIST"),
            "The cipher suites of TLS 1.3."),
        .init(
            "bridge_require_ocsp", \BridgeConfiguration.tls.requiresOCSP, .boolean,
            "Requires a stapled OCSP answer from the remote broker, which shows that its certificate is not revoked."),
        .init(
            "bridge_identity", optional: \BridgeConfiguration.tls.preSharedKeyIdentity, .text("TEXT"),
            "The identity of the pre-shared key."),
        .init(
            "bridge_psk", optional: \BridgeConfiguration.tls.preSharedKey, .hexadecimal("HEX"),
            "The pre-shared key. With bridge_identity it enables TLS. file:PATH takes it from a file."),
    ]

    private static let address = ConfigurationOption(
        "address", shape: "HOST[:PORT]...", "The remote broker, and after it those to fail over to.", extent: .words,
        set: addAddresses)

    @Sendable private static func addAddresses(
        _ text: String, _ bridge: inout BridgeConfiguration, _ isFirst: Bool
    ) -> Expectation? {
        var addresses: [BridgeAddress] = []
        for word in text.words {
            guard let address = BridgeAddress(text: word) else {
                let advice = word.contains("@") ? " A login is said by remote_username and remote_password." : ""
                return .sentence("found \(AddressMask.masking(word).quoted), expected HOST or HOST:PORT.\(advice)")
            }
            addresses.append(address)
        }
        bridge.addresses += addresses
        return nil
    }

    @Sendable private static func addTopic(
        _ text: String, _ bridge: inout BridgeConfiguration, _ isFirst: Bool
    ) -> Expectation? {
        switch BridgeTopic.parse(text) {
        case .success(let line):
            bridge.topics.append(line.topic)
            return line.remark.map { .remark($0) }
        case .failure(let refusal):
            return .sentence(refusal.message)
        }
    }

    private static let cleanSession = ConfigurationOption(
        "cleansession", \BridgeConfiguration.session.startsClean, .boolean,
        "The remote broker discards the bridge's session when the bridge disconnects.")

    private static let remoteClientIdentifier = ConfigurationOption(
        "remote_clientid", optional: \BridgeConfiguration.remote.clientIdentifier, .text("TEXT"),
        "The client identifier at the remote broker; HOST.NAME if it is not given.")

    private static let remoteUserName = ConfigurationOption(
        "remote_username", optional: \BridgeConfiguration.remote.userName, .text("TEXT"),
        "The user name at the remote broker.")

    private static let remotePassword = ConfigurationOption(
        "remote_password", optional: \BridgeConfiguration.remote.password, .text("TEXT"),
        "The password at the remote broker. file:PATH takes it from a file.")
}

extension Limits {
    /// The largest `martlet_bridge_connections`.
    static let bridgeConnectionsMax = 64
}
