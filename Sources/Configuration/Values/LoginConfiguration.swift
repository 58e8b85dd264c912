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
    /// mosquitto-go-auth's, as its plug-in's lines have it; nil without them.
    public var goAuth: GoAuthConfiguration?

    public init() {}

    /// Whether there is more to ask than the files and dynamic security, in their usual order.
    public var isChain: Bool { chain != nil || bringsRules }

    /// Whether logins may bring rules along: whether anybody is asked over the network.
    public var bringsRules: Bool {
        http.url != nil || http.rulesURL != nil || goAuth?.asksService == true || goAuth?.backEnds.contains(.sqlite) == true
    }
}

/// A source of logins, as `martlet_auth_chain` names it.
public enum LoginSourceName: String, Sendable, Equatable, CaseIterable {
    /// Tokens that are checked here: what is none is left to the others at once.
    case jwt
    case dynamicSecurity = "dynamic_security"
    case passwordFile = "password_file"
    /// The database of mosquitto-go-auth's back end.
    case sqlite
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

/// mosquitto-go-auth's options, of the back ends `files`, `http`, `jwt` and `sqlite`.
public struct GoAuthConfiguration: Sendable, Equatable {
    public enum BackEnd: String, Sendable, Equatable {
        case files
        case http
        case jwt
        case sqlite
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
    /// What user names of the service begin with; nil where prefixes are not looked at.
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
        [accessPath, tokenAccessPath, superuserURI, accessURI, superuserQuery, accessQuery].contains { $0 != nil }
    }

    /// One that lets users in whom nothing bounds, since it is not asked for their topics; nil where there is none.
    var backEndWithoutRules: BackEnd? {
        guard accessPath == nil, tokenAccessPath == nil, !asks(.http, .acl) else { return nil }
        return [BackEnd.files, .jwt, .sqlite].first { asks($0, .user) && !asks($0, .acl) }
    }

    /// Leaves the rules to an access file that the configuration names beside the plug-in: it binds everybody.
    mutating func leaveRules() {
        (accessPath, tokenAccessPath, superuserURI, accessURI) = (nil, nil, nil, nil)
        (superuserQuery, accessQuery) = (nil, nil)
    }

    public static func == (left: GoAuthConfiguration, right: GoAuthConfiguration) -> Bool {
        left.fields.elementsEqual(right.fields)
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
        (tokenSecret, tokenAccessPath) = (options["jwt_secret"], options["jwt_acl_path"])
        if options["jwt_userfield"] == "Username" { tokenUserClaim = "username" }
        (databasePath, userQuery) = (options["sqlite_source"], options["sqlite_userquery"])
        accessQuery = options["sqlite_aclquery"]
        superuserQuery = isTrue("disable_superuser") || isTrue("sqlite_disable_superuser") ? nil : options["sqlite_superquery"]
        for backEnd in backEnds where options["\(backEnd.rawValue)_register"] != nil {
            checks[backEnd] = Set(words("\(backEnd.rawValue)_register").compactMap { Check(rawValue: $0) })
        }
        if !asks(.files, .user) { passwordPath = nil }
        if !asks(.files, .acl) { accessPath = nil }
        if !asks(.http, .user) { userURI = nil }
        if !asks(.http, .superuser) { superuserURI = nil }
        if !asks(.http, .acl) { accessURI = nil }
        if !asks(.jwt, .acl) { tokenAccessPath = nil }
        if !asks(.sqlite, .superuser) { superuserQuery = nil }
        if !asks(.sqlite, .acl) { accessQuery = nil }
        guard isTrue("check_prefix") else { return }
        prefixes = zip(words("prefixes"), backEnds).map { (prefix: $0, backEnd: $1) }
    }
}
