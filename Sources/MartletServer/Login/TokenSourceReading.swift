import BrokerModel
import Configuration
import HTTPClient
import JSONWebTokens
import LoginServices
import MQTTCodec
import Platform
import Security
import Transports

/// Makes the sources of logins by tokens of a configuration: listeners that say the same have the same.
struct TokenSourceReading {
    /// nil where nothing is configured, or it cannot be used.
    struct Sources {
        var jwt: TokenLoginSource?
        var introspection: IntrospectionLoginSource?
    }

    private var problems: [SecurityFileProblem] = []
    private var warnings: [SecurityFileProblem] = []
    private var made: [(tokens: TokenConfiguration, roles: SecurityDirectory?, sources: Sources)] = []

    /// What was wrong since the last call.
    mutating func takeProblems() -> [SecurityFileProblem] {
        defer { problems = [] }
        return problems
    }

    mutating func takeWarnings() -> [SecurityFileProblem] {
        defer { warnings = [] }
        return warnings
    }

    /// - Parameters:
    ///   - roles: dynamic security, whose roles tokens may name; nil for none.
    ///   - workers: check signatures.
    mutating func sources(
        _ tokens: TokenConfiguration, roles: SecurityDirectory?, workers: WorkerPool, _ services: ServiceAccess
    ) -> Sources {
        if let known = made.first(where: { $0.tokens == tokens && $0.roles === roles }) { return known.sources }
        let lookup = roles.map { directory in
            { @Sendable (names: [EncodedString]) -> [RoleRules] in directory.rules(ofRoles: names) }
        }
        var sources = Sources()
        let verifier = TokenVerifier(TokenRules(tokens))
        if tokens.hasKeys, let keys = keys(tokens, services) {
            sources.jwt = TokenLoginSource(verifier, keys: keys, location: .init(tokens.location), roles: lookup, workers: workers)
        }
        if tokens.introspection.url != nil { sources.introspection = introspection(tokens, verifier, lookup, services) }
        made.append((tokens, roles, sources))
        return sources
    }

    // MARK: Keys

    private mutating func keys(_ tokens: TokenConfiguration, _ services: ServiceAccess) -> TokenKeyRing? {
        var own: [VerificationKey] = []
        if let path = tokens.keysFile {
            guard let bytes = bytes(of: path, "martlet_jwt_keys", bytesMax: Limits.tokenKeysBytesMax) else { return nil }
            do throws(TokenKeyError) {
                let read = try TokenKeys(reading: bytes, allowsSecrets: true)
                own += read.keys
                warnings += read.remarks.map { remark in
                    var warning = problem("martlet_jwt_keys", path, "holds what is passed over: \(remark).")
                    warning.severity = .warning
                    return warning
                }
            } catch {
                problems.append(problem("martlet_jwt_keys", path, "\(error)."))
                return nil
            }
        }
        if let path = tokens.secretFile {
            guard let bytes = bytes(of: path, "martlet_jwt_secret_file", bytesMax: Limits.tokenKeysBytesMax) else { return nil }
            do throws(TokenKeyError) {
                own += try TokenKeys(secret: bytes).keys
            } catch {
                problems.append(problem("martlet_jwt_secret_file", path, "\(error)."))
                return nil
            }
        }
        if let secret = tokens.secret {
            do throws(TokenKeyError) {
                own.append(try VerificationKey(secret: Array(secret.utf8)))
            } catch {
                var refused = problem("auth_opt_jwt_secret", "***", "\(error).")
                refused.isOfFile = false
                problems.append(refused)
                return nil
            }
        }
        let algorithms = TokenRules(tokens).algorithms
        if tokens.keysURL == nil, !algorithms.contains(where: { asked in own.contains { $0.fits(asked) } }) {
            let names = algorithms.map(\.rawValue).joined(separator: " or ")
            let (option, path) =
                tokens.keysFile.map { ("martlet_jwt_keys", $0) } ?? ("martlet_jwt_secret_file", tokens.secretFile ?? "")
            problems.append(problem(option, path, "holds no key for \(names), which martlet_jwt_algorithms names."))
            return nil
        }
        guard let url = tokens.keysURL else { return TokenKeyRing(own: TokenKeys(own)) }
        return fetchedKeys(url, tokens, TokenKeys(own), services)
    }

    /// Keys of a server, which are fetched when they are first needed.
    private mutating func fetchedKeys(
        _ url: String, _ tokens: TokenConfiguration, _ own: TokenKeys, _ services: ServiceAccess
    ) -> TokenKeyRing? {
        guard let address = address("martlet_jwt_keys", url) else { return nil }
        do throws(SystemError) {
            let loop = try services.loop()
            do throws(TLSFailure) {
                let server = try TokenKeyServer(
                    address, settings(tokens.authoritiesFile), issuers: tokens.discoversKeys ? tokens.issuers : nil, on: loop)
                return services.tokenKeys.withLock { rings in
                    let key = "\(url) \(tokens.authoritiesFile ?? "") \(tokens.discoversKeys ? tokens.issuers : [])"
                    let ring = TokenKeyRing(own: own, fetch: { server.fetch($0) }, earlier: rings[key])
                    rings[key] = ring
                    return ring
                }
            } catch {
                problems.append(problem("martlet_jwt_cafile", error.value, "\(error.reason)."))
            }
        } catch {
            problems.append(problem("martlet_jwt_keys", url, "cannot be asked: \(error.reason)."))
        }
        return nil
    }

