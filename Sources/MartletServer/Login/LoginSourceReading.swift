import Configuration
import HTTPClient
import LoginServices
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

    /// - Parameter report: gets lines for the log, on any thread.
    init(report: @escaping @Sendable (String) -> Void = { _ in }) { self.report = report }

    /// The thread, which begins when it is first asked for.
    func loop() throws(SystemError) -> HTTPClientLoop {
        try thread.withLock { thread throws(SystemError) in
            if let thread { return thread }
            let made = try HTTPClientLoop(name: "martlet-http")
            thread = made
            return made
        }
    }

    /// Ends the thread.
    func stop() {
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

    /// What was wrong since the last call.
    mutating func takeProblems() -> [SecurityFileProblem] {
        defer { problems = [] }
        return problems
    }

    /// - Parameters:
    ///   - logins: what is configured.
    ///   - present: the sources that are no services.
    ///   - workers: ask databases.
    ///   - services: by what services are asked.
    mutating func chain(
        _ logins: LoginConfiguration, _ present: [LoginSourceName: any LoginSource], workers: WorkerPool,
        _ services: ServiceAccess
    ) -> LoginChain {
        var sources = present
        let staleSeconds = logins.unavailable == .allowCached ? Self.staleSeconds : 0
        func cached(_ source: any LoginSource, seconds: Int, jitter: Int) -> any LoginSource {
            let terms = LoginCache.Terms(
                seconds: UInt64(seconds), jitterSeconds: UInt64(jitter), staleSeconds: UInt64(staleSeconds))
            return terms.isOff ? source : CachedLoginSource(source, cache: services.cache, terms: terms)
        }
        if let client = client("martlet_http_auth_url", logins.http.url, logins.http, services) {
            sources[.http] = cached(
                HTTPLoginSource(client, fields: fields(logins.http)), seconds: logins.cacheSeconds,
                jitter: logins.cacheJitterSeconds)
        }
        var rules: (any LoginRulesSource)?
        if let goAuth = logins.goAuth, let source = source(goAuth, services) {
            let isCached = goAuth.cachesAnswers
            if goAuth.asks(.http, .user) {
                sources[.goAuth] = cached(
                    source, seconds: isCached ? goAuth.loginCacheSeconds : 0, jitter: isCached ? goAuth.loginJitterSeconds : 0)
            }
            let terms = LoginCache.Terms(
                seconds: isCached ? UInt64(goAuth.accessCacheSeconds) : 0, jitterSeconds: UInt64(goAuth.accessJitterSeconds))
            rules = CachedRulesSource(source, cache: services.cache, terms: terms)
        }
        if let goAuth = logins.goAuth, goAuth.asks(.sqlite, .user), let path = goAuth.databasePath,
            let query = goAuth.userQuery
        {
            let queries = DatabaseLoginSource.Queries(
                user: query, superuser: goAuth.superuserQuery, access: goAuth.accessQuery)
            sources[.sqlite] = cached(
                DatabaseLoginSource(sqlite: path, queries, workers: workers),
                seconds: goAuth.cachesAnswers ? goAuth.loginCacheSeconds : 0,
                jitter: goAuth.cachesAnswers ? goAuth.loginJitterSeconds : 0)
        }
        if let client = client("martlet_http_authorize_url", logins.http.rulesURL, logins.http, services) {
            let terms = LoginCache.Terms(
                seconds: UInt64(logins.cacheSeconds), jitterSeconds: UInt64(logins.cacheJitterSeconds),
                staleSeconds: UInt64(staleSeconds))
            rules = CachedRulesSource(
                HTTPRulesSource(client, fields: fields(logins.http)), cache: services.cache, terms: terms)
        }
        let order = logins.chain ?? Self.usualOrder(logins.goAuth)
        for name in logins.chain ?? [] where sources[name] == nil && problems.isEmpty {
            // Dynamic security whose file is missing has been spoken of.
            guard name != .dynamicSecurity else { continue }
            problems.append(problem("martlet_auth_chain", name.rawValue, "names a source that nothing configures."))
        }
        return LoginChain(
            order.compactMap { sources[$0] }, rules: rules, tallies: services.tallies, report: services.report)
    }

    /// Back ends of go-auth are asked as its lines have them.
    private static func usualOrder(_ goAuth: GoAuthConfiguration?) -> [LoginSourceName] {
        let named = (goAuth?.backEnds ?? []).map { backEnd -> LoginSourceName in
            switch backEnd {
            case .files: .passwordFile
            case .http: .goAuth
            case .jwt: .jwt
            case .sqlite: .sqlite
            }
        }
        let first = [LoginSourceName.jwt, .dynamicSecurity].filter { !named.contains($0) }
        return first + named + LoginSourceName.allCases.filter { !first.contains($0) && !named.contains($0) }
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
                accessJitterSeconds: goAuth.cachesAnswers ? UInt64(goAuth.accessJitterSeconds) : 0,
                prefix: goAuth.prefixes?.first { $0.backEnd == .http }?.prefix,
                otherPrefixes: (goAuth.prefixes ?? []).filter { $0.backEnd != .http }.map(\.prefix)))
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

    private func problem(_ option: String, _ value: String, _ words: String) -> SecurityFileProblem {
        var problem = SecurityFileProblem(file: value, message: words)
        problem.option = option
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

    /// Bytes of a file with a service's token; a longer one is refused.
    static let serviceTokenFileBytesMax = 64 << 10
}
