/// One row of the table of options: what a file may say, what it means and what becomes of it.
///
/// The table (`ConfigurationOption.all`) is the only place that knows the names. The reader, the example file and the
/// command that prints the options all follow it.
public struct ConfigurationOption: Sendable {
    /// As it is written in the file. A name that ends in `_` stands for all names that begin so.
    public var name: String
    public var section: ConfigurationSection
    /// What its value looks like: `true|false`, `0 to 65535`, `PATH`.
    public var shape: String
    /// What counts when the file is silent, as it would be written; nil when it is "nothing".
    public var defaultText: String?
    /// What it does, in one sentence.
    public var summary: String
    /// A running broker takes a changed value over on SIGHUP.
    public var isReloadable: Bool
    /// It may be given more than once, and every line counts.
    public var isRepeatable: Bool
    public var status: OptionStatus
    /// For an old or second name, the name that it stands for.
    public var canonicalName: String?

    /// What the reader does with a line that names it.
    var action: OptionAction

    /// Whether two configurations say different things about it. Two listeners are compared when they listen at the
    /// same place. Options that shape the configuration, and those of bridges, are never different.
    public var differs: @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool = { _, _ in false }

    /// The name that it counts under when duplicates are looked for.
    var identity: String { canonicalName ?? name }
}

/// Whether a row does what its name says.
public enum OptionStatus: Sendable, Equatable {
    case supported
    /// The option works. The text says what to write instead.
    case deprecated(String)
    /// The option is accepted, so that the file can stay as it is. The text says why nothing has to happen.
    case withoutEffect(String)
    /// The option is read, and this version of Martlet does not start with what it asks for.
    case unavailable
}

extension ConfigurationOption {
    /// Bounds for a broker that strangers reach, as one line.
    static let exposureOptions: [ConfigurationOption] = [
        .init(
            "martlet_profile", optional: \BrokerConfiguration.general.profile, .choice,
            "Defaults for a broker on the open internet. A line with one of these options overrides the profile, before or after it:",
            reload: true)
    ]
}

extension ConfigurationOption {
    /// Every option, in the order in which the example file shows them.
    public static let all: [ConfigurationOption] =
        listenerOptions + securityOptions + loginOptions + directoryOptions + tokenOptions + pluginOptions + messagingOptions
        + exposureOptions + limitOptions + persistenceOptions
        + loggingOptions + administrationOptions + generalOptions + clusterOptions + bridgeOptions

    /// The row of the option that is written `name`.
    public static func named(_ name: String) -> ConfigurationOption? {
        if let row = rowsByName[name] { return row }
        return families.first { name.hasPrefix($0.name) && name.utf8.count > $0.name.utf8.count }
    }

    /// The names that a file can be wrong about.
    static let fixedNames = all.map(\.name).filter { !$0.hasSuffix("_") }

    private static let rowsByName = Dictionary(
        uniqueKeysWithValues: all.filter { !$0.name.hasSuffix("_") }.map { ($0.name, $0) })
    private static let families = all.filter { $0.name.hasSuffix("_") }
}

extension ConfigurationOption {
    /// What outlives the process.
    static let persistenceOptions: [ConfigurationOption] = [
        persistence,
        persistence.formerly("retained_persistence"),
        .init(
            "persistence_location", optional: \BrokerConfiguration.persistence.location, .text("DIRECTORY"),
            "The directory of the store; without it, the one that the broker was started in."),
        .init(
            "persistence_file", \BrokerConfiguration.persistence.file,
            .text("NAME").with(expected: "a file's name without a slash; persistence_location names the directory") {
                !$0.utf8.contains(UInt8(ascii: "/")) && $0 != "." && $0 != ".."
            },
            """
            mosquitto's database in that directory, which is imported if there is no store yet. The store is martlet.db beside it, or
            martlet-NAME if this names another file than mosquitto.db, so that brokers can share a directory.
            """),
        .init(
            "martlet_durability", \BrokerConfiguration.persistence.durability, own: \ListenerDraft.durability,
            inForce: \ListenerConfiguration.durability, .durability,
            "What an acknowledgement guarantees: that the message survives a power cut, that it does so after SECONDS, or nothing; in a listener's section, for its clients."
        ),
        .init(
            "martlet_store_bytes_max", \BrokerConfiguration.persistence.bytesMax, .limit(),
            "The largest size of the store in bytes; when it is full, nothing new is stored. 0 means no limit but the disk's."),
        .init(
            "autosave_interval", \BrokerConfiguration.persistence.autosaveInterval, .limit(.largestTime),
            "Formerly the seconds (or changes, see the next option) between two copies of the database.", reload: true,
            status: .withoutEffect(savedAtOnce)),
        .init(
            "autosave_on_changes", \BrokerConfiguration.persistence.autosavesOnChanges, .boolean,
            "autosave_interval counts changes instead of seconds.", reload: true, status: .withoutEffect(savedAtOnce)),
    ]

