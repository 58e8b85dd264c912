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
                "mount_point", optional: \ListenerDraft.configuration.mountPoint, .mountPoint("PREFIX"),
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
            allowFrom, denyFrom, allowFromFile, denyFromFile,
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
        certificateUserName,
        .init(
            "martlet_certificate_clientid", optional: \ListenerDraft.configuration.tls.clientIdentifierSource, .certificateName,
            "What of the certificate the Client Identifier has to be; a client that gives none gets it.", reload: true),
        .init(
            "martlet_certificate_and_login", \ListenerDraft.configuration.tls.requiresPasswordToo, .boolean,
            "The user that the certificate names has to give the password too.", reload: true),
        .init(
            "martlet_certificate_known_user", \ListenerDraft.configuration.tls.requiresKnownUser, .boolean,
            """
            The user that the certificate names has to be one of password_file or of dynamic security, where it is not disabled. Otherwise a
            certificate lets in whoever it names.
            """, reload: true),
        certificateMembership(
            "martlet_certificate_group", \.certificateGroups, "GROUP",
            """
            The groups of dynamic security whose roles a client has by its certificate: those that a part of it names, as ou; or one group
            for those whose part is a value, as ou=Pump Station pumps, where the last word is the group. One line for each.
            """),
        certificateMembership(
            "martlet_certificate_role", \.certificateRoles, "ROLE",
            "The same for roles of dynamic security, which come before those of groups."),
        certificateAttribute,
        namedCertificate,
        .init(
            "martlet_sni_strict", \ListenerDraft.configuration.tls.refusesUnknownHosts, .boolean,
            "A client that asks for a host that no certificate names is refused; otherwise it is shown certfile.", reload: true),
        .init(
            "martlet_tls_tickets", \ListenerDraft.configuration.tls.givesTickets, .boolean,
            "Clients can resume their TLS sessions by tickets, which spares a handshake's work.", reload: true),
        .init(
            "martlet_tls_ticket_lifetime", \ListenerDraft.configuration.tls.ticketSeconds, .integer(1...604_800),
            "How long a ticket is good, in seconds, 1 to 604800.", reload: true),
        ticketKeyFile,
        .init(
            "martlet_ocsp_file", optional: \ListenerDraft.configuration.tls.statusFile, .text("PATH"),
            "The authority's answer (OCSP, DER) that certfile was not revoked, for clients that ask for it. It is read again when it changes.",
            reload: true),
        .init(
            "martlet_tls_groups", optional: \ListenerDraft.configuration.tls.groups, .text("LIST"),
            "The groups of the key exchange as OpenSSL writes them, such as X25519MLKEM768:X25519 (from OpenSSL 3.5 on).",
            reload: true),
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

    private static let certificateUserName: ConfigurationOption = {
        let syntax = ValueSyntax<CertificateNameChoice>.certificateName
        var row = ConfigurationOption(
            "martlet_certificate_username", shape: syntax.shape,
            """
            What of the certificate is the user name: its common name, its subject, or one of its alternative names; of several of a kind the
            one with that number, counted from 1.
            """, reload: true, isRepeatable: false, extent: .words
        ) { (text: String, listener: inout ListenerDraft, _: Bool) in
            guard let choice = syntax.parse(text) else { return .expected(syntax.expected) }
            listener.certificateUserName = choice
            return nil
        }
        row.differs = ListenerDraft.difference {
            if case .name(let choice) = $0.configuration.tls.userNameSource { syntax.render(choice) } else { nil }
        }
        return row
    }()

    private static func certificateMembership(
        _ option: String, _ path: any WritableKeyPath<ListenerTLSConfiguration, [CertificateMembership]> & Sendable,
        _ kind: String, _ summary: String
    ) -> ConfigurationOption {
        let parts = CertificatePart.allCases.map(\.rawValue).joined(separator: "|")
        var row = ConfigurationOption(
            option, shape: "\(parts)[=VALUE \(kind)]", summary, reload: true, extent: .words
        ) { (text: String, listener: inout ListenerDraft, _: Bool) in
            guard let membership = CertificateMembership(text) else {
                return .expected(
                    "a part of the certificate, such as ou, or a part, its value and the \(kind.lowercased()), such as ou=Pumps pumps"
                )
            }
            listener.configuration.tls[keyPath: path].append(membership)
            return nil
        }
        row.differs = ListenerDraft.difference {
            $0.configuration.tls[keyPath: path].map(\.text).joined(separator: "\n")
        }
        return row
    }

    private static let certificateAttribute: ConfigurationOption = {
        let parts = CertificatePart.allCases.map(\.rawValue).joined(separator: "|")
        var row = ConfigurationOption(
            "martlet_certificate_attribute", shape: "NAME \(parts)",
            """
            What %{client_attrs.NAME} stands for in rules and mount points: that part of the client's certificate, of several the first. One
            line for each attribute.
            """, reload: true, extent: .words
        ) { (text: String, listener: inout ListenerDraft, _: Bool) in
            let words = text.words
            guard words.count == 2, let part = CertificatePart(rawValue: words[1]), !words[0].contains("}") else {
                return .expected("a name and a part of the certificate, such as department ou")
            }
            listener.configuration.tls.certificateAttributes.append(CertificateAttribute(name: words[0], part: part))
            return nil
        }
        row.differs = ListenerDraft.difference {
            $0.configuration.tls.certificateAttributes.map { "\($0.name) \($0.part.rawValue)" }.joined(separator: "\n")
        }
        return row
    }()

    private static let namedCertificate: ConfigurationOption = {
        var row = ConfigurationOption(
            "martlet_certificate", shape: "CERTIFICATE KEY",
            """
            One more certificate with its chain, and its key (PEM), for clients that ask for one of the hosts that it names (SNI); one line for
            each. Others are shown certfile.
            """, reload: true, extent: .words
        ) { (text: String, listener: inout ListenerDraft, _: Bool) in
            let words = text.words
            guard words.count == 2 else { return .expected("two files, a certificate and its key") }
            listener.configuration.tls.namedCertificates.append(NamedCertificate(certificateFile: words[0], keyFile: words[1]))
            return nil
        }
        row.differs = ListenerDraft.difference {
            $0.configuration.tls.namedCertificates.map { "\($0.certificateFile) \($0.keyFile)" }.joined(separator: "\n")
        }
        return row
    }()

    private static let ticketKeyFile: ConfigurationOption = {
        var row = ConfigurationOption(
            "martlet_tls_ticket_key_file", shape: "PATH",
            """
            A file with 80 random bytes, the key of session tickets, that several nodes have so that clients can resume at any of them. Of
            several the first makes tickets, and each reads them. Without one every start has a key of its own.
            """, reload: true
        ) { (text: String, listener: inout ListenerDraft, _: Bool) in
            listener.configuration.tls.ticketKeyFiles.append(text)
            return nil
        }
        row.differs = ListenerDraft.difference { $0.configuration.tls.ticketKeyFiles.joined(separator: "\n") }
        return row
    }()

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
        networks(text) { listener.configuration.trustedProxies += $0 }
    }

    /// Reads addresses and networks, and gives them to `store` if all words are some.
    private static func networks(_ text: String, _ store: ([NetworkRange]) -> Void) -> Expectation? {
        let ranges = text.words.compactMap { NetworkRange($0) }
        guard ranges.count == text.words.count else {
            return .expected("IPv4 or IPv6 addresses and networks, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")
        }
        store(ranges)
        return nil
    }

    private static let allowFrom = addresses(
        "martlet_allow_from", \.allowed,
        """
        From where clients may connect, such as 192.0.2.1 or 10.0.0.0/8; others are refused before they have said anything. Of the networks
        that hold an address the narrowest decides, and of two alike the one that denies.
        """)

    private static let denyFrom = addresses(
        "martlet_deny_from", \.denied, "From where clients may not connect; without martlet_allow_from all others may.")

    private static let allowFromFile = addressFile(
        "martlet_allow_from_file", \.allowedFiles,
        "A file with an address or a network on each line, from where clients may connect. It is read again by a reload.")

    private static let denyFromFile = addressFile(
        "martlet_deny_from_file", \.deniedFiles, "The same, from where they may not, such as a published block list.")

    private static func addresses(
        _ name: String, _ path: any WritableKeyPath<ListenerAddresses, [NetworkRange]> & Sendable, _ summary: String
    ) -> ConfigurationOption {
        var row = ConfigurationOption(name, shape: "ADDRESS|NETWORK ...", summary, reload: true, extent: .words) {
            (text: String, listener: inout ListenerDraft, _: Bool) in
            networks(text) { listener.configuration.addresses[keyPath: path] += $0 }
        }
        row.differs = ListenerDraft.difference {
            $0.configuration.addresses[keyPath: path].map(\.description).joined(separator: " ")
        }
        return row
    }

    private static func addressFile(
        _ name: String, _ path: any WritableKeyPath<ListenerAddresses, [String]> & Sendable, _ summary: String
    ) -> ConfigurationOption {
        var row = ConfigurationOption(name, shape: "PATH", summary, reload: true) {
            (text: String, listener: inout ListenerDraft, _: Bool) in
            listener.configuration.addresses[keyPath: path].append(text)
            return nil
        }
        row.differs = ListenerDraft.difference { $0.configuration.addresses[keyPath: path].joined(separator: "\n") }
        return row
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

extension CertificateMembership {
    /// `ou`, or `ou=VALUE NAME`, of which the last word is the name.
    fileprivate init?(_ text: String) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard let part = sides.first.flatMap({ CertificatePart(rawValue: String($0)) }) else { return nil }
        guard sides.count == 2 else {
            self.init(part)
            return
        }
        guard let blank = sides[1].lastIndex(of: " "), blank > sides[1].startIndex else { return nil }
        let (value, name) = (sides[1][..<blank], sides[1][sides[1].index(after: blank)...])
        guard !name.isEmpty, value.contains(where: { $0 != " " }) else { return nil }
        self.init(part, value: value.words.joined(separator: " "), name: String(name))
    }

    fileprivate var text: String {
        guard let value, let name else { return part.rawValue }
        return "\(part.rawValue)=\(value) \(name)"
    }
}
