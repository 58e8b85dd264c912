import BrokerModel
import Configuration
import HTTPClient
import LoginServices
import MQTTCodec
import Platform
import Security
import Transports

/// By what services are asked about logins: one thread for all of them, one memory of their answers, and the counts,
/// which outlive a reload. For any thread.
final class ServiceAccess: Sendable {
    let tallies = LoginSourceTallies()
    let cache = LoginCache()
    /// By the server that they are fetched from: what was fetched serves on after a reload.
    let tokenKeys = Locked<[String: TokenKeyRing]>([:])
    let report: @Sendable (String) -> Void
    private let thread = Locked<HTTPClientLoop?>(nil)
    /// By the names of the sources whose servers they wait for: one that is slow keeps nobody else waiting.
    private let waiting = Locked<[String: WorkerPool]>([:])
    private let throttle: LoginThrottle

    /// - Parameters:
    ///   - throttle: tells whose login is first.
    ///   - report: gets lines for the log, on any thread.
    init(throttle: LoginThrottle = LoginThrottle(), report: @escaping @Sendable (String) -> Void = { _ in }) {
        (self.throttle, self.report) = (throttle, report)
    }

    /// Threads that wait for the server of a source of logins, which begin when there are logins.
    func workers(_ name: String) -> WorkerPool {
        waiting.withLock { waiting in
            if let known = waiting[name] { return known }
            let made = WorkerPool(
                name: "martlet-\(name)", threads: Limits.serverWorkersMax, queue: Limits.pendingServerLoginsMax, throttle: throttle)
            waiting[name] = made
            return made
        }
    }

    /// The thread, which begins when it is first asked for.
    func loop() throws(SystemError) -> HTTPClientLoop {
        try thread.withLock { thread throws(SystemError) in
            if let thread { return thread }
            let made = try HTTPClientLoop(name: "martlet-http")
            thread = made
            return made
        }
    }

    /// Ends the threads.
    func stop() {
        let pools = waiting.withLock { waiting in
            defer { waiting = [:] }
            return waiting.values
        }
        for pool in pools { pool.stop() }
        let ending = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        ending?.stop()
    }
}

/// Makes the chains of login sources of a configuration, each service's client once.
struct LoginSourceReading {
    private var problems: [SecurityFileProblem] = []
    private var clients: [(key: String, client: HTTPClient)] = []
    private var directories: [(ldap: LDAPConfiguration, roles: SecurityDirectory?, source: LDAPLoginSource?)] = []
    private var databases: [(goAuth: GoAuthConfiguration, sources: [LoginSourceName: any LoginSource])] = []

    /// What was wrong since the last call.
    mutating func takeProblems() -> [SecurityFileProblem] {
        defer { problems = [] }
        return problems
    }

