import Administration
import BrokerCore
import BrokerModel
import Cluster
import ClusterGateway
public import Configuration
import Glibc
import HTTPServer
import MQTTCodec
import Persistence
internal import Platform
import Security
public import ServerLoops
import Synchronization
import Transports

/// The broker as a process runs it: listeners, one loop and one shard a core, and the thread that hears signals.
///
///     let server = try Server(configuration: configuration, log: log)
///     server.run()                // until SIGINT or SIGTERM
///
/// This is what is made before the process becomes its user: what needs root is open, and nothing runs yet. `run` makes
/// a `RunningBroker` of it.
public final class Server: @unchecked Sendable {
    public let loopCount: Int
    /// The addresses it listens on, as `127.0.0.1:1883`, in the order of the configuration.
    public let addresses: [String]
    let log: Log
    /// What is in force at the start, and then.
    let configuration: RunningConfiguration
    let open: OpenListeners
    /// The users, rules and keys as they are at the start.
    let tables: SecurityTables
    /// Whether a damaged store is to be opened with what is intact.
    let repairsStore: Bool
    let manager = ServiceManager()
    let control: ControlLoop
    /// Dynamic security's files.
    let documents: SecurityDocuments
    private let greeting: Greeting
    /// The bridges to other brokers.
    let bridges: BridgeSupervisor
    /// The cluster that this is a node of; nil on a broker that is alone.
    let clusterPlan: ClusterPlan?
    /// When it began, in milliseconds since 1970.
    let startedAt = Moment.now().wallMilliseconds
    /// Where the secrets of TLS connections go, for debugging; nil for nowhere.
    let keyLogFile: String?
    /// Checks passwords, for all loops.
    let workers: WorkerPool
    /// By what services are asked about logins.
    let services: ServiceAccess
    /// Of the user that the broker runs as.
    let fileRights: FileRights

    /// Opens every listener and makes the loops; nothing is accepted before `run`.
    ///
    /// Call on the process's first thread before any other is started: the signals it hears are blocked for all.
    ///
    /// - Parameters:
    ///   - configuration: what is in force.
    ///   - file: where the configuration was read from, for the log; nil for nowhere.
    ///   - log: open, and not yet on a thread of its own.
    ///   - keyLogFile: where the secrets of TLS connections are appended, for debugging.
    ///   - repairsStore: whether a damaged store is opened with what is intact, after a copy is made.
    ///   - reread: reads the configuration again, when the operator asks for it.
    public init(
        configuration: BrokerConfiguration, file: String? = nil, log: Log, keyLogFile: String? = nil, repairsStore: Bool = false,
        reread: (@Sendable () -> ConfigurationResult)? = nil
    ) throws(ServerError) {
        self.log = log
        self.configuration = RunningConfiguration(configuration, reread: file == nil ? nil : reread)
        log.write(.information, "martlet version \(ProductVersion.text) starting")
        log.write(.information, file.map { "Config loaded from \($0)." } ?? "Using default config.")
        let budget = ProcessorBudget()
        // Among those that confirm shard messages, the cluster stands behind the loops.
        loopCount = min(
            budget.loopCount(asked: configuration.general.threads),
            configuration.cluster.isEnabled ? Limits.loopsMax - 2 : Limits.loopsMax)
        if let remark = budget.remark(asked: configuration.general.threads) { log.write(.information, remark) }
        ResourceLimits.raiseFileDescriptors()
        ResourceLimits.writeNoCoreFiles()
        do throws(SystemError) {
            // Before anything listens: from then on somebody may take us for running, and send signals.
            control = try ControlLoop()
        } catch {
            throw .system(error)
        }
        fileRights = FileRights(becoming: configuration.general.userName)
        fileRights.logAtStart(configuration, to: log)
        workers = WorkerPool(
            name: "martlet-login", threads: min(budget.usable, Limits.workersMax), queue: Limits.pendingLoginsMax)
        documents = SecurityDocuments(log: log)
        services = ServiceAccess(throttle: workers.throttle) { line in log.write(.warning, line) }
        tables = try Self.tables(configuration, documents, workers: workers, services, log)
        bridges = BridgeSupervisor(try BridgePlan.all(of: configuration), log: log)
        clusterPlan = try ClusterPlan(configuration)
        if clusterPlan != nil, documents.documents.count > 1 {
            throw .cluster(
                option: "plugin_opt_config_file",
                reason: "the nodes of a cluster share one dynamic security: a node has one file of it")
        }
        self.repairsStore = repairsStore
        open = try OpenListeners(configuration, loops: loopCount, keyLogFile: keyLogFile, log: log)
        addresses = open.addresses
        for line in Self.localOnlyLines(configuration, file) { log.write(.notice, line) }
        if let user = configuration.security.firstUser {
            log.write(
                .notice,
                "MARTLET_USER: \(user.name) logs in with the password of the environment; who has no login is refused on listeners without "
                    + "listener_allow_anonymous true.")
        }
        greeting = Greeting(
            open.sockets[0].map { ($0.listener.boundAddress, configuration.listeners[$0.policy]) }, loopCount: loopCount)
        open.exchangeKeys(tables)
        self.keyLogFile = keyLogFile
        if let keyLogFile {
            log.write(.warning, "Warning: the secrets of all TLS connections are written to \(keyLogFile).")
        }
    }

