import Administration
import BrokerCore
import BrokerModel
import Cluster
import ClusterGateway
import Configuration
import Glibc
import HTTPServer
import MQTTCodec
import Persistence
import Platform
import Security
import ServerLoops
import Transports

/// All that a broker consists of while it runs, as the control thread has it, to which this belongs: it makes the
/// parts, and hands each of them what is for it.
///
///     other threads ─► ControlLoopMessage ┐
///     signals, time ─► ControlEvent       ├─► RunningBroker ─► the part that it is for
///     a part        ─► ControlRequest     ┘
///
/// The parts know those that were made before them, and nobody knows this: what a part wants of the whole it asks as a
/// `ControlRequest`.
final class RunningBroker {
    let log: Log
    let auditLog: AuditLog
    let control: ControlLoop
    let manager: ServiceManager
    private let identifierFile: ProcessIdentifierFile?
    let fileRights: FileRights
    /// Checks passwords, for all loops.
    let workers: WorkerPool
    /// By what services are asked about logins.
    let services: ServiceAccess
    let configuration: RunningConfiguration
    let listeners: ListenerService
    let loops: LoopGroup
    /// What outlives the process; nil without persistence.
    let store: OpenStore?
    /// Asks the loops for administrators.
    let brokerClient: BrokerClient
    let bans: BanService
    let drain: DrainService
    let bridges: BridgeService
    /// Dynamic security's files, and what performs commands on them.
    let documents: SecurityDocuments
    private let security: DynamicSecurityService
    private let controlTopics: ControlTopicService
    /// Hashes passwords for files.
    private let hasher: EntryHasher
    private let explainer: LoginExplainer
    /// Answers over HTTP.
    let http: HTTPFrontend
    /// Sees and steers over it.
    let administration: Administration
    /// Speaks for this node, and for administrators with the others; nil on a broker that is alone.
    let cluster: ClusterAdministration?
    /// The reloads that are under way or wait for it.
    var reloads = ReloadQueue()
    /// What other brokers know this one by, as long as it runs: see `BrokerSettings.brokerIdentifier`.
    private let identifier: EncodedString?

