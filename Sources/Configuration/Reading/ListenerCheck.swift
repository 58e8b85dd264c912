/// Finds what is wrong with a listener as a whole.
struct ListenerCheck {
    let draft: ListenerDraft
    /// The draft's index.
    let index: Int
    let locations: ConfigurationLocations
    /// The main file, for the default listener.
    let path: String

    func run(log: inout DiagnosticLog) {
        checkTLS(&log)
        checkProtocol(&log)
        checkSecurity(&log)
        checkLogins(&log)
        checkPluginFiles(&log)
    }

    private func checkTLS(_ log: inout DiagnosticLog) {
        let tls = draft.configuration.tls
        if tls.certificateFile != nil && tls.keyFile == nil {
            error("certfile", "it needs keyfile too, the private key of the certificate.", &log)
        }
        if tls.keyFile != nil && tls.certificateFile == nil {
            error("keyfile", "it needs certfile too, the certificate of this key.", &log)
        }
        if tls.certificateFile != nil && tls.preSharedKeyHint != nil {
            error("psk_hint", "certfile and psk_hint exclude each other; give each a listener of its own.", &log)
        }
        if draft.usesIdentityAsUserName && draft.usesSubjectAsUserName {
            error(
                "use_subject_as_username", "use_identity_as_username and use_subject_as_username exclude each other; keep one.",
                &log)
        }
        checkCertificateNames(&log)
        if draft.usesSubjectAsUserName && !tls.isEnabled && draft.configuration.proxyProtocolVersion == 2 {
            error(
                "use_subject_as_username",
                "a proxy sends only the common name of a certificate, not its subject; write use_identity_as_username true.",
                &log)
        }
        let asksForCertificate = tls.requiresCertificate || draft.usesSubjectAsUserName
        // Behind a proxy its word is asked for instead.
        if asksForCertificate && !tls.isEnabled && draft.configuration.proxyProtocolVersion != 2 {
            warning(
                tls.requiresCertificate ? "require_certificate" : "use_subject_as_username",
                "client certificates are required, but without certfile and keyfile there is no TLS.", &log)
        }
        if tls.requiresCertificate && tls.isEnabled && tls.authoritiesFile == nil && tls.authoritiesDirectory == nil {
            warning(
                "require_certificate", "without cafile or capath no client's certificate will be accepted.",
                &log)
        }
        if tls.preSharedKeyHint != nil && draft.configuration.security.preSharedKeyFile == nil {
            warning("psk_hint", "without psk_file no client can connect.", &log)
        }
    }

    private func checkCertificateNames(_ log: inout DiagnosticLog) {
        let (tls, isForwarded) = (draft.configuration.tls, draft.configuration.proxyProtocolVersion == 2)
        if draft.certificateUserName != nil && (draft.usesIdentityAsUserName || draft.usesSubjectAsUserName) {
            error(
                "martlet_certificate_username",
                "use_identity_as_username and use_subject_as_username say the same; keep one of the three.", &log)
        }
        let choices = [
            ("martlet_certificate_username", draft.certificateUserName),
            ("martlet_certificate_clientid", tls.clientIdentifierSource),
        ]
        for (option, choice) in choices {
            guard let choice else { continue }
            if !tls.isEnabled && isForwarded {
                guard choice.kind != .commonName else { continue }
                error(option, "a proxy sends only the common name of a certificate; write \(option) cn.", &log)
            } else if !tls.isEnabled || !tls.requiresCertificate {
                error(
                    option,
                    "it needs TLS and certificates of the clients: certfile, keyfile, cafile and require_certificate true.", &log)
            }
        }
        checkCertificateParts(&log)
        let security = draft.configuration.security
        let hasUsers =
            security.passwordFile != nil || security.firstUser != nil
            || security.plugins.contains { $0.plugin == .dynamicSecurity }
        for (option, isOn, need) in [
            ("martlet_certificate_and_login", tls.requiresPasswordToo, "to check the password by"),
            ("martlet_certificate_known_user", tls.requiresKnownUser, "that the certificate's name can be one of"),
        ] where isOn {
            if tls.userNameSource == .none, draft.certificateUserName == nil {
                warning(option, "it has no effect without martlet_certificate_username.", &log)
            } else if !hasUsers {
                error(option, "it needs users \(need): password_file PATH, or dynamic security.", &log)
            }
        }
        if !tls.namedCertificates.isEmpty && tls.certificateFile == nil {
            error(
                "martlet_certificate", "it needs certfile and keyfile too, for clients that ask for no host, or for another one.",
                &log)
        }
        if !tls.givesTickets && !tls.ticketKeyFiles.isEmpty {
            warning("martlet_tls_ticket_key_file", "it has no effect with martlet_tls_tickets false.", &log)
        }
        for (option, isGiven) in [
            ("martlet_ocsp_file", tls.statusFile != nil), ("martlet_tls_groups", tls.groups != nil),
            ("martlet_sni_strict", tls.refusesUnknownHosts),
        ] where isGiven && tls.certificateFile == nil {
            warning(option, "it has no effect without certfile and keyfile.", &log)
        }
    }

