internal import Platform

/// Who is asked about user names and passwords, and how.
public struct LoginConfiguration: Sendable, Equatable {
    /// `martlet_auth_chain`: the sources in the order in which they are asked; nil for all that are configured, in the
    /// usual order.
    public var chain: [LoginSourceName]?
    /// `martlet_auth_cache`: seconds for which the answer of a service is given again; 0 for never.
    public var cacheSeconds = 0
    /// `martlet_auth_cache_jitter`: as many seconds more or less, by chance.
    public var cacheJitterSeconds = 0
    /// `martlet_auth_unavailable`.
    public var unavailable = UnavailablePolicy.refuse
    /// The service that is asked in JSON.
    public var http = HTTPLoginConfiguration()
    /// The directory that is asked.
    public var ldap = LDAPConfiguration()
    /// mosquitto-go-auth's, as its plug-in's lines have it; nil without them.
    public var goAuth: GoAuthConfiguration?

    public init() {}

    /// Whether there is more to ask than the files and dynamic security, in their usual order.
    public var isChain: Bool { chain != nil || bringsRules }

    /// Whether logins may bring rules along: whether anybody is asked over the network.
    public var bringsRules: Bool {
        if http.url != nil || http.rulesURL != nil || ldap.url != nil { return true }
        return goAuth?.backEnds.contains { $0 != .files && $0 != .jwt } ?? false
    }
}

/// A source of logins, as `martlet_auth_chain` names it.
public enum LoginSourceName: String, Sendable, Equatable, CaseIterable {
    /// Tokens that are checked here: what is none is left to the others at once.
    case jwt
    case dynamicSecurity = "dynamic_security"
    case passwordFile = "password_file"
    /// The databases of mosquitto-go-auth's back ends.
    case sqlite
    case postgresql
    case redis
    /// A directory, of whichever lines.
    case ldap
    case http
    /// Tokens that an issuer is asked about.
    case introspection
    case goAuth = "go_auth"
}

/// What becomes of a client when a service cannot be asked.
public enum UnavailablePolicy: String, Sendable, Equatable, CaseIterable {
    /// It is told that the server is unavailable.
    case refuse
    /// It is let in if the service has let it in before, as far as that is remembered.
    case allowCached = "allow-cached"
}

/// A service that decides logins over HTTP.
public struct HTTPLoginConfiguration: Sendable, Equatable {
    /// `martlet_http_auth_url`.
    public var url: String?
    /// `martlet_http_authorize_url`.
    public var rulesURL: String?
    /// `martlet_http_auth_timeout`, in seconds.
    public var timeoutSeconds = 5
    /// `martlet_http_auth_cafile`, `martlet_http_auth_certfile` and `martlet_http_auth_keyfile`.
    public var authoritiesFile: String?
    public var certificateFile: String?
    public var keyFile: String?
    /// `martlet_http_auth_token_file`: holds what the service is shown as a bearer token.
    public var tokenFile: String?

    public init() {}
}

/// mosquitto-go-auth's options, of the back ends that there are here.
public struct GoAuthConfiguration: Sendable, Equatable {
    public enum BackEnd: String, Sendable, Equatable, CaseIterable {
        case files
        case http
        case jwt
        case sqlite
        case postgres
        case redis
        case ldap

        /// What the names of its options begin with.
        var prefix: String { self == .postgres ? "pg" : rawValue }
    }

    /// Of `postgres`, in whose words they are.
    public struct PostgreSQL: Sendable, Equatable {
        public var host = "localhost"
        public var port: UInt16 = 5432
        public var user = ""
        public var password = ""
        public var database = ""
        public var userQuery: String?
        public var superuserQuery: String?
        public var accessQuery: String?
        /// That of go-auth's later versions unless the lines say otherwise.
        public var encryption = Encryption.verifyFull
        public var authoritiesFile: String?
        public var certificateFile: String?
        public var keyFile: String?

        /// Whether nobody on the way can be taken for the database, or reads what it says.
        var isProtected: Bool {
            if encryption == .verifyFull || encryption == .verifyAuthority || host.hasPrefix("/") { return true }
            return encryption == .require && authoritiesFile != nil || ["localhost", "::1"].contains(host) || host.hasPrefix("127.")
        }

        public enum Encryption: String, Sendable, CaseIterable {
            case disable
            case require
            case verifyAuthority = "verify-ca"
            case verifyFull = "verify-full"
        }
    }

    /// Of `redis`.
    public struct Redis: Sendable, Equatable {
        public var host = "localhost"
        public var port: UInt16 = 6379
        public var password: String?
        public var database = 1
        public var disablesSuperuser = false
        /// Whether its sets of topics are not asked.
        public var disablesRules = false
    }

