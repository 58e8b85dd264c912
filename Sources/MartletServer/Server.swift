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
public final class Server: @unchecked Sendable {
    public let loopCount: Int
    /// The addresses it listens on, as `127.0.0.1:1883`, in the order of the configuration.
    public let addresses: [String]
    let log: Log
    /// One a core; made when the broker runs.
    private(set) var loops: [ShardLoop] = []
    /// What outlives the process; nil without persistence.
    private(set) var openStore: OpenStore?
    /// The control thread's, once the broker runs.
    var open: OpenListeners
    /// Counts the connections; made when the broker runs. The control thread's.
    var admission: ConnectionAdmission?
    private let tables: SecurityTables
    /// Whether a damaged store is to be opened with what is intact.
    private let repairsStore: Bool
    let manager = ServiceManager()
    let control: ControlLoop
    /// Asks the loops for administrators; made when the broker runs. The control thread's.
    private(set) var brokerClient: BrokerClient?
    /// The bans; made when the broker runs. The control thread's.
    private(set) var bans: BanService?
    /// Sends the clients away; made when the broker runs. The control thread's.
    private(set) var drain: DrainService?
    /// Dynamic security's files, and what performs commands on them. The control thread's.
    let securityDocuments: SecurityDocuments
    private(set) var securityService: DynamicSecurityService?
    /// Hashes passwords for files. The control thread's.
    private(set) lazy var hasher = EntryHasher(control.mailbox)
    /// Answers over HTTP; made when the broker runs. The control thread's.
    private(set) var http: HTTPFrontend?
    /// Sees and steers over it. The control thread's.
    var administration: Administration?
    /// Where changes are written down. The control thread's.
    let auditLog: AuditLog
    /// Whether the loops are told to end. The control thread's.
    var isStopping = false
    /// What the store last had to tell. The control thread's.
    var storeTrouble = BrokerCondition.Store.good
    /// When the configuration was read again last, in milliseconds since 1970. The control thread's.
    var reloadedAt: UInt64?
    /// The reloads that are under way or wait for it. The control thread's.
    var reloads = ReloadQueue()
    /// Where the listeners of the files are among those of the configuration, in the files' order. The control
    /// thread's.
    var listenersOfFiles: [Int]
    /// Where the lines of the configuration stand; empty without a file. The control thread's.
    var places = ConfigurationLocations()
    /// SHA-256 of the lines, in hexadecimal; nil until somebody has asked. The control thread's.
    var digest: String?
    private let greeting: Greeting
    /// Reads the configuration again; nil when there is no file.
    let reread: (@Sendable () -> ConfigurationResult)?
    /// The bridges to other brokers. The control thread's.
    let bridges: BridgeSupervisor
    /// The cluster that this is a node of; nil on a broker that is alone.
    let clusterPlan: ClusterPlan?
    /// By what it is let in there now; nil while that is as it was at the start. The control thread's.
    var clusterCredentials: ClusterCredentials?
    /// How it was when the loop told last. The control thread's.
    var clusterStatus = ClusterStatus(name: "", trouble: "no server has answered yet")
    /// Speaks for this node, and for administrators with the others; nil on a broker that is alone. The control
    /// thread's.
    var clusterAdministration: ClusterAdministration?
    var syncWatch: SyncWatch?
    /// When it began, in milliseconds since 1970.
    let startedAt = MonotonicClock.milliseconds() &+ WallClock.offsetMilliseconds()
    /// The configuration that is in force. The control thread's.
    var configuration: BrokerConfiguration
    /// The number of the last heartbeat that the loops were asked for. The control thread's.
    var heartbeat: UInt64 = 0
    var identifierFile: ProcessIdentifierFile?
    /// By listener.
    var layers: [TransportLayers] { open.layers }
    /// What other brokers know this one by, as long as it runs: see `BrokerSettings.brokerIdentifier`.
    private let identifier = EncodedString(String(RandomBytes.seed(), radix: 36))
    /// Where the secrets of TLS connections go, for debugging; nil for nowhere.
    let keyLogFile: String?
    /// Checks passwords, for all loops.
    let workers: WorkerPool
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
        auditLog = AuditLog(log)
        self.configuration = configuration
        listenersOfFiles = Array(configuration.listeners.indices)
        self.reread = file == nil ? nil : reread
        log.write(.information, "martlet version \(ProductVersion.text) starting")
        log.write(.information, file.map { "Config loaded from \($0)." } ?? "Using default config.")
        let budget = ProcessorBudget()
        // Among those that confirm shard messages, the cluster stands behind the loops.
        loopCount = min(
            budget.loopCount(asked: configuration.general.threads),
            configuration.cluster.isEnabled ? Limits.loopsMax - 2 : Limits.loopsMax)
        if let remark = budget.remark(asked: configuration.general.threads) { log.write(.information, remark) }
        ResourceLimits.raiseFileDescriptors()
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
        securityDocuments = SecurityDocuments(log: log)
        tables = try Self.tables(configuration, securityDocuments, workers: workers, log)
        bridges = BridgeSupervisor(try Self.bridgePlans(configuration), log: log)
        clusterPlan = try ClusterPlan(configuration)
        if clusterPlan != nil, securityDocuments.documents.count > 1 {
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
        for (keys, security) in zip(open.keys, tables.listeners) { keys.exchange(security.preSharedKeys) }
        self.keyLogFile = keyLogFile
        if let keyLogFile {
            log.write(.warning, "Warning: the secrets of all TLS connections are written to \(keyLogFile).")
        }
    }

