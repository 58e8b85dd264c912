import BrokerCore
import BrokerModel
import Configuration
import LoginServices
import MQTTCodec
import Platform
public import Security
import ServerLoops
import Transports

extension SecurityTables {
    /// Reads every file that the configuration names, each once; throws all that is wrong with any of them.
    ///
    /// - Parameters:
    ///   - directories: dynamic security, by its file; a file that is not there is passed over.
    ///   - services: by what services are asked about logins.
    init(
        reading configuration: BrokerConfiguration, workers: WorkerPool, directories: [String: SecurityDirectory] = [:],
        services: ServiceAccess = ServiceAccess()
    ) throws(SecurityFilesError) {
        var reading = Reading(
            workers: workers, services: services, spansLevels: configuration.general.compatibility == .version2_0,
            directories: directories)
        var listeners: [ListenerSecurity] = []
        for listener in configuration.listeners {
            guard !listener.isClosed else {
                listeners.append(ListenerSecurity())
                continue
            }
            var security = reading.security(of: listener.security)
            security.allowsAnonymous = listener.security.allowsAnonymous
            security.isForAdministrators = listener.application == .httpAPI
            security.addresses = reading.addressRules(of: listener.addresses)
            security.acceptsClientUserNames = listener.tls.userNameSource == .none || listener.tls.requiresPasswordToo
            if !listener.tls.requiresKnownUser { security.knownUsers = nil }
            if let rules = reading.defaultRules(of: listener), !rules.isEmpty {
                security.accessControl = AccessControl(security.accessControl, defaults: rules)
            }
            // What a certificate brings along is known when its client is here.
            if !(listener.tls.certificateGroups.isEmpty && listener.tls.certificateRoles.isEmpty
                && listener.tls.certificateAttributes.isEmpty)
            {
                security.takesRulesFromLogins = true
            }
            listeners.append(security)
        }
        if !reading.problems.isEmpty { throw SecurityFilesError(problems: reading.problems) }
        self.init(listeners: listeners, warnings: reading.warnings)
    }

    /// Tells the core what it has to ask for.
    func apply(to settings: inout BrokerSettings) {
        for (index, security) in listeners.enumerated() {
            settings.listeners[index].checksPasswords = security.authenticator != nil
            settings.listeners[index].passwordBackend = security.passwordBackend
            settings.listeners[index].takesRulesFromLogins = security.takesRulesFromLogins
            settings.listeners[index].accessControl = security.accessControl
            settings.listeners[index].knownUsers = security.knownUsers
            if security.isForAdministrators { settings.listeners[index].admitAdministrators() }
            if security.isDynamic { settings.controlEndpoints.insert(ControlTopicService.securityEndpoint) }
            for method in security.methods where !settings.authenticationMethods.contains(method.method) {
                settings.authenticationMethods.append(method.method)
            }
        }
    }

    private struct Reading {
        let workers: WorkerPool
        let services: ServiceAccess
        /// Whether names with a `/` stand for several levels of a pattern, as in mosquitto 2.0.
        let spansLevels: Bool
        var problems: [SecurityFileProblem] = []
        var warnings: [SecurityFileProblem] = []
        private let directories: [String: SecurityDirectory]
        private var passwords: [String: PasswordAuthenticator?] = [:]
        private var methods: [String: ScramSHA256?] = [:]
        private var rules: [String: AccessControlFile?] = [:]
        private var keys: [String: PreSharedKeyFile?] = [:]
        private var logins = LoginSourceReading()
        private var tokens = TokenSourceReading()
        private var networks: [String: AddressListFile<TrustedNetwork>?] = [:]

        init(workers: WorkerPool, services: ServiceAccess, spansLevels: Bool, directories: [String: SecurityDirectory]) {
            self.workers = workers
            self.services = services
            self.directories = directories
            self.spansLevels = spansLevels
        }

