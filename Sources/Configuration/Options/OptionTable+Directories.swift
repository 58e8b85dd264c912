import Platform

/// A directory that is asked about logins (LDAP).
extension ConfigurationOption {
    static let directoryOptions: [ConfigurationOption] = [
        .init(
            "martlet_ldap_url", optional: \SecurityConfiguration.logins.ldap.url, .directoryAddress,
            "The directory that is asked about every login: ldaps://HOST, ldap://HOST, or ldapi:// and the path of a Unix socket.",
            reload: true),
        .init(
            "martlet_ldap_starttls", \SecurityConfiguration.logins.ldap.startsTLS, .boolean,
            "Whether the connection to an ldap:// is encrypted before anything is said.", reload: true),
        .init(
            "martlet_ldap_cafile", optional: \SecurityConfiguration.logins.ldap.authoritiesFile, .text("PATH"),
            "CA certificates for the directory's certificate (PEM); without it the system's.", reload: true),
        .init(
            "martlet_ldap_certfile", optional: \SecurityConfiguration.logins.ldap.certificateFile, .text("PATH"),
            "The broker's own certificate towards the directory (PEM).", reload: true),
        .init(
            "martlet_ldap_keyfile", optional: \SecurityConfiguration.logins.ldap.keyFile, .text("PATH"),
            "The private key of that certificate (PEM).", reload: true),
        .init(
            "martlet_ldap_bind_dn", optional: \SecurityConfiguration.logins.ldap.brokerEntry, .text("DN"),
            "The entry as which the broker logs in to search; without it, it searches without a login.", reload: true),
        .init(
            "martlet_ldap_bind_password", optional: \SecurityConfiguration.logins.ldap.brokerPassword, .text("TEXT"),
            "The password of that entry. file:PATH takes it from a file.", reload: true),
        .init(
            "martlet_ldap_user_dn", optional: \SecurityConfiguration.logins.ldap.userEntry, .text("DN"),
            "The entry below which users are; or, with %u for the user's name in it, the entry of a user, which is not searched then.",
            reload: true),
        .init(
            "martlet_ldap_user_filter", \SecurityConfiguration.logins.ldap.userFilter, .text("FILTER"),
            "Which entry is the user's; %u stands for the user's name.", reload: true),
        .init(
            "martlet_ldap_compare_attribute", optional: \SecurityConfiguration.logins.ldap.comparedAttribute, .text("NAME"),
            "An attribute that the directory compares with the password, where users cannot log in there themselves.", reload: true),
        .init(
            "martlet_ldap_superuser_filter", optional: \SecurityConfiguration.logins.ldap.superuserFilter, .text("FILTER"),
            "No rule binds a user whose entry it fits; %u is the user's name, %d its entry.", reload: true),
        .init(
            "martlet_ldap_group_dn", optional: \SecurityConfiguration.logins.ldap.groupEntry, .text("DN"),
            "The entry below which groups are, with roles or topics for their members.", reload: true),
        .init(
            "martlet_ldap_group_filter", \SecurityConfiguration.logins.ldap.groupFilter, .text("FILTER"),
            "Which groups are the user's; %u is its name, %d its entry.", reload: true),
        .init(
            "martlet_ldap_role_attribute", optional: \SecurityConfiguration.logins.ldap.roleAttribute, .text("NAME"),
            "The attribute of a group that names a role of dynamic security, such as cn.", reload: true),
        .init(
            "martlet_ldap_topic_attribute", optional: \SecurityConfiguration.logins.ldap.topicAttribute, .text("NAME"),
            "The attribute of a group with topic filters that its members may use; %u and %c stand for the client.", reload: true),
        .init(
            "martlet_ldap_access_attribute", optional: \SecurityConfiguration.logins.ldap.accessAttribute, .text("NAME"),
            "The attribute of a group that says what for: the sum of 1 to receive, 2 to publish, 4 to subscribe; without it, all three.",
            reload: true),
        .init(
            "martlet_ldap_timeout", \SecurityConfiguration.logins.ldap.timeoutSeconds, .integer(1...60),
            "Seconds until the directory has answered all that a login asks.", reload: true),
    ]
}

extension ValueSyntax where Value == String {
    /// The address of a directory.
    fileprivate static var directoryAddress: ValueSyntax {
        text("URL").with(expected: "a URL that begins with ldap://, ldaps:// or ldapi://") { text in
            ["ldap://", "ldaps://", "ldapi://"].contains { text.lowercased().hasPrefix($0) }
        }
    }
}

/// Finds what is wrong with the directory of a listener.
struct DirectoryCheck {
    let ldap: LDAPConfiguration
    /// Whether there is dynamic security, whose roles groups may name.
    let hasRoles: Bool

    /// What there is to say, with the option at whose line.
    var findings: [(severity: Diagnostic.Severity, option: String, message: String)] {
        var findings: [(Diagnostic.Severity, String, String)] = []
        func error(_ option: String, _ message: String) { findings.append((.error, "martlet_ldap_\(option)", message)) }
        func warning(_ option: String, _ message: String) { findings.append((.warning, "martlet_ldap_\(option)", message)) }
        guard let url = ldap.url else {
            for option in given { warning(option, "it has no effect without martlet_ldap_url.") }
            return findings
        }
        if ldap.userEntry == nil {
            error("url", "it needs martlet_ldap_user_dn too, the entry below which users are, such as ou=people,dc=example,dc=org.")
        }
        if (ldap.brokerEntry == nil) != (ldap.brokerPassword == nil) {
            let isNamed = ldap.brokerEntry != nil
            error(isNamed ? "bind_dn" : "bind_password", "it needs martlet_ldap_\(isNamed ? "bind_password" : "bind_dn") too.")
        }
        if ldap.brokerPassword?.isEmpty == true { error("bind_password", "an empty password proves nothing.") }
        let grants = ldap.roleAttribute != nil || ldap.topicAttribute != nil
        if grants && ldap.groupEntry == nil {
            error(ldap.roleAttribute != nil ? "role_attribute" : "topic_attribute", "it needs martlet_ldap_group_dn too.")
        }
        if ldap.roleAttribute != nil && !hasRoles {
            error("role_attribute", "it needs dynamic security, which has the roles: write plugin mosquitto_dynamic_security.so.")
        }
        if ldap.groupEntry != nil && !grants {
            warning("group_dn", "it has no effect without martlet_ldap_role_attribute or martlet_ldap_topic_attribute.")
        }
        if ldap.accessAttribute != nil && ldap.topicAttribute == nil {
            warning("access_attribute", "it has no effect without martlet_ldap_topic_attribute.")
        }
        if ldap.startsTLS && !url.lowercased().hasPrefix("ldap://") {
            error("starttls", "it is for ldap:// alone: the connection is encrypted from its beginning, or on this machine.")
        }
        if !ldap.isProtected {
            warning("url", "whoever is on the way can read the passwords: write ldaps://, or martlet_ldap_starttls true.")
        }
        return findings
    }

    /// What is written beside the address.
    private var given: [String] {
        [
            ("user_dn", ldap.userEntry), ("bind_dn", ldap.brokerEntry), ("cafile", ldap.authoritiesFile),
            ("group_dn", ldap.groupEntry), ("superuser_filter", ldap.superuserFilter),
        ].compactMap { $0.1 == nil ? nil : $0.0 }
    }
}