    /// Opens the store, makes the shards and gives them what it kept, and makes all parts; nothing runs yet. As the
    /// user that the broker runs as: the store's files are theirs.
    ///
    /// - Parameter identifierFile: is removed where the broker ends at once.
    init(_ server: Server, _ identifierFile: ProcessIdentifierFile?) throws(ServerError) {
        let (log, control, configuration) = (server.log, server.control, server.configuration)
        let (supervisor, documents, tables, workers) = (server.bridges, server.documents, server.tables, server.workers)
        let mailbox = control.mailbox
        let store = try OpenStore.open(configuration.value, repairs: server.repairsStore, log: log)
        supervisor.start(configuration.value)
        let identifier = EncodedString(String(RandomBytes.seed(), radix: 36))
        var settings = Self.settings(configuration.value, log.topics, tables, supervisor, identifier)
        let setup = LoopSetup(
            settings: settings, seed: store?.store.seed ?? RandomBytes.seed(), tables: tables, layers: server.open.layers,
            throttle: workers.throttle, store: store?.store, log: log, control: mailbox)
        let shards = setup.shards(count: server.loopCount, now: MonotonicClock.milliseconds()) { _ in KernelRandomNumbers() }
        try store?.restore(shards)
        if supervisor.settle(shards) {
            settings = Self.settings(configuration.value, log.topics, tables, supervisor, identifier)
            for shard in shards { shard.apply(settings) }
        }
        let loops: LoopGroup
        do throws(SystemError) {
            let sockets = server.open.sockets.map { $0.map { (listener: $0.listener as any Acceptor, policy: $0.policy) } }
            loops = LoopGroup(
                try setup.loops(for: shards, listeners: sockets) { index throws(SystemError) in
                    try EventLoop(name: "loop \(index)")
                })
        } catch {
            throw .system(error)
        }
        try store?.start(loops.mailboxes, control: mailbox)

        let brokerClient = BrokerClient(
            placement: loops.placement, mailboxes: loops.mailboxes, now: MonotonicClock.milliseconds())
        let auditLog = AuditLog(log)
        auditLog.open(configuration.value.administration.auditFile)
        let listeners = ListenerService(
            server.open, admission: setup.admission, keyLogFile: server.keyLogFile, configuration: configuration, log: log)
        let cluster = server.clusterPlan.map {
            ClusterAdministration(
                $0, loops: loops, brokerClient, configuration, store: store, log: log, startedAt: server.startedAt,
                mailbox: mailbox)
        }
        let drain = DrainService(
            on: control.events, mailboxes: loops.mailboxes, log: log, count: { listeners.clientConnections },
            countClients: { done in
                brokerClient.statistics { shards in
                    done(shards.reduce(0) { $0 + max(0, $1.clientsConnected - $1.localClientsConnected) })
                }
            },
            otherNodes: { cluster?.status.addressesOfOthers }, stop: { control.request(.stop) })
        let bans = Self.makeBans(
            shards, loops: loops, control: control, endsWithBroker: store == nil && cluster == nil, isShared: cluster != nil, log)
        bans.apply(configuration.value.limits)
        let security = DynamicSecurityService(
            brokerClient, log: log, sendToLoops: { loops.send($0) },
            hash: DynamicSecurityService.hashing(by: configuration, to: mailbox))
        if cluster != nil, let document = documents.documents.values.first {
            security.share(SharedSecurity(document, loops: loops, control: control, log: log))
        }
        let bridges = BridgeService(supervisor, loops: loops, configuration: configuration, control: control, log: log)
        let hasher = EntryHasher(mailbox)
        let explainer = LoginExplainer(mailbox, throttle: workers.throttle)

        let activity = HTTPActivity()
        let login = HTTPLogin(
            on: control.events, tables: tables, throttle: workers.throttle, bans: bans, activity: activity, log: log
        ) { mailbox.post(.decided($0)) }
        configuration.locate()
        let administration = Administration(
            broker: ServedBroker(
                BrokerFacts(
                    version: ProductVersion.text, node: cluster?.plan.nodeName ?? ProcessFigures.hostName(),
                    startedAt: server.startedAt),
                configuration: configuration, loops: loops, brokerClient, listeners: listeners, login: login, activity: activity,
                store: store, bans: bans, drain: drain, bridges: bridges, documents: documents, security: security,
                hasher: hasher, explainer: explainer, services: server.services, cluster: cluster, control: control, log: log,
                auditLog: auditLog),
            settings: Self.administrationSettings(configuration), tokens: Self.readTokens(configuration.value, log))
        let http = HTTPFrontend(
            on: control, configuration: configuration.value, login: login, administration: administration,
            admission: setup.admission, activity: activity, log: log)
        do throws(SystemError) {
            for (listener, policy) in listeners.httpSockets {
                try http.serve(listener, policy: policy, layers: listeners.layers[policy])
            }
        } catch {
            throw .system(error)
        }
        controlTopics = ControlTopicService(
            loops: loops, brokerClient, security, documents, configuration, administration, log: log)
        log.outlet.connect { [mailbox = loops.mailboxes[0]] topic, text in mailbox.post(.logLine(topic: topic, text: text)) }

        (self.log, self.auditLog, self.control, manager) = (log, auditLog, control, server.manager)
        (self.identifierFile, fileRights, self.workers, services) = (identifierFile, server.fileRights, workers, server.services)
        (self.configuration, self.listeners, self.loops, self.store) = (configuration, listeners, loops, store)
        (self.brokerClient, self.bans, self.drain, self.bridges) = (brokerClient, bans, drain, bridges)
        (self.documents, self.security, self.hasher, self.explainer) = (documents, security, hasher, explainer)
        (self.http, self.administration, self.cluster, self.identifier) = (http, administration, cluster, identifier)
        cluster?.join()
    }

    /// What the loops are to go by, as it is configured.
    private static func settings(
        _ configuration: BrokerConfiguration, _ topics: LogTopics, _ tables: SecurityTables, _ bridges: BridgeSupervisor,
        _ identifier: EncodedString?
    ) -> BrokerSettings {
        var settings = BrokerSettings(configuration, log: topics)
        settings.ownQueueBounds = bridges.queueBounds
        settings.topicParts = bridges.topicParts
        settings.ownBridgeStates = bridges.stateTopics
        settings.brokerIdentifier = identifier
        tables.apply(to: &settings)
        return settings
    }

    /// What the loops are to go by now.
    func settings(_ tables: SecurityTables) -> BrokerSettings {
        Self.settings(configuration.value, log.topics, tables, bridges.supervisor, identifier)
    }

    /// Takes up the bans that the store has kept.
    private static func makeBans(
        _ shards: [BrokerShard], loops: LoopGroup, control: ControlLoop, endsWithBroker: Bool, isShared: Bool, _ log: Log
    ) -> BanService {
        var list = shards[0].bans
        _ = list.removeExpired(at: Moment.now().wallMilliseconds)
        for shard in shards { shard.apply(list) }
        return BanService(
            list, mailboxes: loops.mailboxes, control: control.mailbox, endsWithBroker: endsWithBroker, log: log,
            changed: { control.request(.banChanged($0, $1)) },
            share: isShared ? { loops.sendToGateway(.access($0)) } : nil)
    }