    /// - Parameters:
    ///   - logins: what is configured.
    ///   - present: the sources that are no services.
    ///   - roles: dynamic security, whose roles groups of a directory may name; nil for none.
    ///   - services: by what services are asked.
    mutating func chain(
        _ logins: LoginConfiguration, _ present: [LoginSourceName: any LoginSource], roles: SecurityDirectory?,
        _ services: ServiceAccess
    ) -> LoginChain {
        var sources = present.mapValues { (source: $0, memory: LoginMemory?.none) }
        let staleSeconds = logins.unavailable == .allowCached ? Self.staleSeconds : 0
        func memory(seconds: Int, jitter: Int, staleSeconds: Int) -> LoginMemory? {
            let terms = LoginCache.Terms(
                seconds: UInt64(seconds), jitterSeconds: UInt64(jitter), staleSeconds: UInt64(staleSeconds))
            return terms.isOff ? nil : LoginMemory(services.cache, terms)
        }
        let ownMemory = memory(
            seconds: logins.cacheSeconds, jitter: logins.cacheJitterSeconds, staleSeconds: staleSeconds)
        if let client = client("martlet_http_auth_url", logins.http.url, logins.http, services) {
            sources[.http] = (HTTPLoginSource(client, fields: fields(logins.http)), ownMemory)
        }
        var rules: (source: any LoginRulesSource, memory: LoginMemory?)?
        if let goAuth = logins.goAuth {
            let isCached = goAuth.cachesAnswers
            let memoryOfUsers = memory(
                seconds: isCached ? goAuth.loginCacheSeconds : 0, jitter: isCached ? goAuth.loginJitterSeconds : 0,
                staleSeconds: staleSeconds)
            if let file = present[.passwordFile] {
                // Beside other back ends one without an access file grants nothing; the service is asked for its users'
                // topics.
                let isBound = goAuth.backEnds.count > 1 && goAuth.asks(.files, .user) && !goAuth.asksService
                sources[.passwordFile] = (prefixed(isBound ? BoundLoginSource(file) : file, .files, goAuth), nil)
            }
            if let source = source(goAuth, services) {
                if goAuth.asks(.http, .user) { sources[.goAuth] = (prefixed(source, .http, goAuth), memoryOfUsers) }
                let memoryOfRules = memory(
                    seconds: isCached ? goAuth.accessCacheSeconds : 0, jitter: goAuth.accessJitterSeconds, staleSeconds: 0)
                rules = (source, memoryOfRules)
            }
            for (name, source) in databaseSources(goAuth, services) {
                let backEnds: [LoginSourceName: GoAuthConfiguration.BackEnd] = [.postgresql: .postgres, .redis: .redis]
                sources[name] = (prefixed(source, backEnds[name] ?? .sqlite, goAuth), memoryOfUsers)
            }
            if logins.ldap.url == nil, goAuth.asks(.ldap, .user),
                let source = directory(goAuth.ldap, "auth_opt_ldap_", nil, services)
            {
                sources[.ldap] = (prefixed(source, .ldap, goAuth), memoryOfUsers)
            }
        }
        if logins.ldap.url != nil, let source = directory(logins.ldap, "martlet_ldap_", roles, services) {
            sources[.ldap] = (source, ownMemory)
        }
        if let client = client("martlet_http_authorize_url", logins.http.rulesURL, logins.http, services) {
            rules = (HTTPRulesSource(client, fields: fields(logins.http)), ownMemory)
        }
        let order = logins.chain ?? Self.usualOrder(logins.goAuth)
        for name in logins.chain ?? [] where sources[name] == nil && problems.isEmpty {
            // Dynamic security whose file is missing has been spoken of.
            guard name != .dynamicSecurity else { continue }
            problems.append(
                problem("martlet_auth_chain", name.rawValue, "names a source that nothing configures.", isOfFile: false))
        }
        return LoginChain(
            order.compactMap { sources[$0] }, rules: rules, tallies: services.tallies, report: services.report)
    }

    /// A back end of go-auth, asked about those users alone whose names may be its own.
    private func prefixed(
        _ source: any LoginSource, _ backEnd: GoAuthConfiguration.BackEnd, _ goAuth: GoAuthConfiguration
    ) -> any LoginSource {
        guard let prefixes = goAuth.prefixes else { return source }
        return PrefixedLoginSource(source, otherPrefixes: prefixes.filter { $0.backEnd != backEnd }.map(\.prefix))
    }

    /// Back ends of go-auth are asked as its lines have them.
    private static func usualOrder(_ goAuth: GoAuthConfiguration?) -> [LoginSourceName] {
        let named = (goAuth?.backEnds ?? []).map { backEnd -> LoginSourceName in
            switch backEnd {
            case .files: .passwordFile
            case .http: .goAuth
            case .jwt: .jwt
            case .sqlite: .sqlite
            case .postgres: .postgresql
            case .redis: .redis
            case .ldap: .ldap
            }
        }
        let first = [LoginSourceName.jwt, .dynamicSecurity].filter { !named.contains($0) }
        return first + named + LoginSourceName.allCases.filter { !first.contains($0) && !named.contains($0) }
    }