    private static let savedAtOnce = "changes are saved as they come, as martlet_durability says"

    private static let persistence = ConfigurationOption(
        "persistence", \BrokerConfiguration.persistence.isEnabled, .boolean,
        "Sessions, subscriptions, queues and retained messages survive a restart of the broker.")
}

extension ConfigurationOption {
    /// The options that say who may see and steer the broker over HTTP.
    static let administrationOptions: [ConfigurationOption] = [
        .init(
            "martlet_http_user", shape: "NAME viewer|admin",
            "The role of a user on the dashboard and in the HTTP API; one line for each user. An access rule that lets a user read or write the topic $CONTROL/martlet/v1 gives the role viewer or admin too.",
            reload: true, extent: .words, set: addUser),
        .init(
            "martlet_http_token_file", optional: \BrokerConfiguration.administration.tokenFile, .text("PATH"),
            "The file of API tokens. The broker writes it.", reload: true),
        .init(
            "martlet_http_host", shape: "NAME",
            "A host name that HTTP requests may use for this machine, besides localhost; one line for each. Others are refused.",
            reload: true
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            root.administration.hosts.append(text)
            return nil
        },
        .init(
            "martlet_http_origin", shape: "ORIGIN", "An origin whose pages may use the HTTP API (CORS); one line for each.",
            reload: true
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            root.administration.origins.append(text)
            return nil
        },
        .init(
            "martlet_http_payloads", \BrokerConfiguration.administration.payloads, .choice,
            "Who may see message payloads over HTTP.",
            reload: true),
        .init(
            "martlet_metrics_anonymous", \BrokerConfiguration.administration.areMetricsAnonymous, .boolean,
            "Metrics can be read without a login.", reload: true),
        .init(
            "martlet_audit_log", optional: \BrokerConfiguration.administration.auditFile, .text("PATH"),
            "The audit log: who has changed what, one JSON object a line; without it, this goes to the log.", reload: true),
    ]

    @Sendable private static func addUser(_ text: String, _ root: inout BrokerConfiguration, _ isFirst: Bool) -> Expectation? {
        let words = text.words
        guard words.count == 2, let role = HTTPRole(rawValue: words[1]) else {
            return .expected("a user's name, then viewer or admin")
        }
        root.administration.users[words[0]] = role
        return nil
    }
}

extension ConfigurationOption {
    /// The process, and how the file is read.
    static let generalOptions: [ConfigurationOption] = [
        .init(
            "include_dir", .includeDirectory, shape: "DIRECTORY",
            "Reads every *.conf of a directory at this place, in alphabetical order. Only in the main file."),
        .init(
            "per_listener_settings", .perListenerSettings, shape: "true|false", default: "false",
            "The security options apply to the listener in whose section they are, not to all listeners.", isRepeatable: false,
            status: .deprecated(
                "write listener_allow_anonymous, listener_auto_id_prefix or plugin_use in a listener's section instead")
        ),
        .init(
            "user", \BrokerConfiguration.general.userName, .text("NAME"),
            "The user that a broker started as root runs as once its ports are open."),
        .init(
            "pid_file", optional: \BrokerConfiguration.general.processIdentifierFile, .text("PATH"),
            "The file for the process ID."),
        .init(
            "sys_interval", \BrokerConfiguration.general.systemTopicIntervalSeconds, .limit(65535),
            "Seconds between two updates of the $SYS topics; 0 switches them off.", reload: true),
        .init(
            "enable_control_api", \BrokerConfiguration.general.enablesControlAPI, .boolean,
            "Answers on $CONTROL/broker/v1.", reload: true),
        .init(
            "set_tcp_nodelay", \BrokerConfiguration.general.disablesTCPDelay, .boolean,
            "Small packets are sent at once (TCP_NODELAY). Always so, also with false; packets for a client at one time leave together.",
            reload: true),
        packetBufferSize,
        packetBufferSize.formerly("websockets_headers_size"),
        .init(
            "martlet_threads", \BrokerConfiguration.general.threads, .limit(1024),
            "The number of event loops; 0 chooses by the cores that the broker may use."),
        .init(
            "martlet_connect_timeout", \BrokerConfiguration.general.connectTimeoutSeconds, .integer(1...3600),
            "Seconds that a connection may take until its CONNECT is complete.", reload: true),
        .init(
            "martlet_node_name", optional: \BrokerConfiguration.general.nodeName, .nodeName,
            "The name of this broker, also below $SYS/brokers/: one topic level. Without it, the host name.", reload: true),
        .init(
            "martlet_compat", \BrokerConfiguration.general.compatibility, .choice,
            "The version of mosquitto whose defaults apply where they differ."),
        .init(
            "martlet_expand_environment", \BrokerConfiguration.general.expandsEnvironment, .boolean,
            "${NAME} in a value is replaced by the environment variable NAME; $${NAME} is ${NAME} itself."),
        .init(
            ignored: "retry_interval", section: .global, shape: "SECONDS", "Formerly the time after which packets were sent again.",
            because: "packets are sent again only on a new connection, as the standard demands"),
        .init(
            ignored: "websockets_log_level", section: .global, shape: "MASK", "Formerly the log level of libwebsockets.",
            because: "WebSockets are logged like all else, see log_type websockets"),
    ]