    // MARK: From start to end

    /// Does what is to be done once, and lets begin what is done from time to time, when the loops run.
    func begin() {
        bridges.sendCommands()
        if configuration.reread == nil { showLink() }
        control.repeatEvery(Self.tickMilliseconds) { [unowned self] in tick() }
        control.repeatEvery(Self.banCheckMilliseconds) { [bans] in bans.expire(at: Moment.now().wallMilliseconds) }
        control.repeatEvery(BridgeService.reportMilliseconds) { [bridges] in bridges.askForStatuses() }
        control.repeatEvery(ListenerService.certificateCheckMilliseconds) { [listeners] in listeners.renewCertificates() }
        if let interval = store?.saveIntervalMilliseconds {
            control.repeatEvery(interval) { [loops] in loops.send(.save) }
        }
        guard let cluster else { return }
        cluster.summarize(isDraining: false)
        cluster.askForSyncs()
        control.repeatEvery(Limits.clusterReportMilliseconds) { [loops] in loops.sendToGateway(.report) }
        control.repeatEvery(Limits.summaryMilliseconds) { [drain] in cluster.summarize(isDraining: drain.status != nil) }
        control.repeatEvery(Limits.monitorMilliseconds) { cluster.askForSyncs() }
    }

    private func tick() {
        administration.tick(Moment.now)
        // One loop counts it for all, where anybody asks how much memory is used up.
        guard configuration.value.limits.memoryBytesMax != nil else { return }
        loops.sendToFirst(.remembered(byteCount: administration.heldBytes + http.heldBytes))
    }

    /// The loops have ended, or are about to: nobody is answered any more.
    func stopServing() {
        administration.end()
        http.service.stop()
    }

    /// The loops have ended.
    func end() {
        brokerClient.end()
        store?.close(loops.all.map(\.shard))
    }

    /// Logs a link to the dashboard. A broker without a configuration has no users: whoever can read its log may
    /// administer it.
    private func showLink() {
        guard let (listener, _) = listeners.httpSockets.first(where: { $0.listener.boundAddress.path == nil }) else { return }
        let address = listener.boundAddress.description
        log.write(
            .notice,
            "Administration: http://\(address)/dashboard/#token=\(administration.makeLinkSecret()) lets one browser in as administrator."
        )
    }

    /// How often the administration looks at what there is.
    private static let tickMilliseconds: UInt64 = 1000

    /// How late a ban may end.
    private static let banCheckMilliseconds: UInt64 = 1000

    // MARK: The configuration of administration

    private static func administrationSettings(_ configuration: RunningConfiguration) -> AdministrationSettings {
        AdministrationSettings(configuration.value, isUnconfigured: configuration.reread == nil)
    }

    /// Applies a reloaded configuration to the administration.
    func renewAdministration() {
        administration.apply(
            Self.administrationSettings(configuration), tokens: Self.readTokens(configuration.value, log))
    }

    private static func readTokens(_ configuration: BrokerConfiguration, _ log: Log) -> TokenTable {
        guard let path = configuration.administration.tokenFile else { return TokenTable() }
        do throws(WholeFile.Failure) {
            let bytes = try WholeFile.text(of: path, bytesMax: Limits.tokenFileBytesMax)
            return TokenTable(String(decoding: bytes, as: UTF8.self)) { line in
                log.write(.warning, "Warning: \(path):\(line): this is no token, and is passed over.")
            }
        } catch {
            // There is none before the first one is made.
            if case .refused(let reason) = error, reason.errno == ENOENT { return TokenTable() }
            log.write(.error, "Error: martlet_http_token_file \(path) cannot be read: \(error).")
            return TokenTable()
        }
    }
}

// MARK: - What reaches the control thread