    /// Runs until a signal ends it: the first one gracefully, a second one at once. Everything that needs root is open
    /// by now.
    public func run() throws(ServerError) {
        if let path = configuration.general.processIdentifierFile { identifierFile = try ProcessIdentifierFile(path: path) }
        defer { identifierFile?.remove() }
        if let user = try Privileges.user(named: configuration.general.userName, warn: { log.write(.warning, "Warning: \($0)") }) {
            log.give(to: user.user, group: user.group)
            open.give(toUser: user.user, group: user.group)
            try Privileges.drop(to: user)
        }
        securityDocuments.warn()
        try makeLoops()
        joinCluster()
        let threads = try startThreads()
        sendBridgeOrders()
        control.repeatEvery(Self.bridgeReportMilliseconds) { [unowned self] in askForBridges() }
        log.write(.notice, greeting.text)
        manager.ready("Serving on \(addresses.joined(separator: ", "))")
        if let interval = openStore?.saveIntervalMilliseconds {
            control.repeatEvery(interval) { [unowned self] in sendToLoops(.save) }
        }
        control.repeatEvery(Self.certificateCheckMilliseconds) { [unowned self] in renewCertificates() }
        do throws(SystemError) {
            let interval = manager.watchdogMilliseconds.map { $0 / 3 }
            // Administrators wait for messages, not the other way round.
            NamedThread.giveWay()
            try control.run(until: loops.count, watchIntervalMilliseconds: interval, for: self)
        } catch {
            throw .system(error)
        }
        administration?.end()
        http?.service.stop()
        for thread in threads { thread.join() }
        brokerClient?.end()
        openStore?.close(loops.map(\.shard))
        workers.stop()
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

    /// Opens the store, makes the shards and gives them what it kept. As the user that the broker runs as: the store's
    /// files are theirs.
    private func makeLoops() throws(ServerError) {
        openStore = try OpenStore.open(configuration, repairs: repairsStore, log: log)
        bridges.start(configuration)
        let settings = brokerSettings(log.topics, tables)
        let seed = openStore?.store.seed ?? RandomBytes.seed()
        let setup = LoopSetup(
            settings: settings, seed: seed, tables: tables, layers: layers, throttle: workers.throttle, store: openStore?.store,
            log: log, control: control.mailbox)
        let shards = setup.shards(count: loopCount, now: MonotonicClock.milliseconds()) { _ in KernelRandomNumbers() }
        try openStore?.restore(shards)
        settleBridges(shards)
        do throws(SystemError) {
            let listeners = open.sockets.map { $0.map { (listener: $0.listener as any Acceptor, policy: $0.policy) } }
            loops = try setup.loops(for: shards, listeners: listeners) { index throws(SystemError) in
                try EventLoop(name: "loop \(index)")
            }
        } catch {
            throw .system(error)
        }
        try openStore?.start(loops.map(\.mailbox), control: control.mailbox)
        let brokerClient = BrokerClient(
            placement: shards[0].placement, mailboxes: loops.map(\.mailbox), now: MonotonicClock.milliseconds())
        self.brokerClient = brokerClient
        auditLog.open(configuration.administration.auditFile)
        drain = DrainService(
            on: control.events, mailboxes: loops.map(\.mailbox), log: log,
            count: { [unowned self] in clientConnections },
            countClients: { done in
                brokerClient.statistics { shards in
                    done(shards.reduce(0) { $0 + max(0, $1.clientsConnected - $1.localClientsConnected) })
                }
            },
            otherNodes: { [unowned self] in clusterPlan == nil ? nil : clusterStatus.addressesOfOthers },
            stop: { [unowned self] in if !isStopping { stop() } })
        let bans = startBans(shards)
        self.bans = bans
        securityService = makeSecurityService(brokerClient)
        admission = setup.admission
        try startHTTP(brokerClient, bans, admission: setup.admission)
        log.outlet.connect { [mailbox = loops[0].mailbox] topic, text in mailbox.post(.logLine(topic: topic, text: text)) }
    }

    /// How many connections there are that are not HTTP's.
    private var clientConnections: Int {
        configuration.listeners.indices.reduce(0) {
            configuration.listeners[$1].application == .httpAPI ? $0 : $0 + (admission?.count(ofListener: $1) ?? 0)
        }
    }

    /// Bridges may have another number of connections than is configured, because of what the store has kept for them.
    private func settleBridges(_ shards: [BrokerShard]) {
        let isOther = bridges.settleConnections { identifier in
            let shard = shards[shards[0].placement.shard(of: identifier)]
            return shard.hasOwnSession(of: identifier) ? shard.backlog(of: identifier) : nil
        }
        guard isOther else { return }
        for shard in shards { shard.apply(brokerSettings(log.topics, tables)) }
    }

    /// What the loops are to go by, as it is configured.
    func brokerSettings(_ topics: LogTopics, _ tables: SecurityTables) -> BrokerSettings {
        var settings = BrokerSettings(configuration, log: topics)
        settings.ownQueueBounds = bridges.queueBounds
        settings.topicParts = bridges.topicParts
        settings.ownBridgeStates = bridges.stateTopics
        settings.brokerIdentifier = identifier
        tables.apply(to: &settings)
        return settings
    }

    /// Takes up the bans that the store has kept.
    private func startBans(_ shards: [BrokerShard]) -> BanService {
        var list = shards[0].bans
        _ = list.removeExpired(at: Self.moment().wallMilliseconds)
        for shard in shards { shard.apply(list) }
        let bans = BanService(
            list, mailboxes: loops.map(\.mailbox), control: control.mailbox, endsWithBroker: openStore == nil && clusterPlan == nil,
            log: log, changed: { [unowned self] in administration?.report($0, $1, at: Self.moment()) },
            share: clusterPlan.map { _ in { [unowned self] in sendToCluster($0) } })
        bans.apply(configuration.limits)
        control.repeatEvery(Self.banCheckMilliseconds) { [unowned bans] in bans.expire(at: Self.moment().wallMilliseconds) }
        return bans
    }

    /// How late a ban may end.
    private static let banCheckMilliseconds: UInt64 = 1000

    /// Opens the listeners of HTTP on the control thread's loop; a reload may bring some where there are none.
    private func startHTTP(_ brokerClient: BrokerClient, _ bans: BanService, admission: ConnectionAdmission) throws(ServerError) {
        let login = HTTPLogin(on: control.events, tables: tables, throttle: workers.throttle, bans: bans, log: log) {
            [mailbox = control.mailbox] in mailbox.post(.decided($0))
        }
        let http = HTTPFrontend(
            on: control, configuration: configuration, login: login, administration: makeAdministration(brokerClient, login),
            admission: admission, log: log)
        do throws(SystemError) {
            for (listener, policy) in open.httpSockets { try http.serve(listener, policy: policy, layers: layers[policy]) }
        } catch {
            throw .system(error)
        }
        self.http = http
    }

    private func startThreads() throws(ServerError) -> [NamedThread] {
        var threads: [NamedThread] = []
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
                guard openStore != nil else { continue }
                threads.append(try NamedThread.start(name: "martlet-\(loop.index)b", isPatient: isPatient) { loop.standIn() })
            }
        } catch {
            throw .system(error)
        }
        return threads
    }

    /// Reads the files of users, rules and keys.
    private static func tables(
        _ configuration: BrokerConfiguration, _ securityDocuments: SecurityDocuments, workers: WorkerPool, _ log: Log
    ) throws(ServerError) -> SecurityTables {
        do throws(SecurityFilesError) {
            try securityDocuments.open(configuration)
            let tables = try SecurityTables(reading: configuration, workers: workers, directories: securityDocuments.directories)
            for warning in tables.warnings { log.write(.warning, "Warning: \(warning)") }
            return tables
        } catch {
            throw .securityFiles(error)
        }
    }
}

