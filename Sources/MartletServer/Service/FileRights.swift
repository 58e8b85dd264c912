import BrokerCore
import BrokerModel
import Configuration
import Glibc
import Platform
import ServerLoops

/// Whether the user that the broker runs as may read the files that it reads again at each reload: users, rules, keys
/// and certificates.
struct FileRights {
    /// nil when the broker stays root, who may read everything.
    private let right: ReadRight?
    /// Whether root reads the files now, and that user only at a reload.
    private let isForReload: Bool

    /// For a broker that becomes `userName` if root has started it. To be made before other threads run.
    init(becoming userName: String) {
        isForReload = geteuid() == 0
        right = isForReload ? Privileges.successor(named: userName).flatMap { ReadRight(userNamed: $0.name) } : ReadRight()
    }

    /// For a broker that is that user from its start on.
    init(of userName: String) {
        isForReload = false
        right = ReadRight(userNamed: userName)
    }

    /// A warning for each file that may not be read, with what to type.
    func warnings(on configuration: BrokerConfiguration) -> [String] {
        remarks(on: configuration).map { "Warning: \($0.option ?? "") \($0.value ?? ""): \($0.message)" }
    }

    /// A remark for each file that may not be read, with the option and the file that it is about.
    func remarks(on configuration: BrokerConfiguration) -> [StartRemark] {
        guard let right else { return [] }
        return Self.files(of: configuration).compactMap { option, path in
            guard let obstacle = right.obstacle(to: path) else { return nil }
            let time = isForReload ? " when it reloads" : ""
            return StartRemark(
                option: option, value: path,
                message: "the broker runs as the user \(right.user), who may not read it\(time). \(right.remedy(for: obstacle))")
        }
    }

    /// At the start: says them if root reads the files now. Else the start fails, and its error says what to type.
    func logAtStart(_ configuration: BrokerConfiguration, to log: Log) {
        if isForReload { report(configuration, to: log) }
    }

    /// Says them.
    func report(_ configuration: BrokerConfiguration, to log: Log) {
        for warning in warnings(on: configuration) { log.write(.warning, warning) }
    }

    /// Each file once, with the option that names it first.
    static func files(of configuration: BrokerConfiguration) -> [(option: String, path: String)] {
        var files: [(option: String, path: String)] = []
        func add(_ named: [(String, String?)]) {
            for (option, path) in named {
                guard let path, !files.contains(where: { $0.path == path }) else { continue }
                files.append((option, path))
            }
        }
        for listener in configuration.openListeners {
            let (security, tls) = (listener.security, listener.tls)
            add(listener.addresses.allowedFiles.map { ("martlet_allow_from_file", $0) })
            add(listener.addresses.deniedFiles.map { ("martlet_deny_from_file", $0) })
            add([
                ("password_file", security.passwordFile), ("martlet_scram_file", security.scramFile),
                ("acl_file", security.accessControlFile), ("psk_file", security.preSharedKeyFile),
                ("plugin_opt_config_file", security.dynamicSecurityFile),
                ("martlet_http_auth_cafile", security.logins.http.authoritiesFile),
                ("martlet_http_auth_certfile", security.logins.http.certificateFile),
                ("martlet_http_auth_keyfile", security.logins.http.keyFile),
                ("martlet_http_auth_token_file", security.logins.http.tokenFile),
                ("auth_opt_sqlite_source", security.logins.goAuth?.databasePath),
                ("auth_opt_pg_sslrootcert", security.logins.goAuth?.postgreSQL.authoritiesFile),
                ("auth_opt_pg_sslcert", security.logins.goAuth?.postgreSQL.certificateFile),
                ("auth_opt_pg_sslkey", security.logins.goAuth?.postgreSQL.keyFile),
                ("martlet_ldap_cafile", security.logins.ldap.authoritiesFile),
                ("martlet_ldap_certfile", security.logins.ldap.certificateFile),
                ("martlet_ldap_keyfile", security.logins.ldap.keyFile),
                ("martlet_jwt_keys", security.tokens.keysFile), ("martlet_jwt_secret_file", security.tokens.secretFile),
                ("martlet_jwt_cafile", security.tokens.authoritiesFile),
                ("martlet_introspection_secret_file", security.tokens.introspection.secretFile),
                ("martlet_introspection_cafile", security.tokens.introspection.authoritiesFile),
                ("certfile", tls.certificateFile), ("keyfile", tls.keyFile), ("cafile", tls.authoritiesFile),
                ("crlfile", tls.revocationListFile), ("dhparamfile", tls.diffieHellmanParametersFile),
                ("martlet_ocsp_file", tls.statusFile),
            ])
            for one in tls.namedCertificates {
                add([("martlet_certificate", one.certificateFile), ("martlet_certificate", one.keyFile)])
            }
            add(tls.ticketKeyFiles.map { ("martlet_tls_ticket_key_file", $0) })
        }
        add(configuration.general.secretFiles.map { ($0.option, $0.path) })
        let cluster = configuration.cluster
        if cluster.isEnabled {
            add([
                ("martlet_cluster_nkey_file", cluster.keyFile), ("martlet_cluster_cafile", cluster.authoritiesFile),
                ("martlet_cluster_certfile", cluster.certificateFile), ("martlet_cluster_keyfile", cluster.certificateKeyFile),
            ])
        }
        return files
    }
}