    // MARK: Introspection

    private mutating func introspection(
        _ tokens: TokenConfiguration, _ verifier: TokenVerifier, _ roles: TokenLoginSource.RoleLookup?, _ services: ServiceAccess
    ) -> IntrospectionLoginSource? {
        let asked = tokens.introspection
        var login: (identifier: String, secret: String)?
        if let identifier = asked.clientIdentifier, let path = asked.secretFile {
            guard let secret = secret(in: path, "martlet_introspection_secret_file") else { return nil }
            login = (identifier, secret)
        }
        guard let url = asked.url,
            let client = makeClient(
                "martlet_introspection_url", url, "martlet_introspection_cafile", asked.authoritiesFile, services)
        else { return nil }
        return IntrospectionLoginSource(
            client, credentials: login, verifier: verifier, isInUserName: tokens.location == .userName, roles: roles,
            cacheSeconds: asked.cacheSeconds)
    }

    /// The first line of a file.
    private mutating func secret(in path: String, _ option: String) -> String? {
        guard let bytes = bytes(of: path, option, bytesMax: Limits.tokenKeysBytesMax) else { return nil }
        let line = bytes.prefix { $0 != 0x0A && $0 != 0x0D }
        if !line.isEmpty, let secret = String(validating: line, as: UTF8.self) { return secret }
        problems.append(problem(option, path, "holds no secret: one line of text."))
        return nil
    }

    private mutating func makeClient(
        _ option: String, _ url: String, _ authoritiesOption: String, _ authoritiesFile: String?, _ services: ServiceAccess
    ) -> HTTPClient? {
        guard let address = address(option, url) else { return nil }
        do throws(SystemError) {
            let loop = try services.loop()
            do throws(TLSFailure) {
                return try HTTPClient(to: address, settings(authoritiesFile), on: loop)
            } catch {
                problems.append(problem(authoritiesOption, error.value, "\(error.reason)."))
            }
        } catch {
            problems.append(problem(option, url, "cannot be asked: \(error.reason)."))
        }
        return nil
    }

    // MARK: -

    private func settings(_ authoritiesFile: String?) -> HTTPClientSettings {
        var settings = HTTPClientSettings()
        settings.contentTypes = ["application/json"]
        var tls = TLSClientSettings(serverName: "")
        tls.authoritiesFile = authoritiesFile
        settings.tls = tls
        return settings
    }

    private mutating func address(_ option: String, _ url: String) -> HTTPAddress? {
        do throws(HTTPAddressError) {
            return try HTTPAddress(url: url)
        } catch {
            problems.append(problem(option, url, "\(error)."))
            return nil
        }
    }

    private mutating func bytes(of path: String, _ option: String, bytesMax: Int) -> [UInt8]? {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: bytesMax)
        } catch {
            switch error {
            case .isDirectory: problems.append(problem(option, path, "is a directory."))
            case .isTooLarge: problems.append(problem(option, path, "has more than \(bytesMax) bytes."))
            case .refused(let error): problems.append(problem(option, path, "cannot be read: \(error.reason)."))
            }
            return nil
        }
    }

    private func problem(_ option: String, _ value: String, _ words: String) -> SecurityFileProblem {
        var problem = SecurityFileProblem(file: ConfigurationOption.shown(value, of: option), message: words)
        problem.option = option
        return problem
    }
}

extension TokenRules {
    /// What the options say.
    init(_ tokens: TokenConfiguration) {
        self.init()
        algorithms = tokens.algorithms.compactMap { SignatureAlgorithm($0.rawValue) }
        (issuers, audiences) = (tokens.issuers, tokens.audiences)
        required = tokens.requiredClaims.compactMap { RequiredClaim($0) }
        leewaySeconds = Int64(tokens.leewaySeconds)
        (userNameClaim, clientIdentifierClaim) = (tokens.userNameClaim, tokens.clientIdentifierClaim)
        (rolesClaim, accessClaim) = (tokens.rolesClaim, tokens.accessClaim)
        tokenBytesMax = tokens.bytesMax
    }
}

extension TokenLoginSource.Location {
    init(_ location: TokenLocation) {
        switch location {
        case .password: self = .password
        case .userName: self = .userName
        case .authentication: self = .authentication
        }
    }
}

extension Limits {
    /// Bytes of a file of keys; a larger one is refused.
    static let tokenKeysBytesMax = 1 << 20
}