    /// What a back end may be asked, as `auth_opt_BACKEND_register` has it.
    public enum Check: String, Sendable, Equatable, CaseIterable {
        case user
        case superuser
        case acl
    }

    public enum ResponseMode: String, Sendable, Equatable, CaseIterable {
        case status
        case json
        case text
    }

    public enum ParametersMode: String, Sendable, Equatable, CaseIterable {
        case json
        case form
    }

    /// In their order.
    public var backEnds: [BackEnd] = []
    public var passwordPath: String?
    public var accessPath: String?
    public var host = "localhost"
    public var port: UInt16?
    public var userURI: String?
    public var superuserURI: String?
    public var accessURI: String?
    public var usesTLS = false
    public var verifiesPeer = true
    public var responseMode = ResponseMode.status
    public var parametersMode = ParametersMode.json
    public var timeoutSeconds = 5
    public var userAgent = "mosquitto"
    public var method = "POST"
    public var disablesSuperuser = false
    public var retryCount = 0
    public var cachesAnswers = false
    public var loginCacheSeconds = 30
    public var loginJitterSeconds = 0
    public var accessCacheSeconds = 30
    public var accessJitterSeconds = 0
    /// Of `jwt`, whose tokens stand in user names: what signs them, the claim with the user's name, and the access
    /// file.
    public var tokenSecret: String?
    public var tokenUserClaim = "sub"
    public var tokenAccessPath: String?
    /// Of `sqlite`: the file, and what it is asked.
    public var databasePath: String?
    public var userQuery: String?
    public var superuserQuery: String?
    public var accessQuery: String?
    public var postgreSQL = PostgreSQL()
    public var redis = Redis()
    /// Of `ldap`.
    public var ldap = LDAPConfiguration()
    /// What user names of each back end begin with, before an underscore; nil where prefixes are not looked at.
    public var prefixes: [(prefix: String, backEnd: BackEnd)]?

    /// What the back ends are asked that are not asked all.
    public var checks: [BackEnd: Set<Check>] = [:]

    public var asksService: Bool { backEnds.contains(.http) }

    /// Whether a back end is there, and asked that.
    public func asks(_ backEnd: BackEnd, _ check: Check) -> Bool {
        backEnds.contains(backEnd) && checks[backEnd]?.contains(check) ?? true
    }

    /// Whether its lines say anything of rules.
    var hasRules: Bool {
        let texts = [
            accessPath, tokenAccessPath, superuserURI, accessURI, superuserQuery, accessQuery, postgreSQL.superuserQuery,
            postgreSQL.accessQuery,
        ]
        if texts.contains(where: { $0 != nil }) || backEnds.contains(.redis) && !redis.disablesRules { return true }
        return backEnds.contains(.ldap) && (ldap.superuserFilter ?? ldap.topicAttribute) != nil
    }

    /// One that lets users in whom nothing bounds, since it is not asked for their topics; nil where there is none.
    var backEndWithoutRules: BackEnd? {
        guard accessPath == nil, tokenAccessPath == nil, !asks(.http, .acl) else { return nil }
        return [BackEnd.files, .jwt, .sqlite, .postgres, .redis, .ldap].first { asks($0, .user) && !asks($0, .acl) }
    }

    /// What `auth_opt_BACKEND_register` lines ask for in vain, each as a sentence.
    var registrationsWithoutEffect: [String] {
        backEnds.flatMap { backEnd -> [String] in
            guard let asked = checks[backEnd] else { return [] }
            let line = "auth_opt_\(backEnd.prefix)_register"
            if ![.files, .http, .jwt].contains(backEnd), !asked.contains(.user) {
                return [
                    "\(line) has no effect: a database or directory is asked about those users alone whom it lets in itself. Register it "
                        + "for user too, or leave it out."
                ]
            }
            return [Check.superuser, .acl].filter { asked.contains($0) }.compactMap { check in
                obstacle(to: check, backEnd).map { "\(line) says \(check.rawValue), which has no effect: \($0)." }
            }
        }
    }