    private static let packetBufferSize = ConfigurationOption(
        "packet_buffer_size", \BrokerConfiguration.general.webSocketHeaderBytesMax, .integer(1...65_535),
        "The largest header of a WebSocket's HTTP request in bytes.")
}

extension ConfigurationOption {
    /// The options that say who may connect and what they may do.
    static let securityOptions: [ConfigurationOption] = [
        .init(
            "allow_anonymous", \SecurityConfiguration.allowsAnonymous, .boolean,
            "Clients without a user name can connect. The default is true while no listener is configured.", reload: true),
        .init(
            "password_file", optional: \SecurityConfiguration.passwordFile, .text("PATH"),
            "The users and their hashed passwords.", reload: true),
        .init(
            "martlet_scram_file", optional: \SecurityConfiguration.scramFile, .text("PATH"),
            "The users that log in with MQTT 5.0's enhanced authentication, method SCRAM-SHA-256.", reload: true),
        .init(
            "acl_file", optional: \SecurityConfiguration.accessControlFile, .text("PATH"),
            "The access control list (ACL): who may read and write which topics.", reload: true),
        .init(
            "psk_file", optional: \SecurityConfiguration.preSharedKeyFile, .text("PATH"),
            "Identities and keys of clients that use TLS without certificates.", reload: true),
        .init(
            "allow_zero_length_clientid", \SecurityConfiguration.allowsZeroLengthClientIdentifier, .boolean,
            "Clients without a client identifier get one.", reload: true),
        .init(
            "auto_id_prefix", \SecurityConfiguration.assignedIdentifierPrefix,
            .text("TEXT").with(expected: "at most 50 bytes") { $0.utf8.count <= 50 },
            "The prefix of such client identifiers.", reload: true,
            status: .deprecated("write listener_auto_id_prefix in a listener's section instead")),
        .init(
            "clientid_prefixes", optional: \SecurityConfiguration.clientIdentifierPrefix, .text("TEXT"),
            "The prefix that client identifiers must have.", reload: true,
            status: .deprecated("bind topics to client identifiers with pattern lines and %c in an acl_file instead")),
        .init(
            "martlet_acl_check_subscribe", \SecurityConfiguration.checksAccessOnSubscribe, .boolean,
            "A SUBSCRIBE to topics that the client may never read is refused, not only the deliveries.", reload: true),
    ]

    /// mosquitto's plug-ins, which are built in.
    static let pluginOptions: [ConfigurationOption] = [
        plugin,
        plugin.formerly("auth_plugin"),
        .init(
            "global_plugin", .globalPlugin, shape: "PATH", "The same for every listener, also with per_listener_settings true."),
        .init("plugin_load", .pluginLoad, shape: "NAME PATH", "Names a plug-in, for plugin_use."),
        .init(
            "plugin_use", .pluginUse, shape: "NAME",
            "Uses a plug-in that plugin_load has named, in a listener's section for this listener only."),
        pluginOption,
        authenticationOption,
        .init(
            "auth_plugin_deny_special_chars", \SecurityConfiguration.deniesSpecialCharacters, .boolean,
            "Formerly whether a user name or client identifier with + or # was denied whatever a plug-in would decide.",
            status: .withoutEffect("the built-in plug-ins deny such names where their patterns would let them in")),
    ]

    private static let plugin = ConfigurationOption(
        "plugin", .plugin, section: .security, shape: "PATH",
        "Enables one of mosquitto's plug-ins; only the name of the file counts, Martlet has them built in.")