        mutating func security(of configuration: SecurityConfiguration) -> ListenerSecurity {
            var security = ListenerSecurity()
            let users = once("password_file", configuration.passwordFile, \.passwords) {
                [workers] path throws(SecurityFileError) in
                var users = try PasswordFile(path: path)
                if let user = configuration.firstUser { users = try users.adding(user) }
                return (PasswordAuthenticator(users: users, workers: workers), users.warnings)
            }
            let ownUsers = users ?? firstUser(of: configuration)
            security.authenticator = ownUsers
            let directory = configuration.dynamicSecurityFile.flatMap { directories[$0] }
            security.knownUsers = KnownUsers(passwords: ownUsers?.users, directory: directory)
            let method = once("martlet_scram_file", configuration.scramFile, \.methods) { path throws(SecurityFileError) in
                let users = try ScramFile(path: path)
                return (ScramSHA256(users: users, makeNonce: SecurityTables.nonce), users.warnings)
            }
            security.methods = method.map { [$0] } ?? []
            let access = once("acl_file", configuration.accessControlFile, \.rules) {
                [spansLevels] path throws(SecurityFileError) in
                let rules = try AccessControlFile(path: path, spansLevels: spansLevels)
                return (rules, rules.warnings)
            }
            security.accessControl = access?.control
            security.preSharedKeys = once("psk_file", configuration.preSharedKeyFile, \.keys) { path throws(SecurityFileError) in
                let keys = try PreSharedKeyFile(path: path)
                return (keys, keys.warnings)
            }
            // Dynamic security is asked first, as with mosquitto, and the files where it says nothing.
            if let directory {
                security.isDynamic = true
                security.accessControl = AccessControl(roles: directory, lists: security.accessControl)
            }
            if configuration.logins.isChain || configuration.tokens.isEnabled {
                let byToken = tokens.sources(configuration.tokens, roles: directory, workers: workers, services)
                warnings += tokens.takeWarnings()
                problems += tokens.takeProblems()
                if let source = byToken.jwt {
                    let (tally, report) = (services.tallies.tally(source.name), services.report)
                    security.methods += TokenMethod.names.map { TokenMethod($0, source, tally: tally, report: report) }
                }
                var present: [LoginSourceName: any LoginSource] = [:]
                present[.jwt] = byToken.jwt
                present[.introspection] = byToken.introspection
                present[.passwordFile] = security.authenticator as? any LoginSource
                present[.dynamicSecurity] = directory.map { DirectoryAuthenticator(directory: $0, next: nil, workers: workers) }
                security.sources = logins.chain(configuration.logins, present, roles: directory, services)
                security.authenticator = security.sources
                security.takesRulesFromLogins = configuration.logins.bringsRules || configuration.tokens.isEnabled
                problems += logins.takeProblems()
            } else {
                let byDirectory = directory.map { DirectoryAuthenticator(directory: $0, next: nil, workers: workers) }
                let known: [(any Authenticator)?] = [byDirectory, security.authenticator]
                let sources = known.compactMap { $0 as? any LoginSource }
                if !sources.isEmpty {
                    security.sources = LoginChain(
                        sources.map { ($0, nil) }, tallies: LoginSourceTallies(), report: { _ in })
                }
                if let directory {
                    security.authenticator = DirectoryAuthenticator(
                        directory: directory, next: security.authenticator, workers: workers)
                }
            }
            return security
        }

        /// From where clients of a listener may connect; nil for anywhere.
        mutating func addressRules(of addresses: ListenerAddresses) -> AddressRules? {
            guard !addresses.isEmpty else { return nil }
            var (allowed, denied) = (addresses.allowed.compactMap(\.network), addresses.denied.compactMap(\.network))
            for path in addresses.allowedFiles { allowed += networks(of: path, "martlet_allow_from_file") }
            for path in addresses.deniedFiles { denied += networks(of: path, "martlet_deny_from_file") }
            // A list that is empty allows nobody.
            let isOpen = addresses.allowed.isEmpty && addresses.allowedFiles.isEmpty
            return AddressRules(allowed: allowed, denied: denied, allowsOthers: isOpen)
        }

        /// What clients of a listener may do that have no rules of their own.
        mutating func defaultRules(of listener: ListenerConfiguration) -> [AccessRule]? {
            do throws(SecurityFileError) {
                return try AccessControlFile.defaultRules(listener.defaultRules)
            } catch {
                problems += error.problems.map { problem in
                    var problem = problem
                    problem.option = SecurityFileProblem.defaultRule
                    return problem
                }
                return nil
            }
        }

        private mutating func networks(of path: String, _ option: String) -> [TrustedNetwork] {
            let file = once(option, path, \.networks) { path throws(SecurityFileError) in
                let list = try AddressListFile(path: path) { NetworkRange($0)?.network }
                return (list, list.warnings)
            }
            return file?.networks ?? []
        }

        /// Of a listener without a file of users: the environment's user alone, made once.
        private mutating func firstUser(of configuration: SecurityConfiguration) -> PasswordAuthenticator? {
            guard configuration.passwordFile == nil, let user = configuration.firstUser else { return nil }
            return once("MARTLET_USER", "", \.passwords) { [workers] _ throws(SecurityFileError) in
                (PasswordAuthenticator(users: try PasswordFile().adding(user), workers: workers), [])
            }
        }

