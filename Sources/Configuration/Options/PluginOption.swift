import Platform

/// An option of a plug-in.
struct PluginOption: Sendable {
    let name: String
    /// What its value has to be, to follow "expected".
    var expected = "a text"
    var isRight: @Sendable (String) -> Bool = { _ in true }
    /// Why nothing comes of it; nil if it is obeyed.
    var withoutEffect: String?
}

extension BuiltInPlugin {
    /// What mosquitto's plug-in reads.
    var options: [PluginOption] {
        switch self {
        case .dynamicSecurity: [PluginOption(name: "config_file"), PluginOption(name: "password_init_file")]
        case .passwordFile: [PluginOption(name: "password_file")]
        case .accessControlFile: [PluginOption(name: "acl_file")]
        case .persistSQLite: Self.persistSQLiteOptions
        case .sparkplugAware: []
        case .goAuth: Self.goAuthOptions
        }
    }

    private static let goAuthOptions: [PluginOption] = {
        func number(_ name: String) -> PluginOption {
            PluginOption(
                name: name, expected: "a number of seconds, at most 1000000",
                isRight: { Int($0).map { (0...1_000_000).contains($0) } ?? false })
        }
        func isTrueOrFalse(_ name: String) -> PluginOption {
            PluginOption(name: name, expected: "true or false", isRight: { ["true", "false"].contains($0) })
        }
        func ignored(_ name: String, _ reason: String) -> PluginOption { PluginOption(name: name, withoutEffect: reason) }
        let logging = "log_type and log_dest say what is logged, and where"
        let cache = "answers are remembered in the broker's own memory"
        let opening = "a database is opened when it is first asked, and anew after an error"
        func register(_ backEnd: String) -> PluginOption {
            PluginOption(
                name: "\(backEnd)_register", expected: "user, superuser, acl, or several of them with commas between",
                isRight: { text in
                    let checks = text.split(separator: ",").map { String($0).trimmed }
                    return !checks.isEmpty && checks.allSatisfy { GoAuthConfiguration.Check(rawValue: $0) != nil }
                })
        }
        let uri = PluginOption(name: "", expected: "a path that begins with /", isRight: { $0.hasPrefix("/") })
        func path(_ name: String) -> PluginOption { PluginOption(name: name, expected: uri.expected, isRight: uri.isRight) }
        return [
            PluginOption(
                name: "backends",
                expected:
                    "\(GoAuthConfiguration.BackEnd.allCases.map(\.rawValue).joined(separator: ", ")): users of other back ends can be kept by "
                    + "dynamic security or in a password_file, or be asked for over http by a service in front of them",
                isRight: { text in
                    let names = text.split(separator: ",").map { String($0).trimmed }
                    return !names.isEmpty && names.allSatisfy { GoAuthConfiguration.BackEnd(rawValue: $0) != nil }
                }),
            PluginOption(name: "files_password_path"), PluginOption(name: "files_acl_path"), PluginOption(name: "password_path"),
            PluginOption(name: "acl_path"), PluginOption(name: "http_host"),
            PluginOption(
                name: "http_port", expected: "a port from 1 to 65535", isRight: { UInt16($0).map { $0 > 0 } ?? false }),
            path("http_getuser_uri"), path("http_superuser_uri"), path("http_aclcheck_uri"), isTrueOrFalse("http_with_tls"),
            isTrueOrFalse("http_verify_peer"),
            PluginOption(
                name: "http_response_mode", expected: "status, json or text",
                isRight: { GoAuthConfiguration.ResponseMode(rawValue: $0) != nil }),
            PluginOption(
                name: "http_params_mode", expected: "json or form",
                isRight: { GoAuthConfiguration.ParametersMode(rawValue: $0) != nil }),
            PluginOption(
                name: "http_timeout", expected: "a number of seconds from 1 to 60",
                isRight: { Int($0).map { (1...60).contains($0) } ?? false }),
            PluginOption(name: "http_user_agent"),
            PluginOption(
                name: "http_method", expected: "GET, POST or PUT", isRight: { ["GET", "POST", "PUT"].contains($0.uppercased()) }),
            isTrueOrFalse("disable_superuser"), isTrueOrFalse("http_disable_superuser"), isTrueOrFalse("cache"),
            PluginOption(
                name: "retry_count", expected: "a number from 0 to 10", isRight: { Int($0).map { (0...10).contains($0) } ?? false }),
            number("auth_cache_seconds"), number("auth_jitter_seconds"), number("acl_cache_seconds"), number("acl_jitter_seconds"),
            isTrueOrFalse("check_prefix"), PluginOption(name: "prefixes"),
            PluginOption(
                name: "strip_prefix", expected: "false: a prefix is a part of the user's name", isRight: { $0 != "true" }),
            PluginOption(
                name: "use_clientid_as_username", expected: "false: a client is known by its user name", isRight: { $0 != "true" }),
            ignored("exhaust_backend_first", "each back end is asked all that it is asked at the login"),
            PluginOption(
                name: "jwt_mode",
                expected:
                    "files, with jwt_secret and jwt_acl_path: martlet_jwt_keys, martlet_introspection_url and the back end http do the "
                    + "work of the other modes",
                isRight: { $0 == "files" }),
            PluginOption(name: "jwt_secret"), PluginOption(name: "jwt_acl_path"), PluginOption(name: "jwt_files_acl_path"),
            PluginOption(
                name: "jwt_userfield", expected: "Subject or Username", isRight: { ["Subject", "Username"].contains($0) }),
            PluginOption(
                name: "jwt_skip_user_expiration", expected: "false: a token that has ended lets nobody in",
                isRight: { $0 == "false" }),
            PluginOption(
                name: "jwt_skip_acl_expiration", expected: "false: a token's end ends the connection", isRight: { $0 == "false" }),
            PluginOption(
                name: "sqlite_source", expected: "the path of a database",
                isRight: { !$0.isEmpty && $0 != "memory" && !$0.hasPrefix(":") }),
            PluginOption(name: "sqlite_userquery"), PluginOption(name: "sqlite_superquery"), PluginOption(name: "sqlite_aclquery"),
            isTrueOrFalse("sqlite_disable_superuser"), ignored("sqlite_connect_tries", opening),
            ignored("sqlite_max_life_time", opening),
        ] + GoAuthConfiguration.BackEnd.allCases.map { register($0.prefix) } + goAuthServerOptions + [
            ignored("cache_type", cache), ignored("cache_reset", cache), ignored("cache_refresh", cache),
            ignored("cache_host", cache), ignored("cache_port", cache), ignored("cache_password", cache),
            ignored("cache_db", cache), ignored("cache_mode", cache), ignored("cache_addresses", cache),
            ignored("log_level", logging),
            ignored("log_dest", logging), ignored("log_file", logging),
        ]
            // In general, and of each back end that has hashes.
            + ["", "files_", "pg_", "sqlite_", "redis_"].flatMap { owner in
                [
                    "", "_iterations", "_keylen", "_algorithm", "_salt_size", "_salt_encoding", "_cost", "_memory", "_parallelism",
                ].map { ignored("\(owner)hasher\($0)", "hashes say themselves how they were made") }
            }
    }()