/// `pid_file`: tells scripts which process the broker is.
struct ProcessIdentifierFile {
    private let path: String

    /// Writes the process identifier, in place of what the file held.
    init(path: String) throws(ServerError) {
        self.path = path
        do throws(SystemError) {
            let file = try WrittenFile.openEmptied(path, mode: 0o644)
            defer { file.close() }
            var text = "\(getpid())\n"
            let written = text.withUTF8 { write(file.rawValue, $0.baseAddress, $0.count) }
            guard written > 0 else { throw SystemError(errno: errno, operation: "write") }
        } catch {
            throw .processIdentifierFile(path: path, reason: ServerError.reason(for: error, writing: path))
        }
    }

    /// Takes the file away. A directory that the broker's user may not write keeps it.
    func remove() { _ = unlink(path) }
}

/// `user`: a broker that root starts goes on as somebody who may do less.
struct Privileges {
    /// The user that the broker goes on as.
    struct User {
        let name: String
        let user: uid_t
        let group: gid_t
    }

    /// The user that a broker started by root becomes; nil when it stays who it is.
    ///
    /// mosquitto's default user may be missing, then it is nobody; a user that the file names must exist.
    ///
    /// - Parameters:
    ///   - name: as the configuration has it.
    ///   - warn: gets what the operator should know, as sentences.
    static func user(named name: String, warn: (String) -> Void) throws(ServerError) -> User? {
        guard geteuid() == 0 else { return nil }
        guard name != "root" else {
            warn("The broker should not be run as root.")
            return nil
        }
        if let user = find(name) { return user }
        guard name == "mosquitto" else { throw .unknownUser(name) }
        warn("Unable to drop privileges to 'mosquitto' because this user does not exist. Trying 'nobody' instead.")
        guard let nobody = find("nobody") else { throw .unknownUser("nobody") }
        return nobody
    }

    /// Finds that user without saying anything; nil also for a name that nobody has.
    static func successor(named name: String) -> User? {
        guard geteuid() == 0, name != "root" else { return nil }
        return find(name) ?? (name == "mosquitto" ? find("nobody") : nil)
    }

    /// A user whom the machine has under this name; nil for none, and for root.
    static func other(named name: String) -> User? { name == "root" ? nil : find(name) }

    /// Does something with the rights of a user, and is root again afterwards; nil when the kernel does not let it. Not
    /// while other threads run: they would have these rights too.
    static func acting<Result>(as user: User, _ body: () -> Result) -> Result? {
        let count = getgroups(0, nil)
        var groups = [gid_t](repeating: 0, count: max(0, Int(count)))
        guard count >= 0, getgroups(count, &groups) >= 0, initgroups(user.name, user.group) == 0 else { return nil }
        defer { setgroups(groups.count, groups) }
        guard setegid(user.group) == 0 else { return nil }
        defer { setegid(0) }
        guard seteuid(user.user) == 0 else { return nil }
        defer { seteuid(0) }
        return body()
    }

    /// Becomes the user, for good and for all threads. Call when everything that needs root is open.
    static func drop(to user: User) throws(ServerError) {
        guard initgroups(user.name, user.group) == 0 else { throw failure("initgroups", user) }
        guard setgid(user.group) == 0 else { throw failure("setgid", user) }
        guard setuid(user.user) == 0 else { throw failure("setuid", user) }
    }

    private static func find(_ name: String) -> User? {
        // The table of users is read before any thread runs: the static answer is ours.
        guard let entry = getpwnam(name) else { return nil }
        return User(name: name, user: entry.pointee.pw_uid, group: entry.pointee.pw_gid)
    }

    private static func failure(_ operation: String, _ user: User) -> ServerError {
        .privileges(user: user.name, operation: operation, errno: errno)
    }
}

/// What systemd wants to hear of a service: `sd_notify`'s protocol, spoken directly.
///
/// Without NOTIFY_SOCKET in the environment nobody listens, and every call does nothing.
struct ServiceManager: Sendable {
    private let socket: String?
    /// How often it must hear that the service is well; nil when it does not ask.
    let watchdogMilliseconds: UInt64?

    /// As the environment of the process says.
    init() { self.init { getenv($0).map { String(cString: $0) } } }

    init(variable: (String) -> String?) {
        socket = variable("NOTIFY_SOCKET").flatMap { $0.hasPrefix("/") || $0.hasPrefix("@") ? $0 : nil }
        let isOurs = variable("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
        let microseconds = variable("WATCHDOG_USEC").flatMap { UInt64($0) } ?? 0
        watchdogMilliseconds = socket != nil && isOurs && microseconds >= 3000 ? microseconds / 1000 : nil
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\nMAINPID=\(getpid())") }

    func reloading() { send("RELOADING=1\nMONOTONIC_USEC=\(MonotonicClock.milliseconds() * 1000)") }

    func stopping() { send("STOPPING=1") }

    func isWell() { send("WATCHDOG=1") }

    private func send(_ text: String) {
        guard let socket else { return }
        ServiceSocket.send(text, to: socket)
    }
}