    /// Why nothing comes of asking a back end that; nil where something does, or an error is said of it.
    private func obstacle(to check: Check, _ backEnd: BackEnd) -> String? {
        let noSuperusers = "its files know no superusers"
        func needs(_ value: String?, _ option: String) -> String? {
            guard value == nil else { return nil }
            return "there is no auth_opt_\(option)" + (check == .superuser ? ", or superusers are turned off" : "")
        }
        return switch (backEnd, check) {
        case (_, .user), (.jwt, .acl): nil
        case (.files, .superuser), (.jwt, .superuser): noSuperusers
        case (.files, .acl): needs(accessPath, "files_acl_path")
        case (.http, .superuser): needs(disablesSuperuser ? nil : superuserURI, "http_superuser_uri")
        case (.http, .acl): needs(accessURI, "http_aclcheck_uri")
        case (.sqlite, .superuser): needs(superuserQuery, "sqlite_superquery")
        case (.sqlite, .acl): needs(accessQuery, "sqlite_aclquery")
        case (.postgres, .superuser): needs(postgreSQL.superuserQuery, "pg_superquery")
        case (.postgres, .acl): needs(postgreSQL.accessQuery, "pg_aclquery")
        case (.redis, .superuser): redis.disablesSuperuser ? "superusers are turned off" : nil
        case (.redis, .acl): nil
        case (.ldap, .superuser): needs(ldap.superuserFilter, "ldap_superuser_filter")
        case (.ldap, .acl): needs(ldap.topicAttribute, "ldap_acl_topic_pattern_attribute")
        }
    }

    /// Leaves the rules to an access file that the configuration names beside the plug-in: it binds everybody.
    mutating func leaveRules() {
        (accessPath, tokenAccessPath, superuserURI, accessURI) = (nil, nil, nil, nil)
        (superuserQuery, accessQuery) = (nil, nil)
        (postgreSQL.superuserQuery, postgreSQL.accessQuery) = (nil, nil)
        (redis.disablesSuperuser, redis.disablesRules) = (true, true)
        (ldap.superuserFilter, ldap.topicAttribute) = (nil, nil)
    }

    public static func == (left: GoAuthConfiguration, right: GoAuthConfiguration) -> Bool {
        left.fields.elementsEqual(right.fields) && left.postgreSQL == right.postgreSQL && left.redis == right.redis
            && left.ldap == right.ldap
    }

    private var fields: [String] {
        [
            backEnds.map(\.rawValue).joined(separator: ","), passwordPath ?? "", accessPath ?? "", host, "\(port ?? 0)",
            userURI ?? "",
            superuserURI ?? "", accessURI ?? "", "\(usesTLS)\(verifiesPeer)\(disablesSuperuser)\(cachesAnswers)",
            responseMode.rawValue,
            parametersMode.rawValue, "\(timeoutSeconds) \(retryCount)", userAgent, method,
            "\(loginCacheSeconds) \(loginJitterSeconds) \(accessCacheSeconds) \(accessJitterSeconds)",
            (prefixes ?? []).map { "\($0.prefix)=\($0.backEnd)" }.joined(separator: ","), tokenSecret ?? "", tokenUserClaim,
            checks.map { "\($0.key)=\($0.value.map(\.rawValue).sorted())" }.sorted().joined(), tokenAccessPath ?? "",
            databasePath ?? "", userQuery ?? "", superuserQuery ?? "", accessQuery ?? "",
        ]
    }

    /// Takes over the lines of the plug-in; what is wrong with one has been said where it was read.
    init(_ options: [String: String]) {
        func words(_ name: String) -> [String] {
            (options[name] ?? "").split(separator: ",").map { String($0).trimmed }
        }
        func number(_ name: String, _ usual: Int) -> Int { options[name].flatMap { Int($0) } ?? usual }
        func isTrue(_ name: String) -> Bool { options[name] == "true" }
        backEnds = words("backends").compactMap { BackEnd(rawValue: $0) }
        passwordPath = options["files_password_path"] ?? options["password_path"]
        accessPath = options["files_acl_path"] ?? options["acl_path"]
        let place = options["http_host"] ?? "localhost"
        if let colon = place.firstIndex(of: ":"), place.lastIndex(of: ":") == colon {
            (host, port) = (String(place[..<colon]), UInt16(place[place.index(after: colon)...]))
        } else {
            host = place
        }
        if let port = options["http_port"].flatMap({ UInt16($0) }) { self.port = port }
        userURI = options["http_getuser_uri"]
        superuserURI = options["http_superuser_uri"]
        accessURI = options["http_aclcheck_uri"]
        usesTLS = isTrue("http_with_tls")
        verifiesPeer = options["http_verify_peer"] != "false"
        responseMode = options["http_response_mode"].flatMap { ResponseMode(rawValue: $0) } ?? .status
        parametersMode = options["http_params_mode"].flatMap { ParametersMode(rawValue: $0) } ?? .json
        timeoutSeconds = number("http_timeout", 5)
        userAgent = options["http_user_agent"] ?? "mosquitto"
        method = options["http_method"]?.uppercased() ?? "POST"
        disablesSuperuser = isTrue("disable_superuser") || isTrue("http_disable_superuser")
        retryCount = number("retry_count", 0)
        cachesAnswers = isTrue("cache")
        loginCacheSeconds = number("auth_cache_seconds", 30)
        loginJitterSeconds = number("auth_jitter_seconds", 0)
        accessCacheSeconds = number("acl_cache_seconds", 30)
        accessJitterSeconds = number("acl_jitter_seconds", 0)
        // The plug-in reads the first, and its page names the second.
        (tokenSecret, tokenAccessPath) = (options["jwt_secret"], options["jwt_acl_path"] ?? options["jwt_files_acl_path"])
        if options["jwt_userfield"] == "Username" { tokenUserClaim = "username" }
        (databasePath, userQuery) = (options["sqlite_source"], options["sqlite_userquery"])
        accessQuery = options["sqlite_aclquery"]
        superuserQuery = isTrue("disable_superuser") || isTrue("sqlite_disable_superuser") ? nil : options["sqlite_superquery"]
        readServers(options)
        for backEnd in backEnds where options["\(backEnd.prefix)_register"] != nil {
            checks[backEnd] = Set(words("\(backEnd.prefix)_register").compactMap { Check(rawValue: $0) })
        }
        forgetUnasked()
        // Of another number they are none, as there.
        guard isTrue("check_prefix"), words("prefixes").count == words("backends").count else { return }
        prefixes = zip(words("prefixes"), backEnds).map { (prefix: $0, backEnd: $1) }
    }

