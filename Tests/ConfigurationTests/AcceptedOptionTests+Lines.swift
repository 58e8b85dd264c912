import Configuration

/// The lines, section by section.
extension AcceptedOptionTests {
    static let globalLines: [AcceptedOption] = [
        .global("user nobody") { $0.general.userName = "nobody" },
        .global("pid_file /run/martlet.pid") { $0.general.processIdentifierFile = "/run/martlet.pid" },
        .global("sys_interval 0") { $0.general.systemTopicIntervalSeconds = nil },
        .global("sys_interval 65535") { $0.general.systemTopicIntervalSeconds = 65535 },
        .global("enable_control_api true") { $0.general.enablesControlAPI = true },
        .global("set_tcp_nodelay 1") { $0.general.disablesTCPDelay = true },
        .global("packet_buffer_size 8192") { $0.general.webSocketHeaderBytesMax = 8192 },
        .global("websockets_headers_size 1024") { $0.general.webSocketHeaderBytesMax = 1024 },
        .global("martlet_threads 4") { $0.general.threads = 4 },
        .global("martlet_threads 0") { $0.general.threads = nil },
        .global("martlet_connect_timeout 5") { $0.general.connectTimeoutSeconds = 5 },
        .global("martlet_compat 2.0") {
            $0.general.compatibility = .version2_0
            $0.limits.packet.bytesMax = nil
            $0.limits.keepAliveSecondsMax = 65535
            $0.messaging.allowsDuplicateMessages = false
        },
        .global("martlet_profile internet") {
            $0 = read(ConfigurationProfile.internet.lines.map { "\($0.name) \($0.value)\n" }.joined()).configuration
            $0.general.profile = .internet
        },
        .global("martlet_expand_environment true") { $0.general.expandsEnvironment = true },
        .global("retry_interval 20") { _ in },
        .global("websockets_log_level 255") { _ in },

        .global("retain_available false") { $0.messaging.isRetainAvailable = false },
        .global("check_retain_source false") { $0.messaging.checksRetainSource = false },
        .global("martlet_reason_strings false") { $0.messaging.sendsReasonStrings = false },
        .global("retain_expiry_interval 5") { $0.messaging.retainExpirySweepMinutes = 5 },
        .global("queue_qos0_messages true") { $0.messaging.queuesQoS0Messages = true },
        .global("upgrade_outgoing_qos true") { $0.messaging.upgradesOutgoingQoS = true },
        .global("allow_duplicate_messages 0") { $0.messaging.allowsDuplicateMessages = false },
        .global("martlet_presence_events connections") { $0.messaging.presenceEvents = .connections },
        .global("martlet_presence_events all") { $0.messaging.presenceEvents = .all },
        .global("martlet_node_name the house") { $0.general.nodeName = "the house" },
        .global("martlet_slow_client log 30s") { $0.limits.slowClients = SlowClients(disconnects: false, seconds: 30) },
        .global("martlet_slow_client disconnect 5") { $0.limits.slowClients = SlowClients(disconnects: true, seconds: 5) },
        .global("martlet_ban_after 10/60s 300s") {
            $0.limits.banAfter = OffenceLimit(count: 10, windowSeconds: 60, banSeconds: 300)
        },
        .global("martlet_flapping 15/60 300") {
            $0.limits.flapping = OffenceLimit(count: 15, windowSeconds: 60, banSeconds: 300)
        },
        .global("martlet_queue_drop oldest") { $0.messaging.queueDropPolicy = .oldest },
        .global("martlet_queue_drop refuse") { $0.messaging.queueDropPolicy = .refuse },
        .global("martlet_wills_at_stop false") { $0.messaging.publishesWillsAtStop = false },
        .global("martlet_wills_at_stop true") { _ in },
        .global("martlet_session_owner refuse") { $0.messaging.foreignSessionPolicy = .refuse },
        .global("martlet_session_owner discard") { _ in },
        .global("martlet_shared_subscriptions false") { $0.messaging.areSharedSubscriptionsAvailable = false },
        .global("martlet_wildcard_subscriptions false") { $0.messaging.areWildcardSubscriptionsAvailable = false },
        .global("martlet_subscription_identifiers false") { $0.messaging.areSubscriptionIdentifiersAvailable = false },
        .global("martlet_validate_payload_format true") { $0.messaging.validatesPayloadFormat = true },

        .global("global_max_clients 10") { $0.limits.clientsMax = 10 },
        .global("global_max_connections -1") { $0.limits.connectionsMax = nil },
        .global("global_max_connections 7") { $0.limits.connectionsMax = 7 },
        .global("memory_limit 1000000000") { $0.limits.memoryBytesMax = 1_000_000_000 },
        .global("max_packet_size 20") { $0.limits.packet.bytesMax = 20 },
        .global("martlet_max_connect_size 256") { $0.limits.packet.connectBytesMax = 256 },
        .global("martlet_max_connecting_bytes 1000000") { $0.limits.connectingBytesMax = 1_000_000 },
        .global("martlet_max_connecting_bytes 0") { $0.limits.connectingBytesMax = nil },
        .global("message_size_limit 100") { $0.limits.packet.payloadBytesMax = 100 },
        .global("max_inflight_messages 0") { $0.limits.queue.inflightMessagesMax = nil },
        .global("max_inflight_messages 65535") { $0.limits.queue.inflightMessagesMax = 65535 },
        .global("max_inflight_bytes 1") { $0.limits.queue.inflightBytesMax = 1 },
        .global("max_queued_messages 0") { $0.limits.queue.messagesMax = nil },
        .global("max_queued_bytes 1") { $0.limits.queue.bytesMax = 1 },
        .global("martlet_queue_messages_in_memory 1") { $0.limits.queue.messagesInMemoryMax = 1 },
        .global("martlet_queue_bytes_in_memory 1") { $0.limits.queue.bytesInMemoryMax = 1 },
        .global("max_keepalive 60") { $0.limits.keepAliveSecondsMax = 60 },
        .global("persistent_client_expiration 90s") { $0.limits.persistentClientExpirationSeconds = 90 },
        .global("persistent_client_expiration 2h") { $0.limits.persistentClientExpirationSeconds = 7200 },
        .global("persistent_client_expiration 14d") { $0.limits.persistentClientExpirationSeconds = 14 * 86400 },
        .global("persistent_client_expiration 1w") { $0.limits.persistentClientExpirationSeconds = 7 * 86400 },
        .global("persistent_client_expiration 2m") { $0.limits.persistentClientExpirationSeconds = 60 * 86400 },
        .global("persistent_client_expiration 1y") { $0.limits.persistentClientExpirationSeconds = 365 * 86400 },
        .global("martlet_max_session_expiry_interval 3600") { $0.limits.sessionExpiryIntervalSecondsMax = 3600 },
        .global("martlet_max_topic_levels 10") { $0.limits.packet.topicLevelsMax = 10 },
        .global("martlet_max_topic_length 100") { $0.limits.packet.topicBytesMax = 100 },
        .global("martlet_max_subscriptions_per_client 10") { $0.limits.subscriptionsPerClientMax = 10 },
        .global("martlet_output_bytes_max 65536") { $0.limits.outputBytesMax = 65536 },
        .global("martlet_max_messages_per_second 9") { $0.limits.messagesPerSecondMax = 9 },
        .global("martlet_max_bytes_per_second 9") { $0.limits.bytesPerSecondMax = 9 },
        .global("martlet_max_connections_per_second_per_address 9") { $0.limits.connectionsPerSecondPerAddressMax = 9 },
        .global("martlet_max_connections_per_second 9") { $0.limits.connectionsPerSecondMax = 9 },
        .global("martlet_max_connections_per_address 9") { $0.limits.connectionsPerAddressMax = 9 },
        .global("martlet_max_connections_per_network 500") {
            $0.limits.connectionsPerNetwork = NetworkConnectionLimit(count: 500, ipv4Bits: 24, ipv6Bits: 48)
        },
        .global("martlet_max_connections_per_network 5 /16 /64") {
            $0.limits.connectionsPerNetwork = NetworkConnectionLimit(count: 5, ipv4Bits: 16, ipv6Bits: 64)
        },
        .global("martlet_max_connections_per_user 9") { $0.limits.connectionsPerUserMax = 9 },
        .global("martlet_max_sessions_per_user 9") { $0.limits.sessionsPerUserMax = 9 },
        .global("martlet_max_subscriptions_per_user 0") { $0.limits.subscriptionsPerUserMax = nil },
        .global("martlet_default_rule read public/#\nmartlet_default_rule a b") {
            $0.limits.defaultRules = ["read public/#", "a b"]
            $0.listeners[0].defaultRules = ["read public/#", "a b"]
        },
        .global("martlet_clientid_prefix %u-") {
            $0.limits.userIdentifierPrefix = "%u-"
            $0.listeners[0].userIdentifierPrefix = "%u-"
        },
        .global("martlet_max_handshakes 9") { $0.limits.handshakesMax = 9 },
        .global("martlet_max_handshakes 0") { $0.limits.handshakesMax = nil },

        .global("persistence true") { $0.persistence.isEnabled = true },
        .global("retained_persistence true") { $0.persistence.isEnabled = true },
        .global("persistence_location /var/lib/my broker/") { $0.persistence.location = "/var/lib/my broker/" },
        .global("persistence_file x.db") { $0.persistence.file = "x.db" },
        .global("martlet_durability interval  30") {
            $0.persistence.durability = .interval(seconds: 30)
            $0.listeners[0].durability = .interval(seconds: 30)
        },
        .global("martlet_durability none") {
            $0.persistence.durability = .none
            $0.listeners[0].durability = .none
        },
        .global("martlet_durability commit") { $0.persistence.durability = .commit },
        .global("martlet_store_bytes_max 1000000") { $0.persistence.bytesMax = 1_000_000 },
        .global("martlet_store_bytes_max 0") { $0.persistence.bytesMax = nil },
        .global("autosave_interval 0") { $0.persistence.autosaveInterval = nil },
        .global("autosave_on_changes true") { $0.persistence.autosavesOnChanges = true },

        .global("log_dest file /var/log/my log") { $0.logging.destinations = [.file(path: "/var/log/my log")] },
        .global("log_dest stdout\nlog_dest syslog\nlog_dest topic\nlog_dest stderr\nlog_dest stdout") {
            $0.logging.destinations = [.standardOutput, .syslog, .topic, .standardError]
        },
        .global("martlet_http_user ann admin\nmartlet_http_user bob viewer") {
            $0.administration.users = ["ann": .admin, "bob": .viewer]
        },
        .global("martlet_http_token_file /etc/tokens") { $0.administration.tokenFile = "/etc/tokens" },
        .global("martlet_http_host a.example\nmartlet_http_host b.example") {
            $0.administration.hosts = ["a.example", "b.example"]
        },
        .global("martlet_http_origin https://a.example") { $0.administration.origins = ["https://a.example"] },
        .global("martlet_http_payloads none") { $0.administration.payloads = .none },
        .global("martlet_metrics_anonymous true") { $0.administration.areMetricsAnonymous = true },
        .global("martlet_cluster_servers nats://a:4222, tls://b\nmartlet_cluster_name c") {
            $0.cluster.servers = ["nats://a:4222", "tls://b"]
            $0.cluster.name = "c"
        },
        .global("martlet_cluster_name Plant-1_b") { $0.cluster.name = "Plant-1_b" },
        .global("martlet_cluster_detached local") { $0.cluster.detached = .local },
        .global("martlet_cluster_partitions 4") { $0.cluster.partitions = 4 },
        .global("martlet_node_address [::1]:1883") { $0.cluster.nodeAddress = "[::1]:1883" },
        .global("martlet_node_address hall-1.example") { $0.cluster.nodeAddress = "hall-1.example" },
        .global("martlet_cluster_session_wait 0") { $0.cluster.sessionWaitSeconds = 0 },
        .global("martlet_cluster_mode synced") { $0.cluster.mode = .synced },
        .global("martlet_cluster_monitors http://a:8222, http://b") { $0.cluster.monitors = ["http://a:8222", "http://b"] },
        .global("martlet_cluster_replicas 3") { $0.cluster.replicas = 3 },
        .global("martlet_cluster_user u") { $0.cluster.userName = "u" },
        .global("martlet_cluster_password p w") { $0.cluster.password = "p w" },
        .global("martlet_cluster_token t") { $0.cluster.token = "t" },
        .global("martlet_cluster_nkey_file /etc/k") { $0.cluster.keyFile = "/etc/k" },
        .global("martlet_cluster_tls true") { $0.cluster.requiresTLS = true },
        .global("martlet_cluster_cafile /etc/ca") { $0.cluster.authoritiesFile = "/etc/ca" },
        .global("martlet_cluster_certfile /etc/c") { $0.cluster.certificateFile = "/etc/c" },
        .global("martlet_cluster_keyfile /etc/k") { $0.cluster.certificateKeyFile = "/etc/k" },
        .global("martlet_audit_log /var/log/audit") { $0.administration.auditFile = "/var/log/audit" },
        .global("log_dest none") { $0.logging.destinations = [] },
        .global("log_type debug\nlog_type websockets") { $0.logging.types = [.debug, .webSockets] },
        .global("log_type all") { $0.logging.types = .all },
        .global("log_type none") { $0.logging.types = [] },
        .global("log_facility 7") { $0.logging.syslogLocalFacility = 7 },
        .global("log_timestamp false") { $0.logging.hasTimestamp = false },
        .global("log_timestamp_format %Y-%m-%dT%H:%M:%S") { $0.logging.timestampFormat = "%Y-%m-%dT%H:%M:%S" },
        .global("connection_messages false") { $0.logging.logsConnections = false },
        .global("martlet_log_format json") { $0.logging.format = .json },
    ]

