internal import Platform

extension ConfigurationOption {
    /// Logins by tokens.
    static let tokenOptions: [ConfigurationOption] =
        [
            .init(
                "martlet_jwt_keys", optional: \SecurityConfiguration.tokens.keys,
                .text("PATH|URL").with(expected: "a file, or a URL that begins with https:// or http://") {
                    TokenConfiguration.isURL($0) || !$0.holds("://")
                },
                """
                The public keys of those who sign tokens (JWT) for clients: a file in PEM or with a JSON Web Key Set, the URL of such a set, or
                that of OpenID Connect's discovery, which ends with /.well-known/openid-configuration.
                """, reload: true),
            .init(
                "martlet_jwt_cafile", optional: \SecurityConfiguration.tokens.authoritiesFile, .text("PATH"),
                "CA certificates for the server of that URL; without it, the system's.", reload: true),
            .init(
                "martlet_jwt_secret_file", optional: \SecurityConfiguration.tokens.secretFile, .text("PATH"),
                "The secret of tokens that are signed with HS256, HS384 or HS512: one line, or base64: and the secret as Base64.",
                reload: true),
            .init(
                "martlet_jwt_algorithms", \SecurityConfiguration.tokens.algorithms, .tokenAlgorithms,
                "The algorithms that tokens may be signed with; no other is accepted.", reload: true),
            .init(
                "martlet_jwt_from", \SecurityConfiguration.tokens.location, .choice,
                """
                Where clients put their tokens. MQTT 5.0 clients can always use the Authentication Methods OAUTH2-JWT and CUSTOM-JWT, and renew
                their login with AUTH; with auth there is no other way.
                """, reload: true),
            list(
                "martlet_jwt_issuer", "TEXT", \.issuers,
                "Who may have issued a token (iss), to the letter; one line for each. Without one, whoever has a key may."),
            list(
                "martlet_jwt_audience", "TEXT", \.audiences,
                "For whom a token has to be (aud); one line for each. Without one, a token that is meant for somebody is refused."),
            required,
            .init(
                "martlet_jwt_leeway", \SecurityConfiguration.tokens.leewaySeconds, .integer(0...3600),
                "How far the clock of whoever makes tokens may be off, in seconds.", reload: true),
            .init(
                "martlet_jwt_username_claim", \SecurityConfiguration.tokens.userNameClaim, .claim,
                "The claim with the user's name; none leaves the name that the client gives.", reload: true),
            .init(
                "martlet_jwt_clientid_claim", \SecurityConfiguration.tokens.clientIdentifierClaim, .claim,
                "The claim that has to be the client identifier.", reload: true),
            .init(
                "martlet_jwt_roles_claim", \SecurityConfiguration.tokens.rolesClaim, .claim,
                "The claim with names of roles of dynamic security, such as realm_access.roles.", reload: true),
            .init(
                "martlet_jwt_acl_claim", \SecurityConfiguration.tokens.accessClaim, .claim,
                "The claim with access rules, in either of EMQX's forms; none takes none from tokens.", reload: true),
            .init(
                "martlet_jwt_max_size", \SecurityConfiguration.tokens.bytesMax, .integer(256...65535),
                "The largest token in bytes.", reload: true),
        ] + introspectionOptions

    private static let introspectionOptions: [ConfigurationOption] = [
        .init(
            "martlet_introspection_url", optional: \SecurityConfiguration.tokens.introspection.url,
            .text("URL").with(expected: "a URL that begins with https:// or http://") { TokenConfiguration.isURL($0) },
            """
            Where tokens are asked for that only their issuer can read (OAuth 2.0 Token Introspection). What the martlet_jwt options say of
            claims holds for the answers.
            """, reload: true),
        .init(
            "martlet_introspection_cafile", optional: \SecurityConfiguration.tokens.introspection.authoritiesFile, .text("PATH"),
            "CA certificates for the server of that URL; without it, the system's.", reload: true),
        .init(
            "martlet_introspection_client_id", optional: \SecurityConfiguration.tokens.introspection.clientIdentifier,
            .text("TEXT"), "The client as which the broker asks there.", reload: true),
        .init(
            "martlet_introspection_secret_file", optional: \SecurityConfiguration.tokens.introspection.secretFile, .text("PATH"),
            "The file with that client's secret.", reload: true),
        .init(
            "martlet_introspection_cache", \SecurityConfiguration.tokens.introspection.cacheSeconds, .limit(3600),
            "For how many seconds an answer is kept, at most until the token ends; 0 asks each time.", reload: true),
    ]

    /// The first line takes the place of the default.
    private static let required = ConfigurationOption(
        "martlet_jwt_require", shape: "CLAIM[=VALUE]", default: "exp",
        """
        A claim that tokens must have, and what it must be or hold: %u is the user name that the client gives, %c its client identifier;
        one line for each. Without a line for exp, tokens need not expire.
        """, reload: true
    ) { (text: String, root: inout SecurityConfiguration, isFirst: Bool) in
        if isFirst { root.tokens.requiredClaims = [] }
        root.tokens.requiredClaims.append(text)
        return nil
    }