    private func checkCertificateParts(_ log: inout DiagnosticLog) {
        let (tls, isForwarded) = (draft.configuration.tls, draft.configuration.proxyProtocolVersion == 2)
        let uses = [
            ("martlet_certificate_group", tls.certificateGroups.map(\.part)),
            ("martlet_certificate_role", tls.certificateRoles.map(\.part)),
            ("martlet_certificate_attribute", tls.certificateAttributes.map(\.part)),
        ]
        for (option, parts) in uses where !parts.isEmpty {
            if !tls.isEnabled && isForwarded {
                guard parts.contains(where: { $0 != .commonName }) else { continue }
                error(option, "a proxy sends only the common name of a certificate, which is cn.", &log)
            } else if !tls.isEnabled || !tls.requiresCertificate {
                error(
                    option,
                    "it needs TLS and certificates of the clients: certfile, keyfile, cafile and require_certificate true.", &log)
            } else if option != "martlet_certificate_attribute",
                !draft.configuration.security.plugins.contains(where: { $0.plugin == .dynamicSecurity })
            {
                error(
                    option,
                    "it needs dynamic security, which has the groups and roles: plugin mosquitto_dynamic_security.so, and plugin_opt_config_file PATH.",
                    &log)
            }
        }
    }

    private func checkProtocol(_ log: inout DiagnosticLog) {
        let listener = draft.configuration
        if listener.application != .webSockets && !listener.webSocketOrigins.isEmpty {
            warning("websockets_origin", "it has no effect without protocol websockets.", &log)
        }
        if listener.application != .httpAPI && listener.httpDirectory != nil {
            warning("http_dir", "it has no effect without protocol http_api.", &log)
        }
        if listener.application != .httpAPI && listener.httpOffers.count < HTTPOffer.allCases.count {
            warning("martlet_http_serve", "it has no effect without protocol http_api.", &log)
        }
        if listener.proxyProtocolRequiresTLS && listener.proxyProtocolVersion != 2 {
            warning(
                "proxy_protocol_v2_require_tls", "it has no effect without enable_proxy_protocol 2.",
                &log)
        }
        checkProxies(&log)
        checkAddresses(&log)
        if case .unixSocket = listener.endpoint, listener.interface != nil || listener.addressFamily != nil {
            warning(
                listener.interface == nil ? "socket_domain" : "bind_interface",
                "it has no effect on a Unix socket.", &log)
        }
    }

    private func checkProxies(_ log: inout DiagnosticLog) {
        let listener = draft.configuration
        if listener.trustedProxies.contains(where: { $0.bits == 0 }) {
            warning(
                "martlet_proxy_trusted",
                "a network of 0 bits means everybody, so that any client can claim any address: name only your proxies.",
                &log)
        }
        if listener.proxyProtocolVersion == nil {
            guard !listener.trustedProxies.isEmpty, listener.application == .mqtt else { return }
            warning(
                "martlet_proxy_trusted",
                "it has no effect without enable_proxy_protocol, protocol websockets or protocol http_api.",
                &log)
        } else if case .unixSocket = listener.endpoint, !listener.trustedProxies.isEmpty {
            warning(
                "martlet_proxy_trusted", "it has no effect on a Unix socket, whose file says who may connect.",
                &log)
        } else if listener.trustedProxies.isEmpty, listener.isReachableFromElsewhere {
            warning(
                "enable_proxy_protocol",
                "whoever reaches this listener can pretend to come from any address, and with any certificate: name the proxies in "
                    + "martlet_proxy_trusted.", &log)
        }
    }