    static let securityLines: [AcceptedOption] = [
        .security("allow_anonymous false") { $0.allowsAnonymous = false },
        .security("password_file /etc/a b") { $0.passwordFile = "/etc/a b" },
        .security("martlet_scram_file /etc/scram") { $0.scramFile = "/etc/scram" },
        .security("martlet_jwt_keys /etc/keys.json\nmartlet_jwt_algorithms RS256 EdDSA") {
            ($0.tokens.keys, $0.tokens.algorithms) = ("/etc/keys.json", [.rs256, .eddsa])
        },
        .security("martlet_jwt_keys https://a.example/k\nmartlet_jwt_algorithms ES256\nmartlet_jwt_cafile /ca") {
            ($0.tokens.keys, $0.tokens.algorithms, $0.tokens.authoritiesFile) = ("https://a.example/k", [.es256], "/ca")
        },
        .security("martlet_jwt_secret_file /etc/s\nmartlet_jwt_algorithms HS256 HS512") {
            ($0.tokens.secretFile, $0.tokens.algorithms) = ("/etc/s", [.hs256, .hs512])
        },
        .security("martlet_jwt_from username") { $0.tokens.location = .userName },
        .security("martlet_jwt_issuer https://a.example\nmartlet_jwt_issuer b c") {
            $0.tokens.issuers = ["https://a.example", "b c"]
        },
        .security("martlet_jwt_audience mqtt\nmartlet_jwt_audience broker") { $0.tokens.audiences = ["mqtt", "broker"] },
        .security("martlet_jwt_require tenant=blue\nmartlet_jwt_require exp") {
            $0.tokens.requiredClaims = ["tenant=blue", "exp"]
        },
        .security("martlet_jwt_leeway 0") { $0.tokens.leewaySeconds = 0 },
        .security("martlet_jwt_username_claim none") { $0.tokens.userNameClaim = nil },
        .security("martlet_jwt_username_claim preferred_username") { $0.tokens.userNameClaim = "preferred_username" },
        .security("martlet_jwt_clientid_claim device") { $0.tokens.clientIdentifierClaim = "device" },
        .security("martlet_jwt_roles_claim realm_access.roles") { $0.tokens.rolesClaim = "realm_access.roles" },
        .security("martlet_jwt_acl_claim none") { $0.tokens.accessClaim = nil },
        .security("martlet_jwt_max_size 4096") { $0.tokens.bytesMax = 4096 },
        .security("martlet_jwt_algorithms Ed25519") { $0.tokens.algorithms = [.ed25519] },
        .security("martlet_jwt_cafile /ca") { $0.tokens.authoritiesFile = "/ca" },
        .security("martlet_introspection_client_id a\nmartlet_introspection_secret_file s") {
            ($0.tokens.introspection.clientIdentifier, $0.tokens.introspection.secretFile) = ("a", "s")
        },
        .security("martlet_introspection_secret_file s\nmartlet_introspection_client_id a") {
            ($0.tokens.introspection.clientIdentifier, $0.tokens.introspection.secretFile) = ("a", "s")
        },
        .security("martlet_introspection_cafile /ca") { $0.tokens.introspection.authoritiesFile = "/ca" },
        .security("martlet_introspection_cache 3600") { $0.tokens.introspection.cacheSeconds = 3600 },
        .security("martlet_introspection_url https://a.example/introspect") {
            $0.tokens.introspection.url = "https://a.example/introspect"
        },
        .security(
            "martlet_introspection_url https://a.example/i\nmartlet_introspection_client_id martlet\n"
                + "martlet_introspection_secret_file /etc/s\nmartlet_introspection_cafile /ca\nmartlet_introspection_cache 0"
        ) {
            $0.tokens.introspection.url = "https://a.example/i"
            $0.tokens.introspection.clientIdentifier = "martlet"
            $0.tokens.introspection.secretFile = "/etc/s"
            $0.tokens.introspection.authoritiesFile = "/ca"
            $0.tokens.introspection.cacheSeconds = nil
        },
        .security("acl_file /etc/acl") { $0.accessControlFile = "/etc/acl" },
        .security("psk_file /etc/psk") { $0.preSharedKeyFile = "/etc/psk" },
        .security("allow_zero_length_clientid false") { $0.allowsZeroLengthClientIdentifier = false },
        .security("auto_id_prefix x-") { $0.assignedIdentifierPrefix = "x-" },
        .security("clientid_prefixes x-") { $0.clientIdentifierPrefix = "x-" },
        .security("martlet_acl_check_subscribe true") { $0.checksAccessOnSubscribe = true },
        .security("martlet_auth_chain http  password_file") { $0.logins.chain = [.http, .passwordFile] },
        .security("martlet_auth_cache 300") { $0.logins.cacheSeconds = 300 },
        .security("martlet_auth_cache_jitter 30") { $0.logins.cacheJitterSeconds = 30 },
        .security("martlet_auth_unavailable allow-cached") { $0.logins.unavailable = .allowCached },
        .security("martlet_http_auth_url https://users/login") { $0.logins.http.url = "https://users/login" },
        .security("martlet_http_authorize_url http://users:8080/rules") { $0.logins.http.rulesURL = "http://users:8080/rules" },
        .security("martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn ou=people,dc=x") {
            ($0.logins.ldap.url, $0.logins.ldap.userEntry) = ("ldaps://d", "ou=people,dc=x")
        },
        .security("martlet_ldap_user_dn uid=%u,dc=x\nmartlet_ldap_url ldap://d\nmartlet_ldap_starttls true") {
            ($0.logins.ldap.url, $0.logins.ldap.userEntry, $0.logins.ldap.startsTLS) = ("ldap://d", "uid=%u,dc=x", true)
        },
        .security("martlet_ldap_starttls true") { $0.logins.ldap.startsTLS = true },
        .security("martlet_ldap_cafile /ca") { $0.logins.ldap.authoritiesFile = "/ca" },
        .security("martlet_ldap_certfile /c") { $0.logins.ldap.certificateFile = "/c" },
        .security("martlet_ldap_keyfile /k") { $0.logins.ldap.keyFile = "/k" },
        .security("martlet_ldap_bind_dn cn=b\nmartlet_ldap_bind_password a b") {
            ($0.logins.ldap.brokerEntry, $0.logins.ldap.brokerPassword) = ("cn=b", "a b")
        },
        .security("martlet_ldap_bind_password p\nmartlet_ldap_bind_dn cn=b") {
            ($0.logins.ldap.brokerEntry, $0.logins.ldap.brokerPassword) = ("cn=b", "p")
        },
        .security("martlet_ldap_user_filter (cn=%u)") { $0.logins.ldap.userFilter = "(cn=%u)" },
        .security("martlet_ldap_compare_attribute userPassword") { $0.logins.ldap.comparedAttribute = "userPassword" },
        .security("martlet_ldap_superuser_filter (a=b)") { $0.logins.ldap.superuserFilter = "(a=b)" },
        .security("martlet_ldap_group_dn ou=g") { $0.logins.ldap.groupEntry = "ou=g" },
        .security("martlet_ldap_group_filter (memberUid=%u)") { $0.logins.ldap.groupFilter = "(memberUid=%u)" },
        .security("martlet_ldap_role_attribute cn") { $0.logins.ldap.roleAttribute = "cn" },
        .security("martlet_ldap_topic_attribute t") { $0.logins.ldap.topicAttribute = "t" },
        .security("martlet_ldap_access_attribute a") { $0.logins.ldap.accessAttribute = "a" },
        .security("martlet_ldap_timeout 60") { $0.logins.ldap.timeoutSeconds = 60 },
        .security("martlet_http_auth_timeout 2") { $0.logins.http.timeoutSeconds = 2 },
        .security("martlet_http_auth_cafile /etc/ca") { $0.logins.http.authoritiesFile = "/etc/ca" },
        .security("martlet_http_auth_certfile /etc/c") { $0.logins.http.certificateFile = "/etc/c" },
        .security("martlet_http_auth_keyfile /etc/k") { $0.logins.http.keyFile = "/etc/k" },
        .security("martlet_http_auth_token_file /etc/t") { $0.logins.http.tokenFile = "/etc/t" },
        .security("auth_plugin_deny_special_chars false") { $0.deniesSpecialCharacters = false },
    ]

