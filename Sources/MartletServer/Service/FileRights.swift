import BrokerCore
import BrokerModel
import Configuration
import Glibc
import Platform
import ServerLoops

/// Whether the user that the broker runs as may read the files that it reads again at each reload: users, rules, keys and certificates.
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
        if isForReload { tell(configuration, to: log) }
    }

    /// Says them.
    func tell(_ configuration: BrokerConfiguration, to log: Log) {
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
            add([
                ("password_file", security.passwordFile), ("martlet_scram_file", security.scramFile),
                ("acl_file", security.accessControlFile), ("psk_file", security.preSharedKeyFile),
                ("plugin_opt_config_file", security.dynamicSecurityFile),
                ("certfile", tls.certificateFile), ("keyfile", tls.keyFile), ("cafile", tls.authoritiesFile),
                ("crlfile", tls.revocationListFile), ("dhparamfile", tls.diffieHellmanParametersFile),
            ])
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
