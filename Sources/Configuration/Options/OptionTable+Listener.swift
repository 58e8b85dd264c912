extension ConfigurationOption {
    /// Where clients connect.
    static let listenerOptions: [ConfigurationOption] =
        [
            .init(
                "listener", .listener, shape: "PORT [ADDRESS]|0 PATH",
                "Opens a listener on a port, or on the Unix socket PATH. The listener options after it are for this listener.",
                reload: true),
            .init(
                "port", .port, shape: "1 to 65535", default: "1883", "The port of the default listener.", reload: true,
                isRepeatable: false, status: .deprecated("write listener PORT instead")),
            .init(
                "bind_address", .bindAddress, shape: "ADDRESS", "The address of the default listener.", reload: true,
                isRepeatable: false, status: .deprecated("write listener PORT ADDRESS instead")),
            .init(
                "protocol", \ListenerDraft.configuration.application, .choice,
                "The protocol: MQTT, MQTT over WebSockets, or HTTP for dashboard, API and metrics.", reload: true),
            .init(
                "accept_protocol_versions", \ListenerDraft.configuration.acceptedProtocolVersions, .protocolVersions,
                "The accepted versions: 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0.", reload: true),
            .init(
                "listener_allow_anonymous", optional: \ListenerDraft.allowsAnonymous, .boolean,
                "allow_anonymous for this listener.", reload: true),
            .init(
                "listener_auto_id_prefix", optional: \ListenerDraft.assignedIdentifierPrefix,
                .text("TEXT").with(expected: "at most 50 bytes") { $0.utf8.count <= 50 },
                "The prefix of the client identifiers that this listener assigns; auto- if it is not given.", reload: true),
            .init(
                "use_username_as_clientid", \ListenerDraft.configuration.usesUserNameAsClientIdentifier, .boolean,
                "The user name replaces the client identifier.", reload: true),
            .init(
                "mount_point", optional: \ListenerDraft.configuration.mountPoint, .topicPrefix("PREFIX"),
                "A prefix that all topics of these clients get.", reload: true),
            .init(
                "max_connections", \ListenerDraft.configuration.connectionsMax, .count,
                "The largest number of connections; -1 means no limit.", reload: true),
            maximumQoS,
            maximumQoS.also("maximum_qos"),
            .init(
                "max_topic_alias", \ListenerDraft.configuration.topicAliasMax, .integer(0...65535),
                "The number of topic aliases that a client may use.", reload: true),
            .init(
                "max_topic_alias_broker", \ListenerDraft.configuration.topicAliasMaxBroker, .integer(0...65535),
                "The number of topic aliases that the broker uses towards a client.", reload: true),
            .init(
                "socket_domain", optional: \ListenerDraft.configuration.addressFamily, .choice,
                "The address family to listen on; without it, both.", reload: true),
            .init(
                "bind_interface", optional: \ListenerDraft.configuration.interface, .text("DEVICE"),
                "The network interface to listen on.", reload: true),
            .init(
                "enable_proxy_protocol", optional: \ListenerDraft.configuration.proxyProtocolVersion, .integer(1...2),
                "The version of the PROXY protocol; every connection must begin with its header.", reload: true),
            .init(
                "proxy_protocol_v2_require_tls", \ListenerDraft.configuration.proxyProtocolRequiresTLS, .boolean,
                "The PROXY header must say that the client used TLS.", reload: true),
            proxyTrusted,
            webSocketsOrigin,
            .init(
                "http_dir", optional: \ListenerDraft.configuration.httpDirectory, .text("DIRECTORY"),
                "The directory of static files that a listener with protocol http_api serves.", reload: true),
            .init(
                "martlet_http_serve", \ListenerDraft.configuration.httpOffers, .offers,
                "What a listener with protocol http_api serves, separated by commas: metrics and health can have a port of their own.",
                reload: true),
        ] + listenerTLSOptions

    /// TLS on a listener. All of it is read again by a reload.
    private static let listenerTLSOptions: [ConfigurationOption] = [
        .init(
            "certfile", optional: \ListenerDraft.configuration.tls.certificateFile, .text("PATH"),
            "The listener's certificate and its chain (PEM). With keyfile it enables TLS.", reload: true),
        .init(
            "keyfile", optional: \ListenerDraft.configuration.tls.keyFile, .text("PATH"), "The private key of certfile (PEM).",
            reload: true),
        .init(
            "tls_version", \ListenerDraft.configuration.tls.versionMin, .choice, "The lowest version of TLS.", reload: true),
        .init(
            "ciphers", optional: \ListenerDraft.configuration.tls.ciphers, .text("LIST"),
            "The ciphers of TLS 1.2, as OpenSSL writes them.", reload: true),
        .init(
            "ciphers_tls1.3", optional: \ListenerDraft.configuration.tls.cipherSuites, .text("LIST"),
            "The cipher suites of TLS 1.3.", reload: true),
        .init(
            "dhparamfile", optional: \ListenerDraft.configuration.tls.diffieHellmanParametersFile, .text("PATH"),
            "Diffie-Hellman parameters.", reload: true),
        .init(
            "cafile", optional: \ListenerDraft.configuration.tls.authoritiesFile, .text("PATH"),
            "CA certificates for the clients' certificates.", reload: true),
        .init(
            "capath", optional: \ListenerDraft.configuration.tls.authoritiesDirectory, .text("DIRECTORY"),
            "The same, as a directory of files.", reload: true),
        .init(
            "crlfile", optional: \ListenerDraft.configuration.tls.revocationListFile, .text("PATH"),
            "The certificate revocation list (CRL).", reload: true),
        .init(
            "require_certificate", \ListenerDraft.configuration.tls.requiresCertificate, .boolean,
            "Only clients with a valid certificate can connect.", reload: true),
        .init(
            "use_identity_as_username", \ListenerDraft.usesIdentityAsUserName, .boolean,
            "The certificate's common name, or the identity of the pre-shared key, is the user name.", reload: true),
        .init(
            "use_subject_as_username", \ListenerDraft.usesSubjectAsUserName, .boolean,
            "The certificate's whole subject is the user name.", reload: true),
        .init(
            "disable_client_cert_date_checks", \ListenerDraft.configuration.tls.ignoresCertificateDates, .boolean,
            "Accepts certificates that are not valid yet or have expired.", reload: true),
        .init(
            "psk_hint", optional: \ListenerDraft.configuration.tls.preSharedKeyHint, .text("TEXT"),
            "Enables TLS with pre-shared keys (PSK); the text is the identity hint for clients.", reload: true),
        .init(
            ignored: "tls_engine", section: .listener, shape: "ENGINE", "Formerly an engine of OpenSSL.",
            because: "OpenSSL has given up engines"),
        .init(
            ignored: "tls_engine_kpass_sha1", section: .listener, shape: "HASH", "Formerly the password of an engine's key.",
            because: "OpenSSL has given up engines"),
        .init(
            ignored: "tls_keyform", section: .listener, shape: "pem|engine", "Formerly the form of the key.",
            because: "keys are read as PEM files"),
    ]

    private static let maximumQoS = ConfigurationOption(
        "max_qos", \ListenerDraft.configuration.qosMax, .integer(0...2), "The highest QoS that clients may publish with.",
        reload: true)

    private static let proxyTrusted: ConfigurationOption = {
        var row = ConfigurationOption(
            "martlet_proxy_trusted", shape: "ADDRESS|NETWORK ...",
            """
            Trusted proxies, such as 192.0.2.1 or 10.0.0.0/8. With enable_proxy_protocol the client's address is taken from their PROXY
            header, and other peers are refused; without this option every peer is trusted. Otherwise, for WebSockets and HTTP, it is taken
            from their X-Forwarded-For, X-Real-IP or Forwarded; without this option no peer is trusted.
            """,
            reload: true, extent: .words, set: addTrustedProxies)
        row.differs = ListenerDraft.difference { $0.configuration.trustedProxies.map(\.description).joined(separator: " ") }
        return row
    }()

    @Sendable private static func addTrustedProxies(
        _ text: String, _ listener: inout ListenerDraft, _ isFirst: Bool
    ) -> Expectation? {
        for word in text.words {
            guard let range = NetworkRange(word) else {
                return .expected("IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")
            }
            listener.configuration.trustedProxies.append(range)
        }
        return nil
    }

    private static let webSocketsOrigin: ConfigurationOption = {
        var row = ConfigurationOption(
            "websockets_origin", shape: "ORIGIN",
            "An origin from which browsers may connect; one line for each. Without one any origin may, or, on a listener of loopback, any of this machine.",
            reload: true, set: addOrigin)
        row.differs = ListenerDraft.difference { $0.configuration.webSocketOrigins.joined(separator: " ") }
        return row
    }()

    @Sendable private static func addOrigin(_ text: String, _ listener: inout ListenerDraft, _ isFirst: Bool) -> Expectation? {
        listener.configuration.webSocketOrigins.append(text)
        return nil
    }
}