    private func checkAddresses(_ log: inout DiagnosticLog) {
        let (listener, addresses) = (draft.configuration, draft.configuration.addresses)
        let options = [
            ("martlet_allow_from", addresses.allowed.isEmpty), ("martlet_allow_from_file", addresses.allowedFiles.isEmpty),
            ("martlet_deny_from", addresses.denied.isEmpty), ("martlet_deny_from_file", addresses.deniedFiles.isEmpty),
        ]
        if case .unixSocket = listener.endpoint, let option = options.first(where: { !$0.1 })?.0 {
            warning(option, "it has no effect on a Unix socket, whose file says who may connect.", &log)
        }
        if let both = addresses.allowed.first(where: { addresses.denied.contains($0) }) {
            warning("martlet_deny_from", "\(both) is in martlet_allow_from too; nobody from there may connect.", &log)
        }
    }

    /// The commonest surprise: a `listener` line alone turns anonymous clients away, so nobody can connect.
    private func checkSecurity(_ log: inout DiagnosticLog) {
        let security = draft.configuration.security
        let knowsUsers =
            security.allowsAnonymous || security.passwordFile != nil || security.scramFile != nil || security.firstUser != nil
            || security.preSharedKeyFile != nil || security.tokens.isEnabled
            || draft.configuration.tls.userNameSource != .none
            || security.logins.http.url != nil || security.logins.ldap.url != nil
            || security.plugins.contains { [.dynamicSecurity, .passwordFile, .goAuth].contains($0.plugin) }
        if !knowsUsers && draft.configuration.application != .httpAPI {
            warning(
                "listener",
                "nobody can connect. Write password_file PATH (martlet passwd -c PATH USER makes one) or, to let everybody in here, "
                    + "listener_allow_anonymous true below it.", &log)
        }
    }

    /// Of options that several listeners may share, each thing is said once.
    private func checkLogins(_ log: inout DiagnosticLog) {
        guard !draft.configuration.isBrokersOwn else { return }
        let security = draft.configuration.security
        let directory = DirectoryCheck(
            ldap: security.logins.ldap, hasRoles: security.plugins.contains { $0.plugin == .dynamicSecurity })
        for finding in TokenCheck(tokens: security.tokens).findings + directory.findings {
            let line = locations.lines.last {
                $0.identity == finding.option && ($0.scope == .listener(index) || $0.scope == .broker)
            }
            let diagnostic = Diagnostic(
                severity: finding.severity, file: line?.file ?? path, line: line?.line, option: finding.option,
                message: finding.message)
            if !log.diagnostics.contains(diagnostic) { log.add(diagnostic) }
        }
    }

    /// Of two files of users, or of rules, one would be passed over in silence.
    private func checkPluginFiles(_ log: inout DiagnosticLog) {
        let security = draft.configuration.security
        for plugin in security.plugins {
            let (option, inForce): (String, String?)
            switch plugin.plugin {
            case .passwordFile: (option, inForce) = ("password_file", security.passwordFile)
            case .accessControlFile: (option, inForce) = ("acl_file", security.accessControlFile)
            case .dynamicSecurity, .persistSQLite, .sparkplugAware, .goAuth: continue
            }
            guard let file = plugin.options[option], let inForce, file != inForce else { continue }
            let line = locations.lines.last { $0.identity == "plugin_opt_\(option)" && $0.value == file }
            let diagnostic = Diagnostic(
                severity: .error, at: line, in: locations,
                message: "one file is read, and \(inForce.quoted) is another one; keep one of them, with what both say.")
            if !log.diagnostics.contains(diagnostic) { log.add(diagnostic) }
        }
    }

    private func error(_ option: String, _ message: String, _ log: inout DiagnosticLog) { add(.error, option, message, &log) }

    private func warning(_ option: String, _ message: String, _ log: inout DiagnosticLog) { add(.warning, option, message, &log) }

    /// Says it at the line of the option in the listener's section, or else where the listener is opened.
    private func add(_ severity: Diagnostic.Severity, _ option: String, _ message: String, _ log: inout DiagnosticLog) {
        let line = locations.lines.last { $0.identity == option && $0.scope == .listener(index) }
        log.add(
            Diagnostic(
                severity: severity, file: line?.file ?? draft.position?.file ?? path, line: line?.line ?? draft.position?.line,
                option: line?.name ?? "listener", message: message))
    }
}