/// New certificates for listeners that run. On the control thread.
extension Server {
    /// Reads the files that have changed since the last look.
    func renewCertificates() {
        for (index, place) in open.places.enumerated() where !configuration.listeners[index].isClosed {
            guard let tls = place.layers.tls else { continue }
            report(tls.refreshIfChanged(), listener: index)
        }
    }

    /// Reads every listener's files again, as the configuration names them now; not those of listeners that are just
    /// opened.
    ///
    /// - Returns: of which listeners they cannot be used, and why.
    func rereadCertificates(but opened: Set<Int>) -> [String] {
        var failures: [String] = []
        for (index, place) in open.places.enumerated() where !configuration.listeners[index].isClosed && !opened.contains(index) {
            guard let tls = place.layers.tls else { continue }
            let settings = TLSSettings(
                configuration.listeners[index], keyLogFile: keyLogFile, preSharedKey: tls.settings.preSharedKey)
            if let failure = report(tls.refresh(settings), listener: index) { failures.append(failure) }
        }
        return failures
    }

    /// - Returns: what is wrong; nil for nothing.
    @discardableResult
    private func report(_ refresh: TLSServer.Refresh, listener index: Int) -> String? {
        let name = ListenerName.of(configuration.listeners[index].endpoint)
        switch refresh {
        case .unchanged: break
        case .renewed: log.write(.notice, "\(name): certificates read again; new connections get them.")
        case .failed(let failure):
            let text = "\(name): \(failure). The certificates that were read before stay in use."
            log.write(.error, "Error: \(text)")
            return text
        }
        return nil
    }