    /// Runs until a signal ends it: the first one gracefully, a second one at once. Everything that needs root is open
    /// by now.
    public func run() throws(ServerError) {
        let general = configuration.value.general
        var identifierFile: ProcessIdentifierFile?
        if let path = general.processIdentifierFile { identifierFile = try ProcessIdentifierFile(path: path) }
        defer { identifierFile?.remove() }
        if let user = try Privileges.user(named: general.userName, warn: { log.write(.warning, "Warning: \($0)") }) {
            log.give(to: user.user, group: user.group)
            open.give(toUser: user.user, group: user.group)
            try Privileges.drop(to: user)
        }
        documents.warn()
        let broker = try RunningBroker(self, identifierFile)
        let threads = try startThreads(broker)
        broker.begin()
        log.write(.notice, greeting.text)
        manager.ready("Serving on \(addresses.joined(separator: ", "))")
        do throws(SystemError) {
            let interval = manager.watchdogMilliseconds.map { $0 / 3 }
            // Administrators wait for messages, not the other way round.
            NamedThread.giveWay()
            try control.run(until: loopCount, watchIntervalMilliseconds: interval, for: broker)
        } catch {
            throw .system(error)
        }
        broker.stopServing()
        for thread in threads { thread.join() }
        broker.end()
        workers.stop()
        services.stop()
        log.write(.notice, "martlet version \(ProductVersion.text) terminating")
        log.end(within: 2000)
    }

    /// What a newcomer is told whose broker nobody else can reach: the first line is mosquitto's, and the second one
    /// where there is no file.
    private static func localOnlyLines(_ configuration: BrokerConfiguration, _ file: String?) -> [String] {
        let isLocal = configuration.listeners.allSatisfy {
            if case .loopback = $0.endpoint { true } else { $0.isLocalAdministration }
        }
        guard isLocal else { return [] }
        let local = "Starting in local only mode. Connections will only be possible from clients running on this machine."
        if let file = file.map(FullPath.of) {
            let users = "\(file.prefix(upTo: file.lastIndex(of: "/") ?? file.startIndex))/users"
            return [
                local,
                "To let others connect: martlet passwd -c \(users) USER, then put the lines \"listener 1883\" and \"password_file \(users)\" "
                    + "into \(file), or into a file that it includes, and start the broker again.",
            ]
        }
        return [
            local,
            "Create a configuration file which defines a listener to allow remote access.",
            "For example: martlet passwd -c /etc/martlet/users USER, then a file with the lines \"listener 1883\" and "
                + "\"password_file /etc/martlet/users\", and start with -c FILE.",
        ]
    }

    private func startThreads(_ broker: RunningBroker) throws(ServerError) -> [NamedThread] {
        var threads: [NamedThread] = []
        let loops = broker.loops.all
        // Loops on every core would push aside those whom they serve, and each other, for every packet.
        let isPatient = loops.count > 1 && loops.count >= ProcessorCount.usable()
        do throws(SystemError) {
            try log.start()
            for loop in loops {
                threads.append(
                    try NamedThread.start(name: "martlet-\(loop.index)", isPatient: isPatient) { [control] in
                        loop.run()
                        control.loopEnded()
                    })
                guard broker.store != nil else { continue }
                threads.append(try NamedThread.start(name: "martlet-\(loop.index)b", isPatient: isPatient) { loop.standIn() })
            }
        } catch {
            throw .system(error)
        }
        return threads
    }

    /// Reads the files of users, rules and keys.
    private static func tables(
        _ configuration: BrokerConfiguration, _ securityDocuments: SecurityDocuments, workers: WorkerPool,
        _ services: ServiceAccess, _ log: Log
    ) throws(ServerError) -> SecurityTables {
        do throws(SecurityFilesError) {
            try securityDocuments.open(configuration)
            let tables = try SecurityTables(
                reading: configuration, workers: workers, directories: securityDocuments.directories, services: services)
            for warning in tables.warnings { log.write(.warning, "Warning: \(warning)") }
            return tables
        } catch {
            throw .securityFiles(error)
        }
    }
}

extension Limits {
    /// Passwords checked at the same time: the check of a good hash takes some 50 MiB.
    static let workersMax = 4

    /// Logins that wait for a check; a further one is told that the broker is busy.
    static let pendingLoginsMax = 1000
}