extension RunningBroker: ControlListener {
    func received(_ message: ControlLoopMessage) {
        switch message {
        case .answer(let answer): brokerClient.received(answer, now: control.events.nowMilliseconds)
        case .decided(let decision): http.decided(decision)
        case .logged(let line): administration.report(AdministeredLogLine(line), at: Moment.now())
        case .bansInForce: bans.isInForce()
        case .offence(let offence): bans.received(offence, at: Moment.now())
        case .traced(let batch): administration.record(batch, at: Moment.now())
        case .bridges(let statuses): for bridge in bridges.record(statuses) { administration.report(bridge, at: Moment.now()) }
        case .cluster(let status):
            cluster?.record(status)
            drain.renewNotice()
        case .access(let news): received(news)
        case .securityRead(let model): security.read(model)
        case .clusterReached: cluster?.askForSyncs()
        case .syncConducts(let conducts): cluster?.received(conducts)
        case .clusterAsked(let number, let question): cluster?.asked(number, question, administration)
        case .clusterAnswered(let token, let reports): cluster?.answered(token, reports)
        case .reloaded: reloadIsInForce()
        case .control(let message): controlTopics.received(message)
        case .hashed(let passwords): security.hashed(passwords)
        case .entryHashed(let number, let entry): hasher.hashed(number, entry)
        case .loginExplained(let number, let explanation): explainer.explained(number, explanation)
        case .store(let report): store?.received(report)
        }
    }

    /// What nodes of the cluster share has changed.
    private func received(_ news: AccessNews) {
        let now = Moment.now().wallMilliseconds
        switch news {
        case .whole(let state):
            bans.received(state, at: now)
            security.received(state)
        case .ban(let entry): bans.received(entry, at: now)
        case .banAnswer(let token, let failure): bans.answered(token, failure)
        case .security(let revision, let pieces): security.received(revision: revision, pieces)
        case .verdict(let verdict): security.received(verdict)
        }
    }

    func received(_ request: ControlRequest) {
        switch request {
        case .reload(let done): reload(done)
        case .rereadSecurityFiles(let done): rereadSecurityFiles(done)
        case .renewSettings: renewSettings()
        case .stop: if !loops.isStopping { stop() }
        case .usersChanged(let names): administration.endSessions(ofUsers: names)
        case .rightsChanged(let changes):
            security.sendToLoops(of: changes)
            administration.endSessions(ofUsers: changes.users)
        case .banChanged(let ban, let change): administration.report(ban, change, at: Moment.now())
        case .presence(let event): administration.report(event, at: Moment.now())
        }
    }

    /// Gives the loops the settings that an administrator has changed.
    private func renewSettings() {
        let tables = http.login.tables
        loops.send(.settings(settings(tables), tables, Countdown(loops: loops.count) {}))
    }

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
        case .listSubscriptions: loops.send(.listSubscriptions)
        case .reopenLogs:
            reopenLogs()
            audit(signal: "SIGRTMIN", "reopenLogs")
        case .watch: if loops.askForHeartbeat() { manager.isWell() }
        }
    }

    /// Writes down what somebody has changed by a signal, as if the API had been asked for it.
    ///
    /// - Parameter status: what the API would have answered.
    private func audit(signal: String, _ operation: String, status: Int = 200) {
        administration.record(
            AuditEntry(
                at: Moment.now().wallMilliseconds, source: .signal, who: nil, address: nil, operation: operation, target: signal,
                status: status, milliseconds: 0))
    }

    private static func status(of findings: ConfigurationFindings?) -> Int {
        guard let findings else { return 409 }
        return findings.hasErrors ? 422 : 200
    }

    private func stop() {
        manager.stopping()
        log.write(.notice, "Stopping: disconnecting all clients; a second signal stops at once.")
        loops.stop()
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
        guard let store else {
            log.write(.notice, "SIGUSR1: persistence is off, there is nothing to save.")
            return
        }
        log.write(
            .notice, store.savesAtOnce ? "SIGUSR1: all that was acknowledged is on the disk already." : "SIGUSR1: saving.")
        loops.send(.save)
    }

    private func reopenLogs() {
        log.reopen()
        auditLog.reopen()
        log.write(.notice, "Log files reopened.")
    }
}

extension Moment {
    /// The time by the machine's clocks.
    static func now() -> Moment {
        let now = MonotonicClock.milliseconds()
        return Moment(milliseconds: now, wallMilliseconds: now &+ WallClock.offsetMilliseconds())
    }
}

/// Which processes of this machine may do everything over a Unix socket: root's, and those of the broker's user.
/// Belongs to the control thread.
///
/// Members of the broker's group are not among them: a proxy that reaches the socket through its group brings
/// strangers.
final class TrustedProcesses {
    /// By their numbers.
    private var names: [UInt32: String] = [:]

    func includes(_ user: UInt32) -> Bool { user == 0 || user == geteuid() }

    /// What the audit calls a user of this machine.
    func name(of user: UInt32) -> String {
        if let name = names[user] { return name }
        // This thread alone asks for users while the broker runs: the static answer is its own.
        let name = getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "uid \(user)"
        names[user] = name
        return name
    }
}

extension Limits {
    /// Bytes of the file of tokens; a larger one is refused.
    static let tokenFileBytesMax = 1 << 20
}