    static let listenerLines: [AcceptedOption] = [
        .listener("protocol websockets") { $0.application = .webSockets },
        .listener("protocol http_api") { $0.application = .httpAPI },
        .listener("accept_protocol_versions ,   3   ,    4") { $0.acceptedProtocolVersions = [3, 4] },
        .listener("accept_protocol_versions 3, 5") { $0.acceptedProtocolVersions = [3, 5] },
        .listener("listener_allow_anonymous false") { $0.security.allowsAnonymous = false },
        .listener("listener_auto_id_prefix x-") { $0.security.assignedIdentifierPrefix = "x-" },
        .listener("use_username_as_clientid true") { $0.usesUserNameAsClientIdentifier = true },
        .listener("mount_point a/") { $0.mountPoint = "a/" },
        .listener("mount_point %u/%{client_attrs.site}/") { $0.mountPoint = "%u/%{client_attrs.site}/" },
        .listener("max_connections 5") { $0.connectionsMax = 5 },
        .listener("max_connections -1") { $0.connectionsMax = nil },
        .listener("max_qos 0") { $0.qosMax = 0 },
        .listener("maximum_qos 1") { $0.qosMax = 1 },
        .listener("max_topic_alias 65535") { $0.topicAliasMax = 65535 },
        .listener("max_topic_alias_broker 0") { $0.topicAliasMaxBroker = 0 },
        .listener("socket_domain ipv6") { $0.addressFamily = .ipv6 },
        .listener("bind_interface eth0") { $0.interface = "eth0" },
        .listener("enable_proxy_protocol 2") { $0.proxyProtocolVersion = 2 },
        .listener("proxy_protocol_v2_require_tls true") { $0.proxyProtocolRequiresTLS = true },
        .listener("martlet_proxy_trusted 192.0.2.1 10.0.0.0/8\nmartlet_proxy_trusted 2001:db8::/32 ::/0") {
            $0.trustedProxies = ["192.0.2.1/32", "10.0.0.0/8", "2001:db8::/32", "::/0"].compactMap { NetworkRange($0) }
        },
        .listener("martlet_allow_from 192.0.2.1 10.0.0.0/8\nmartlet_allow_from ::1") {
            $0.addresses.allowed = ["192.0.2.1/32", "10.0.0.0/8", "::1/128"].compactMap { NetworkRange($0) }
        },
        .listener("martlet_deny_from 10.0.0.0/8") { $0.addresses.denied = ["10.0.0.0/8"].compactMap { NetworkRange($0) } },
        .listener("martlet_allow_from_file a\nmartlet_allow_from_file b c") { $0.addresses.allowedFiles = ["a", "b c"] },
        .listener("martlet_deny_from_file a") { $0.addresses.deniedFiles = ["a"] },
        .listener("martlet_default_rule write,qos=1 %c/#") { $0.defaultRules = ["write,qos=1 %c/#"] },
        .listener("martlet_clientid_prefix a-") { $0.userIdentifierPrefix = "a-" },
        .listener("martlet_max_connections_per_second 7") { $0.connectionsPerSecondMax = 7 },
        .listener("websockets_origin http://a\nwebsockets_origin http://b") { $0.webSocketOrigins = ["http://a", "http://b"] },
        .listener("http_dir /srv") { $0.httpDirectory = "/srv" },
        .listener("martlet_http_serve metrics, health") { $0.httpOffers = [.health, .metrics] },
        .listener("martlet_http_serve api") { $0.httpOffers = [.api] },
        .listener("certfile c\nkeyfile k") {
            $0.tls.certificateFile = "c"
            $0.tls.keyFile = "k"
        },
        .listener("keyfile k\ncertfile c") {
            $0.tls.certificateFile = "c"
            $0.tls.keyFile = "k"
        },
        .listener("tls_version tlsv1.3") { $0.tls.versionMin = .tls1_3 },
        .listener("ciphers A:B") { $0.tls.ciphers = "A:B" },
        .listener("ciphers_tls1.3 A") { $0.tls.cipherSuites = "A" },
        .listener("dhparamfile d") { $0.tls.diffieHellmanParametersFile = "d" },
        .listener("cafile a") { $0.tls.authoritiesFile = "a" },
        .listener("capath a") { $0.tls.authoritiesDirectory = "a" },
        .listener("crlfile a") { $0.tls.revocationListFile = "a" },
        .listener("require_certificate true") { $0.tls.requiresCertificate = true },
        .listener("use_identity_as_username true") { $0.tls.userNameSource = .identity },
        .listener("use_subject_as_username true") { $0.tls.userNameSource = .subject },
        .listener("\(mutual)martlet_certificate_username san-uri 2") {
            useMutual(&$0)
            $0.tls.userNameSource = .name(CertificateNameChoice(.uri, index: 2))
        },
        .listener("\(mutual)martlet_certificate_clientid spiffe") {
            useMutual(&$0)
            $0.tls.clientIdentifierSource = CertificateNameChoice(.spiffe)
        },
        .listener("martlet_certificate_and_login true") { $0.tls.requiresPasswordToo = true },
        .listener("martlet_certificate_known_user true") { $0.tls.requiresKnownUser = true },
        .listener("\(mutual)martlet_certificate_attribute department ou") {
            useMutual(&$0)
            $0.tls.certificateAttributes = [CertificateAttribute(name: "department", part: .organizationalUnit)]
        },
        .listener("\(mutual)martlet_certificate a b\nmartlet_certificate c d") {
            useMutual(&$0)
            $0.tls.namedCertificates = [
                NamedCertificate(certificateFile: "a", keyFile: "b"), NamedCertificate(certificateFile: "c", keyFile: "d"),
            ]
        },
        .listener("martlet_sni_strict true") { $0.tls.refusesUnknownHosts = true },
        .listener("martlet_tls_tickets false") { $0.tls.givesTickets = false },
        .listener("martlet_tls_ticket_lifetime 60") { $0.tls.ticketSeconds = 60 },
        .listener("martlet_tls_ticket_key_file a\nmartlet_tls_ticket_key_file b") { $0.tls.ticketKeyFiles = ["a", "b"] },
        .listener("martlet_ocsp_file o") { $0.tls.statusFile = "o" },
        .listener("martlet_tls_groups X25519:P-256") { $0.tls.groups = "X25519:P-256" },
        .listener("disable_client_cert_date_checks true") { $0.tls.ignoresCertificateDates = true },
        .listener("psk_hint h") { $0.tls.preSharedKeyHint = "h" },
        .listener("martlet_durability interval 5") { $0.durability = .interval(seconds: 5) },
        .listener("martlet_durability none") { $0.durability = .none },
        .listener("tls_engine e") { _ in },
        .listener("tls_engine_kpass_sha1 e") { _ in },
        .listener("tls_keyform engine") { _ in },
    ]