    /// Often enough for a certificate that is published through a symbolic link.
    static let certificateCheckMilliseconds: UInt64 = 5000
}

/// What signals bring about. On the control thread.
extension Server: ControlListener {
    func handle(_ event: ControlEvent) {
        switch event {
        case .stop:
            stop()
            audit(signal: "SIGTERM or SIGINT", "stop")
        case .stopAtOnce(let signal): stopAtOnce(signal)
        case .stopOverdue: stopOverdue()
        case .reload:
            reload { [unowned self] findings in audit(signal: "SIGHUP", "reloadConfig", status: Self.status(of: findings)) }
        case .save:
            save()
            audit(signal: "SIGUSR1", "save")
        case .listSubscriptions: sendToLoops(.listSubscriptions)
        case .reopenLogs:
            reopenLogs()
            audit(signal: "SIGRTMIN", "reopenLogs")
        case .watch: watch()
        }
    }

    /// Writes down what somebody has changed by a signal, as if the API had been asked for it.
    ///
    /// - Parameter status: what the API would have answered.
    private func audit(signal: String, _ operation: String, status: Int = 200) {
        let entry = AuditEntry(
            at: Self.moment().wallMilliseconds, source: .signal, who: nil, address: nil, operation: operation, target: signal,
            status: status, milliseconds: 0)
        if let administration { return administration.record(entry) }
        if let file = configuration.administration.auditFile { auditLog.write(entry.line, to: file) }
    }

    private static func status(of findings: ConfigurationFindings?) -> Int {
        guard let findings else { return 409 }
        return findings.hasErrors ? 422 : 200
    }

    func stop() {
        isStopping = true
        manager.stopping()
        log.write(.notice, "Stopping: disconnecting all clients; a second signal stops at once.")
        sendToLoops(.stop(ShutdownBarrier(loops: loops.count)))
    }

    private func stopAtOnce(_ signal: Int32) {
        log.write(.notice, "Second signal: stopping at once.")
        log.end(within: 200)
        identifierFile?.remove()
        _exit(128 + signal)
    }

    private func stopOverdue() {
        log.write(
            .error,
            "Error: Stopping has taken \(Limits.stopMillisecondsMax / 1000) s, most likely because the store's disk does not answer. Stopping "
                + "without it; what was acknowledged is kept.")
        log.end(within: 200)
        identifierFile?.remove()
        _exit(EXIT_FAILURE)
    }

    private func save() {
        guard let openStore else {
            log.write(.notice, "SIGUSR1: persistence is off, there is nothing to save.")
            return
        }
        log.write(
            .notice, openStore.savesAtOnce ? "SIGUSR1: all that was acknowledged is on the disk already." : "SIGUSR1: saving.")
        sendToLoops(.save)
    }

    private func reopenLogs() {
        log.reopen()
        auditLog.reopen()
        log.write(.notice, "Log files reopened.")
    }

    /// Tells the service manager that all is well, if every loop has answered since the last time.
    private func watch() {
        if loops.allSatisfy({ $0.heartbeat.load(ordering: .acquiring) == heartbeat }) { manager.isWell() }
        heartbeat += 1
        sendToLoops(.heartbeat(heartbeat))
    }

    func sendToLoops(_ message: LoopMessage) {
        for loop in loops { loop.mailbox.post(message) }
    }
}

extension Limits {
    /// Passwords checked at the same time: the check of a good hash takes some 50 MiB.
    static let workersMax = 4

    /// Logins that wait for a check; a further one is told that the broker is busy.
    static let pendingLoginsMax = 1000
}