    /// Of the back ends that are servers.
    private static let goAuthServerOptions: [PluginOption] = {
        func port(_ name: String) -> PluginOption {
            PluginOption(name: name, expected: "a port from 1 to 65535", isRight: { UInt16($0).map { $0 > 0 } ?? false })
        }
        func isTrueOrFalse(_ name: String) -> PluginOption {
            PluginOption(name: name, expected: "true or false", isRight: { ["true", "false"].contains($0) })
        }
        func opened(_ name: String) -> PluginOption {
            PluginOption(
                name: name, withoutEffect: "connections are made when there are logins, and closed when there are none for a while")
        }
        let modes = GoAuthConfiguration.PostgreSQL.Encryption.allCases.map(\.rawValue)
        return [
            PluginOption(name: "pg_host"), port("pg_port"), PluginOption(name: "pg_user"), PluginOption(name: "pg_password"),
            PluginOption(name: "pg_dbname"), PluginOption(name: "pg_userquery"), PluginOption(name: "pg_superquery"),
            PluginOption(name: "pg_aclquery"), isTrueOrFalse("pg_disable_superuser"),
            PluginOption(
                name: "pg_sslmode", expected: modes.dropLast().joined(separator: ", ") + " or " + (modes.last ?? ""),
                isRight: { modes.contains($0) }),
            PluginOption(name: "pg_sslrootcert"), PluginOption(name: "pg_sslcert"), PluginOption(name: "pg_sslkey"),
            opened("pg_connect_tries"), opened("pg_max_life_time"),
            PluginOption(name: "redis_host"), port("redis_port"), PluginOption(name: "redis_password"),
            PluginOption(
                name: "redis_db", expected: "the number of a database",
                isRight: { Int($0).map { (0...65535).contains($0) } ?? false }),
            PluginOption(
                name: "redis_mode", expected: "single: of a cluster of Redis, no keys are asked for",
                isRight: { $0 == "single" }),
            isTrueOrFalse("redis_disable_superuser"),
            PluginOption(
                name: "ldap_url", expected: "a URL that begins with ldap://, ldaps:// or ldapi://",
                isRight: { url in ["ldap://", "ldaps://", "ldapi://"].contains { url.lowercased().hasPrefix($0) } }),
            PluginOption(name: "ldap_user_dn"), PluginOption(name: "ldap_group_dn"), PluginOption(name: "ldap_bind_dn"),
            PluginOption(name: "ldap_bind_password"), PluginOption(name: "ldap_user_filter"),
            PluginOption(name: "ldap_group_filter"), PluginOption(name: "ldap_superuser_filter"),
            PluginOption(name: "ldap_acl_topic_pattern_attribute"), PluginOption(name: "ldap_acl_acc_attribute"),
            isTrueOrFalse("ldap_disable_superuser"),
        ]
    }()

    private static let persistSQLiteOptions = [
        PluginOption(
            name: "sync", expected: "extra, full, normal or off", isRight: { ["extra", "full", "normal", "off"].contains($0) },
            withoutEffect: "what is acknowledged is on the disk; martlet_durability makes weaker promises"),
        PluginOption(
            name: "flush_period", expected: "a number of seconds", isRight: { Int($0).map { $0 >= 0 } ?? false },
            withoutEffect: "changes are saved as they come; martlet_durability interval SECONDS gathers them"),
        PluginOption(
            name: "page_size", expected: "a number of bytes", isRight: { Int($0).map { $0 > 0 } ?? false },
            withoutEffect: "the store has pages of its own size"),
    ]
}