    /// TLS with certificates of the clients.
    static let mutual = "certfile c\nkeyfile k\ncafile a\nrequire_certificate true\n"

    @Sendable private static func useMutual(_ listener: inout ListenerConfiguration) {
        (listener.tls.certificateFile, listener.tls.keyFile, listener.tls.authoritiesFile) = ("c", "k", "a")
        listener.tls.requiresCertificate = true
    }

    static let bridgeLines: [AcceptedOption] = [
        .bridge("address a.example:8883 b") {
            $0.addresses += [BridgeAddress(host: "a.example", port: 8883), BridgeAddress(host: "b")]
        },
        .bridge("addresses [::1]:1 [fe80::1] ::1") {
            $0.addresses += [BridgeAddress(host: "::1", port: 1), BridgeAddress(host: "fe80::1"), BridgeAddress(host: "::1")]
        },
        .bridge("topic a/#") { $0.topics += [BridgeTopic(pattern: "a/#")] },
        .bridge("topic \"a b/+\" both 2 l/ \"r r/\"") {
            $0.topics += [BridgeTopic(pattern: "a b/+", direction: .both, qos: 2, localPrefix: "l/", remotePrefix: "r r/")]
        },
        .bridge("topic \"\" in 1 l r") {
            $0.topics += [BridgeTopic(pattern: "", direction: .in, qos: 1, localPrefix: "l", remotePrefix: "r")]
        },
        .bridge("topic a out 0 \"\" r/") { $0.topics += [BridgeTopic(pattern: "a", remotePrefix: "r/")] },
        .bridge("start_type lazy") { $0.schedule.start = .lazy },
        .bridge("start_type once") { $0.schedule.start = .once },
        .bridge("threshold 3") { $0.schedule.lazyThresholdMessages = 3 },
        .bridge("idle_timeout 3") { $0.schedule.idleTimeoutSeconds = 3 },
        .bridge("restart_timeout 3") { $0.schedule.restart = BridgeRestart(baseSeconds: 3, capSeconds: nil) },
        .bridge("restart_timeout 3 9 60") { $0.schedule.restart = BridgeRestart(baseSeconds: 3, capSeconds: 9, stableSeconds: 60) },
        .bridge("round_robin true") { $0.schedule.isRoundRobin = true },
        .bridge("bridge_bind_address 10.0.0.1") { $0.tcp.bindAddress = "10.0.0.1" },
        .bridge("bridge_tcp_keepalive 1 2 3") {
            $0.tcp.keepAlive = TCPKeepAlive(idleSeconds: 1, intervalSeconds: 2, count: 3)
        },
        .bridge("bridge_tcp_user_timeout 500") { $0.tcp.userTimeoutMilliseconds = 500 },
        .bridge("bridge_reload_type immediate") { $0.reload = .immediate },
        .bridge("bridge_protocol_version mqttv31") { $0.protocolVersion = 3 },
        .bridge("bridge_protocol_version mqttv50") { $0.protocolVersion = 5 },
        .bridge("cleansession true") { $0.session.startsClean = true },
        .bridge("local_cleansession false") { $0.session.startsCleanLocally = false },
        .bridge("remote_clientid x") { $0.remote.clientIdentifier = "x" },
        .bridge("clientid x") { $0.remote.clientIdentifier = "x" },
        .bridge("remote_username x") { $0.remote.userName = "x" },
        .bridge("username x\npassword p w") {
            $0.remote.userName = "x"
            $0.remote.password = "p w"
        },
        .bridge("password p\nusername x") {
            $0.remote.userName = "x"
            $0.remote.password = "p"
        },
        .bridge("remote_password p\nusername x") {
            $0.remote.userName = "x"
            $0.remote.password = "p"
        },
        .bridge("local_clientid x") { $0.local.clientIdentifier = "x" },
        .bridge("local_username x") { $0.local.userName = "x" },
        .bridge("local_password x") { $0.local.password = "x" },
        .bridge("keepalive_interval 5") { $0.keepAliveSeconds = 5 },
        .bridge("try_private false") { $0.announcesBridge = false },
        .bridge("notifications false") { $0.notifications.isEnabled = false },
        .bridge("notifications_local_only true") { $0.notifications.isLocalOnly = true },
        .bridge("notification_topic a/b") { $0.notifications.topic = "a/b" },
        .bridge("bridge_attempt_unsubscribe false") { $0.attemptsUnsubscribe = false },
        .bridge("bridge_outgoing_retain false") { $0.sendsRetain = false },
        .bridge("bridge_max_packet_size 100") { $0.packetBytesMax = 100 },
        .bridge("bridge_max_topic_alias 0") { $0.topicAliasMax = 0 },
        .bridge("bridge_receive_maximum 1") { $0.receiveMaximum = 1 },
        .bridge("martlet_bridge_max_queued_messages 0") { $0.queue.messagesMax = 0 },
        .bridge("martlet_bridge_max_queued_bytes 1000000000000") { $0.queue.bytesMax = 1_000_000_000_000 },
        .bridge("martlet_bridge_queue_drop refuse") { $0.queue.dropPolicy = .refuse },
        .bridge("martlet_bridge_connections 64") { $0.connectionCount = 64 },
        .bridge("bridge_session_expiry_interval 4294967295") { $0.session.expiryIntervalSeconds = 4_294_967_295 },
        .bridge("martlet_bridge_path false") { $0.saysBrokers = false },
        .bridge("bridge_cafile a") { $0.tls.authoritiesFile = "a" },
        .bridge("bridge_capath a") { $0.tls.authoritiesDirectory = "a" },
        .bridge("bridge_tls_use_os_certs true") { $0.tls.usesSystemAuthorities = true },
        .bridge("bridge_certfile c\nbridge_keyfile k") {
            $0.tls.certificateFile = "c"
            $0.tls.keyFile = "k"
        },
        .bridge("bridge_keyfile k\nbridge_certfile c") {
            $0.tls.certificateFile = "c"
            $0.tls.keyFile = "k"
        },
        .bridge("bridge_insecure true") { $0.tls.ignoresHostName = true },
        .bridge("bridge_tls_version tlsv1.3") { $0.tls.versionMin = .tls1_3 },
        .bridge("bridge_alpn mqtt") { $0.tls.applicationProtocol = "mqtt" },
        .bridge("bridge_ciphers A") { $0.tls.ciphers = "A" },
        .bridge("bridge_ciphers_tls1.3 A") { $0.tls.cipherSuites = "A" },
        .bridge("bridge_require_ocsp true") { $0.tls.requiresOCSP = true },
        .bridge("bridge_identity i\nbridge_psk 00ff") {
            $0.tls.preSharedKeyIdentity = "i"
            $0.tls.preSharedKey = "00ff"
        },
        .bridge("bridge_psk 00FF\nbridge_identity i") {
            $0.tls.preSharedKeyIdentity = "i"
            $0.tls.preSharedKey = "00FF"
        },
    ]
}