    /// go-auth's databases, made once for all listeners.
    private mutating func databaseSources(
        _ goAuth: GoAuthConfiguration, _ services: ServiceAccess
    ) -> [LoginSourceName: any LoginSource] {
        if let known = databases.first(where: { $0.goAuth == goAuth }) { return known.sources }
        var sources: [LoginSourceName: any LoginSource] = [:]
        if goAuth.asks(.sqlite, .user), let path = goAuth.databasePath, let query = goAuth.userQuery {
            let queries = DatabaseLoginSource.Queries(
                user: query, superuser: goAuth.superuserQuery, access: goAuth.accessQuery)
            // Somebody else may have locked it: nobody waits for that who logs in by a file.
            sources[.sqlite] = DatabaseLoginSource(sqlite: path, queries, workers: services.workers("sqlite"))
        }
        if goAuth.asks(.postgres, .user), let query = goAuth.postgreSQL.userQuery {
            let asked = goAuth.postgreSQL
            let queries = DatabaseLoginSource.Queries(user: query, superuser: asked.superuserQuery, access: asked.accessQuery)
            let settings = PostgreSQLSettings(
                host: asked.host, port: asked.port, user: asked.user, password: asked.password, database: asked.database,
                encryption: PostgreSQLSettings.Encryption(rawValue: asked.encryption.rawValue) ?? .verifyFull,
                authoritiesFile: asked.authoritiesFile, certificateFile: asked.certificateFile, keyFile: asked.keyFile)
            do throws(TLSFailure) {
                sources[.postgresql] = try DatabaseLoginSource(
                    postgreSQL: settings, queries, workers: services.workers("pg"))
            } catch {
                let options = ["cafile": "sslrootcert", "certfile": "sslcert", "keyfile": "sslkey"]
                problems.append(
                    problem("auth_opt_pg_\(options[error.option] ?? "sslmode")", error.value, "cannot be used: \(error.reason)."))
            }
        }
        if goAuth.asks(.redis, .user) {
            let settings = RedisSettings(
                host: goAuth.redis.host, port: goAuth.redis.port, password: goAuth.redis.password,
                database: goAuth.redis.database)
            sources[.redis] = DatabaseLoginSource(
                redis: settings, asksForSuperusers: !goAuth.redis.disablesSuperuser,
                asksForTopics: !goAuth.redis.disablesRules, workers: services.workers("redis"))
        }
        databases.append((goAuth, sources))
        return sources
    }

    /// A directory, made once for all listeners that say the same.
    ///
    /// - Parameter prefix: of the options that it was configured with.
    private mutating func directory(
        _ ldap: LDAPConfiguration, _ prefix: String, _ roles: SecurityDirectory?, _ services: ServiceAccess
    ) -> LDAPLoginSource? {
        if let known = directories.first(where: { $0.ldap == ldap && $0.roles === roles }) { return known.source }
        guard let url = ldap.url, let userEntry = ldap.userEntry else { return nil }
        var settings = LDAPSettings(url: url, userEntry: userEntry)
        settings.startsTLS = ldap.startsTLS
        (settings.authoritiesFile, settings.certificateFile, settings.keyFile) =
            (ldap.authoritiesFile, ldap.certificateFile, ldap.keyFile)
        if let entry = ldap.brokerEntry, let password = ldap.brokerPassword { settings.broker = (entry, password) }
        (settings.userFilter, settings.groupFilter) = (ldap.userFilter, ldap.groupFilter)
        (settings.superuserFilter, settings.comparedAttribute) = (ldap.superuserFilter, ldap.comparedAttribute)
        (settings.groupEntry, settings.roleAttribute) = (ldap.groupEntry, ldap.roleAttribute)
        (settings.topicAttribute, settings.accessAttribute) = (ldap.topicAttribute, ldap.accessAttribute)
        settings.timeoutMilliseconds = UInt64(ldap.timeoutSeconds) * 1000
        let lookup = roles.map { directory in
            { @Sendable (names: [EncodedString]) -> [RoleRules] in directory.rules(ofRoles: names) }
        }
        var source: LDAPLoginSource?
        do throws(LDAPSettingsError) {
            source = try LDAPLoginSource(settings, roles: lookup, workers: services.workers("ldap"))
        } catch {
            var option = error.option
            if prefix == "auth_opt_ldap_" {
                option =
                    ["topic_attribute": "acl_topic_pattern_attribute", "access_attribute": "acl_acc_attribute"][option] ?? option
            }
            let isOfFile = ["cafile", "certfile", "keyfile"].contains(option)
            problems.append(problem("\(prefix)\(option)", error.value, "\(error.reason).", isOfFile: isOfFile))
        }
        directories.append((ldap, roles, source))
        return source
    }

    /// go-auth's service, if it has one.
    private mutating func source(_ goAuth: GoAuthConfiguration, _ services: ServiceAccess) -> GoAuthSource? {
        guard goAuth.asksService else { return nil }
        let address = HTTPAddress(
            host: goAuth.host, port: goAuth.port ?? (goAuth.usesTLS ? 443 : 80), usesTLS: goAuth.usesTLS)
        var settings = HTTPClientSettings()
        settings.answerMilliseconds = UInt64(goAuth.timeoutSeconds) * 1000
        settings.inFlightMax = Limits.goAuthQuestionsMax
        var tls = TLSClientSettings(serverName: goAuth.host)
        tls.verifiesServer = goAuth.verifiesPeer
        settings.tls = tls
        guard let client = makeClient("auth_opt_http_host", "\(address)", settings, services, { address }) else { return nil }
        return GoAuthSource(
            client,
            GoAuthSource.Settings(
                userTarget: goAuth.userURI ?? "/", superuserTarget: goAuth.disablesSuperuser ? nil : goAuth.superuserURI,
                accessTarget: goAuth.accessURI,
                responses: GoAuthSource.Settings.Responses(rawValue: goAuth.responseMode.rawValue) ?? .status,
                usesForms: goAuth.parametersMode == .form, method: goAuth.method, userAgent: goAuth.userAgent,
                retriesMax: goAuth.retryCount,
                accessCacheSeconds: goAuth.cachesAnswers ? UInt64(goAuth.accessCacheSeconds) : 0,
                accessJitterSeconds: goAuth.cachesAnswers ? UInt64(goAuth.accessJitterSeconds) : 0))
    }