    private static func list(
        _ name: String, _ shape: String, _ path: any WritableKeyPath<TokenConfiguration, [String]> & Sendable, _ summary: String
    ) -> ConfigurationOption {
        ConfigurationOption(name, shape: shape, summary, reload: true) {
            (text: String, root: inout SecurityConfiguration, _: Bool) in
            root.tokens[keyPath: path].append(text)
            return nil
        }
    }
}

extension ValueSyntax where Value == [TokenAlgorithm] {
    /// Names with blanks between them.
    static var tokenAlgorithms: ValueSyntax {
        let names = TokenAlgorithm.allCases.map(\.rawValue)
        return ValueSyntax(
            shape: "ALGORITHM ...", expected: "one or more of \(names.joined(separator: " ")), with blanks between them",
            extent: .words,
            parse: { text in
                let algorithms = text.words.map { TokenAlgorithm(rawValue: $0) }
                return algorithms.contains(nil) || algorithms.isEmpty ? nil : algorithms.compactMap { $0 }
            },
            render: { $0.isEmpty ? nil : $0.map(\.rawValue).joined(separator: " ") })
    }
}

extension ValueSyntax where Value == String? {
    /// The name of a claim, or the way to it; `none` for no claim.
    static var claim: ValueSyntax {
        ValueSyntax(
            shape: "CLAIM", expected: "the name of a claim, or none", extent: .line,
            parse: { .some($0 == "none" ? nil : $0) }, render: { $0 })
    }
}

/// Finds what is wrong with the logins by tokens of a listener.
struct TokenCheck {
    let tokens: TokenConfiguration

    /// What there is to say, with the option at whose line.
    var findings: [(severity: Diagnostic.Severity, option: String, message: String)] {
        var findings: [(Diagnostic.Severity, String, String)] = []
        func error(_ option: String, _ message: String) { findings.append((.error, option, message)) }
        func warning(_ option: String, _ message: String) { findings.append((.warning, option, message)) }
        let symmetric = tokens.algorithms.filter(\.isSymmetric)
        let source = tokens.keys != nil ? "martlet_jwt_keys" : "martlet_jwt_secret_file"
        if tokens.hasKeys && tokens.algorithms.isEmpty {
            let usual = tokens.keys != nil ? "RS256 or ES256" : "HS256"
            error(source, "it needs martlet_jwt_algorithms too, the algorithms that tokens are signed with, such as \(usual).")
        }
        if !tokens.hasKeys && !tokens.algorithms.isEmpty {
            warning("martlet_jwt_algorithms", "it has no effect without martlet_jwt_keys or martlet_jwt_secret_file.")
        }
        if tokens.secretFile != nil && !tokens.algorithms.isEmpty && symmetric.isEmpty {
            error("martlet_jwt_secret_file", "it needs HS256, HS384 or HS512 in martlet_jwt_algorithms.")
        }
        if tokens.keysURL != nil, tokens.secretFile == nil, let first = symmetric.first {
            error(
                "martlet_jwt_algorithms",
                "\(first.rawValue) needs a secret, martlet_jwt_secret_file; no secret is taken from a URL that anybody can read.")
        }
        if tokens.discoversKeys && tokens.issuers.isEmpty {
            error("martlet_jwt_keys", "discovery needs martlet_jwt_issuer too: what is found has to say that it is the issuer's.")
        }
        checkAddress(tokens.keysURL, "martlet_jwt_keys", "whoever is on the way can put keys of its own in their place", warning)
        if tokens.authoritiesFile != nil && tokens.keysURL == nil {
            warning("martlet_jwt_cafile", "it has no effect without a URL in martlet_jwt_keys.")
        }
        let introspection = tokens.introspection
        if introspection.url != nil && tokens.location == .authentication {
            error(
                "martlet_introspection_url",
                "an issuer is asked about tokens in the password or in the user name; martlet_jwt_from auth leaves none there.")
        }
        checkAddress(introspection.url, "martlet_introspection_url", "whoever is on the way can read the tokens", warning)
        if (introspection.clientIdentifier == nil) != (introspection.secretFile == nil) {
            let (given, missing) = ("martlet_introspection_client_id", "martlet_introspection_secret_file")
            let hasName = introspection.clientIdentifier != nil
            error(hasName ? given : missing, "it needs \(hasName ? missing : given) too.")
        }
        if introspection.url == nil {
            for (option, isGiven) in [
                ("martlet_introspection_cafile", introspection.authoritiesFile != nil),
                ("martlet_introspection_client_id", introspection.clientIdentifier != nil),
            ] where isGiven {
                warning(option, "it has no effect without martlet_introspection_url.")
            }
        }
        return findings
    }

    private func checkAddress(
        _ url: String?, _ option: String, _ danger: String, _ warning: (_ option: String, _ message: String) -> Void
    ) {
        guard let url, url.hasPrefix("http://") else { return }
        let host = url.dropFirst("http://".count)
        let isHere = ["127.", "localhost", "[::1]"].contains { host.hasPrefix($0) }
        if !isHere { warning(option, "\(danger): write https://.") }
    }
}