        /// Reads a file for the first listener that names it, and gives the others the same table.
        private mutating func once<Table>(
            _ option: String, _ path: String?, _ tables: WritableKeyPath<Reading, [String: Table?]>,
            _ read: (String) throws(SecurityFileError) -> (Table, warnings: [SecurityFileProblem])
        ) -> Table? {
            guard let path else { return nil }
            if let known = self[keyPath: tables][path] { return known }
            var table: Table?
            do throws(SecurityFileError) {
                let (made, remarks) = try read(path)
                table = made
                warnings += remarks
            } catch {
                problems += error.problems.map { problem in
                    // Of a file as a whole, the option that names it says where to look.
                    guard problem.line == nil else { return problem }
                    var problem = problem
                    problem.option = option
                    return problem
                }
            }
            self[keyPath: tables][path] = .some(table)
            return table
        }
    }

    @Sendable private static func nonce() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 24) { buffer, count in
            RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
            count = buffer.count
        }
    }
}

extension NetworkRange {
    /// As the transports have it.
    fileprivate var network: TrustedNetwork? { TrustedNetwork(host: host, bits: bits) }
}

extension ListenerPolicy {
    /// Lets in those whom the control thread has let in already: by no name, to everything.
    fileprivate mutating func admitAdministrators() {
        (allowsAnonymous, checksPasswords, userNameSource, accessControl) = (true, false, .login, nil)
        (usesUserNameAsClientIdentifier, mountPoint, maximumQoS) = (false, MountPoint(), .exactlyOnce)
        (takesIdentifierFromCertificate, requiresPasswordToo, knownUsers) = (false, false, nil)
        versions = [.v5]
        // No session of a device is taken over from a page.
        (clientIdentifierPrefix, userIdentifierPrefix) = ("dashboard-", "")
    }
}

extension PasswordFile {
    /// The password file with the user that the environment names.
    fileprivate func adding(_ user: FirstUser) throws(SecurityFileError) -> PasswordFile {
        guard let users = adding(user.name, password: Array(user.password.utf8)) else {
            throw SecurityFileError(file: "", message: "there is not memory enough to hash the password of MARTLET_USER.")
        }
        return users
    }
}

/// Why the files of users, rules and keys cannot be used: all that is wrong with any of them.
public struct SecurityFilesError: Error, Sendable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    /// One problem a line, without the last full stop.
    public var description: String { String(problems.map(\.description).joined(separator: "\n").dropLast()) }
}

extension SecurityFileProblem {
    /// As the start and the check of a configuration say it: at its own line, or else at the option that names the
    /// file.
    func diagnostic(in result: ConfigurationResult) -> Diagnostic {
        let severity: Diagnostic.Severity = severity == .error ? .error : .warning
        guard line == nil else { return Diagnostic(severity: severity, file: FullPath.of(file), line: line, message: message) }
        let subject = isAddress ? file : isOfFile ? FullPath.of(file) : "\"\(file)\""
        let words = option == Self.defaultRule ? message : advice ?? "\(subject) \(message)"
        let remark = StartRemark(option: option, value: file, message: words)
        return remark.diagnostic(severity, in: result)
    }

    /// The option whose value is what is wrong, and no file.
    fileprivate static let defaultRule = "martlet_default_rule"

    /// Whether it is about what a URL names, and no file.
    private var isAddress: Bool { file.holds("://") }

    /// Says what is in the way of the file, and what to type against it; nil when nothing is.
    private var advice: String? {
        // What makes a file that is missing says itself why it cannot.
        if option?.hasPrefix("plugin_opt_") == true || isAddress || !isOfFile { return nil }
        guard let obstacle = FileAdvice.obstacle(toReading: file) else { return nil }
        guard case .missing(let path) = obstacle else { return "\(obstacle.advice())." }
        let missing = MissingFile(path)
        // A file that is there under nearly the same name is meant, and none is made where there is no directory.
        guard missing.directory == nil, missing.neighbour == nil else { return "\(missing.words)." }
        switch option {
        case "password_file": return "\(path) does not exist. Make it: martlet passwd -c \(path) USER."
        case "martlet_scram_file": return "\(path) does not exist. Make it: martlet passwd -H scram-sha-256 -c \(path) USER."
        default: return "\(path) does not exist."
        }
    }
}

/// The pre-shared keys of a listener that are in force: loops look into it during handshakes, a reload exchanges them.
final class PreSharedKeyRing: Sendable {
    private let keys = Locked<PreSharedKeyFile?>(nil)

    /// Takes the place of the keys before; nil for none.
    func exchange(_ keys: PreSharedKeyFile?) { self.keys.replace(with: keys) }

    /// The key of an identity, nil for one that is not known.
    func key(for identity: String) -> [UInt8]? { keys.value?.key(for: Array(identity.utf8)) }
}