    /// The client of a service that the configuration names by its URL.
    private mutating func client(
        _ option: String, _ url: String?, _ http: HTTPLoginConfiguration, _ services: ServiceAccess
    ) -> HTTPClient? {
        guard let url else { return nil }
        var settings = HTTPClientSettings()
        settings.answerMilliseconds = UInt64(http.timeoutSeconds) * 1000
        settings.contentTypes = ["application/json"]
        var tls = TLSClientSettings(serverName: "")
        (tls.authoritiesFile, tls.certificateFile, tls.keyFile) = (http.authoritiesFile, http.certificateFile, http.keyFile)
        settings.tls = tls
        return makeClient(option, url, settings, services) { () throws(HTTPAddressError) in try HTTPAddress(url: url) }
    }

    private mutating func makeClient(
        _ option: String, _ value: String, _ settings: HTTPClientSettings, _ services: ServiceAccess,
        _ address: () throws(HTTPAddressError) -> HTTPAddress
    ) -> HTTPClient? {
        let key = "\(value) \(settings)"
        if let known = clients.first(where: { $0.key == key }) { return known.client }
        let found: HTTPAddress
        do throws(HTTPAddressError) {
            found = try address()
        } catch {
            problems.append(problem(option, value, "\(error)."))
            return nil
        }
        do throws(SystemError) {
            let loop = try services.loop()
            do throws(TLSFailure) {
                let client = try HTTPClient(to: found, settings, on: loop)
                clients.append((key, client))
                return client
            } catch {
                problems.append(problem("martlet_http_auth_\(error.option)", error.value, "\(error.reason)."))
            }
        } catch {
            problems.append(problem(option, value, "cannot be asked: \(error.reason)."))
        }
        return nil
    }

    /// What every question to a service carries.
    private mutating func fields(_ http: HTTPLoginConfiguration) -> [HTTPQuestion.Field] {
        guard let path = http.tokenFile else { return [] }
        guard let bytes = try? WholeFile.bytes(of: path, bytesMax: Limits.serviceTokenFileBytesMax) else {
            problems.append(
                problem(
                    "martlet_http_auth_token_file", path,
                    "cannot be read, or has more than \(Limits.serviceTokenFileBytesMax) bytes.")
            )
            return []
        }
        let line = bytes.prefix { $0 != 0x0A && $0 != 0x0D }
        guard !line.isEmpty, line.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            problems.append(
                problem("martlet_http_auth_token_file", path, "holds no token: one line of printable ASCII without blanks."))
            return []
        }
        return [.init("Authorization", "Bearer \(String(decoding: line, as: UTF8.self))")]
    }

    private func problem(
        _ option: String, _ value: String, _ words: String, isOfFile: Bool = true
    ) -> SecurityFileProblem {
        var problem = SecurityFileProblem(file: ConfigurationOption.shown(value, of: option), message: words)
        (problem.option, problem.isOfFile) = (option, isOfFile)
        return problem
    }

    /// For how long a remembered login stands in for a service that cannot be asked: a day.
    private static let staleSeconds = 86_400
}

extension Limits {
    /// Questions that go-auth's service is asked at the same time; further ones wait. The plug-in asks one after the
    /// other, and services are made for that: Home Assistant's has 64 connections, of which a question takes up to
    /// four.
    static let goAuthQuestionsMax = 8

    /// Threads that wait for one directory or database, each with a connection of its own. Bytes: 1 MiB each at most.
    static let serverWorkersMax = 8

    /// Logins that wait for such a thread; of more, one is told that the broker is busy.
    static let pendingServerLoginsMax = 10_000

    /// Bytes of a file with a service's token; a longer one is refused.
    static let serviceTokenFileBytesMax = 64 << 10
}