    /// What is not asked is not there.
    private mutating func forgetUnasked() {
        if !asks(.files, .user) { passwordPath = nil }
        if !asks(.files, .acl) { accessPath = nil }
        if !asks(.http, .user) { userURI = nil }
        if !asks(.http, .superuser) { superuserURI = nil }
        if !asks(.http, .acl) { accessURI = nil }
        if !asks(.jwt, .acl) { tokenAccessPath = nil }
        if !asks(.sqlite, .superuser) { superuserQuery = nil }
        if !asks(.sqlite, .acl) { accessQuery = nil }
        if !asks(.postgres, .superuser) { postgreSQL.superuserQuery = nil }
        if !asks(.postgres, .acl) { postgreSQL.accessQuery = nil }
        if !asks(.redis, .superuser) { redis.disablesSuperuser = true }
        if !asks(.redis, .acl) { redis.disablesRules = true }
        if !asks(.ldap, .superuser) { ldap.superuserFilter = nil }
        if !asks(.ldap, .acl) { ldap.topicAttribute = nil }
    }

    /// The databases and directories that are asked over the network.
    private mutating func readServers(_ options: [String: String]) {
        let noSuperusers = options["disable_superuser"] == "true"
        func port(_ name: String, _ usual: UInt16) -> UInt16 { options[name].flatMap { UInt16($0) } ?? usual }
        postgreSQL.host = options["pg_host"] ?? "localhost"
        postgreSQL.port = port("pg_port", 5432)
        (postgreSQL.user, postgreSQL.password) = (options["pg_user"] ?? "", options["pg_password"] ?? "")
        postgreSQL.database = options["pg_dbname"] ?? ""
        (postgreSQL.userQuery, postgreSQL.accessQuery) = (options["pg_userquery"], options["pg_aclquery"])
        let hasNone = noSuperusers || options["pg_disable_superuser"] == "true"
        postgreSQL.superuserQuery = hasNone ? nil : options["pg_superquery"]
        postgreSQL.encryption = options["pg_sslmode"].flatMap { PostgreSQL.Encryption(rawValue: $0) } ?? .verifyFull
        postgreSQL.authoritiesFile = options["pg_sslrootcert"]
        (postgreSQL.certificateFile, postgreSQL.keyFile) = (options["pg_sslcert"], options["pg_sslkey"])
        redis.host = options["redis_host"] ?? "localhost"
        redis.port = port("redis_port", 6379)
        redis.password = options["redis_password"]
        redis.database = options["redis_db"].flatMap { Int($0) } ?? 1
        redis.disablesSuperuser = noSuperusers || options["redis_disable_superuser"] == "true"
        // go-auth writes %s for the user's name.
        func filter(_ name: String) -> String? { options[name]?.replacing(every: "%s", by: "%u") }
        ldap.url = options["ldap_url"] ?? "ldap://localhost:389"
        (ldap.brokerEntry, ldap.brokerPassword) = (options["ldap_bind_dn"], options["ldap_bind_password"])
        (ldap.userEntry, ldap.groupEntry) = (options["ldap_user_dn"], options["ldap_group_dn"])
        ldap.userFilter = filter("ldap_user_filter") ?? ""
        ldap.groupFilter = filter("ldap_group_filter") ?? "(member=%u)"
        ldap.superuserFilter =
            noSuperusers || options["ldap_disable_superuser"] == "true" || options["ldap_superuser_filter"] == ""
            ? nil : filter("ldap_superuser_filter")
        ldap.topicAttribute = options["ldap_acl_topic_pattern_attribute"]
        ldap.accessAttribute = options["ldap_acl_acc_attribute"]
    }
}