    private static let pluginOption = ConfigurationOption(
        "plugin_opt_", .pluginOption(prefix: "plugin_opt_"), section: .security, shape: "VALUE",
        "An option of the plug-in that was named last.")

    private static let authenticationOption: ConfigurationOption = {
        var row = pluginOption.formerly("auth_opt_")
        row.action = .structure(.pluginOption(prefix: "auth_opt_"))
        return row
    }()
}

extension ConfigurationOption {
    /// What the broker offers and how it treats messages.
    static let messagingOptions: [ConfigurationOption] = [
        .init(
            "retain_available", \BrokerConfiguration.messaging.isRetainAvailable, .boolean,
            "Retained messages are available.", reload: true),
        .init(
            "check_retain_source", \BrokerConfiguration.messaging.checksRetainSource, .boolean,
            "A retained message is delivered only while its publisher may still write to its topic.", reload: true),
        .init(
            "retain_expiry_interval", \BrokerConfiguration.messaging.retainExpirySweepMinutes, .limit(.largestTime / 60),
            """
            The minutes between two sweeps that remove expired retained messages, also from the store; with 0 they are removed when found.
            Expired messages are never delivered.
            """, reload: true),
        .init(
            "queue_qos0_messages", \BrokerConfiguration.messaging.queuesQoS0Messages, .boolean,
            "QoS 0 messages are queued for disconnected clients too.", reload: true),
        .init(
            "upgrade_outgoing_qos", \BrokerConfiguration.messaging.upgradesOutgoingQoS, .boolean,
            "Messages are delivered with the subscription's QoS even if they were published with a lower one.",
            reload: true),
        .init(
            "allow_duplicate_messages", \BrokerConfiguration.messaging.allowsDuplicateMessages, .boolean,
            "Formerly whether a client whose subscriptions overlap gets a message for each of them.", reload: true,
            status: .withoutEffect("a client gets a message once, however many of its subscriptions match")),
        .init(
            "martlet_queue_drop", \BrokerConfiguration.messaging.queueDropPolicy, .choice,
            """
            What is dropped when a client's queue is full: the newest message, or the oldest. With refuse nothing is dropped: a message of
            QoS 1 or 2 is refused with Quota exceeded (0x97) before anybody gets it, and may be sent again. A publisher of 3.1 or 3.1.1
            gets no answer instead, and is disconnected when there is room, so that it sends the message again. Publishers on other
            threads are refused until half of the queue is free.
            """, reload: true),
        .init(
            "martlet_wills_at_stop", \BrokerConfiguration.messaging.publishesWillsAtStop, .boolean,
            """
            Wills are published when the broker stops or is drained. With false those of MQTT 5.0 clients are not, which learn from DISCONNECT
            that they can come back: a session that outlives the stop keeps its will until its client is back or the session ends; for
            other sessions it is discarded. Wills of 3.1 and 3.1.1 clients are always published.
            """, reload: true),
        .init(
            "martlet_session_owner", \BrokerConfiguration.messaging.foreignSessionPolicy, .choice,
            "What happens to a session when another user connects with its client identifier: it is discarded, or the user is refused.",
            reload: true),
        .init(
            "martlet_presence_events", \BrokerConfiguration.messaging.presenceEvents, .choice,
            """
            Which client events are published below $SYS/brokers/NODE/clients/CLIENT/ as JSON: with connections connected and disconnected,
            with all subscribed, unsubscribed and refused too. They hold names and addresses: without an acl_file a client can read
            only its own, with one it needs a rule that begins with $SYS/brokers/.
            """, reload: true),
        .init(
            "martlet_shared_subscriptions", \BrokerConfiguration.messaging.areSharedSubscriptionsAvailable, .boolean,
            "Shared subscriptions are available."),
        .init(
            "martlet_wildcard_subscriptions", \BrokerConfiguration.messaging.areWildcardSubscriptionsAvailable, .boolean,
            "Subscriptions with wildcards are available."),
        .init(
            "martlet_subscription_identifiers", \BrokerConfiguration.messaging.areSubscriptionIdentifiersAvailable, .boolean,
            "Subscription identifiers are available."),
        .init(
            "martlet_reason_strings", \BrokerConfiguration.messaging.sendsReasonStrings, .boolean,
            "MQTT 5.0 clients get a Reason String with every refusal. mosquitto never sends one.", reload: true),
        .init(
            "martlet_validate_payload_format", \BrokerConfiguration.messaging.validatesPayloadFormat, .boolean,
            "Checks that a payload marked as UTF-8 (Payload Format Indicator) is UTF-8.", reload: true),
    ]
}
