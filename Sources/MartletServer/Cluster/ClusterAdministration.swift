import Administration
import BrokerCore
import BrokerModel
import Cluster
import ClusterGateway
import Configuration
import NATSClient
import Persistence
import Platform
import Security
import ServerLoops
import Transports

/// The control thread's part in a cluster: says how this node is, hands on what administrators ask other nodes, and
/// what those ask here. Belongs to the control thread.
final class ClusterAdministration {
    let plan: ClusterPlan
    private let loops: LoopGroup
    private let brokerClient: BrokerClient
    private let configuration: RunningConfiguration
    /// Nil without persistence.
    private let store: OpenStore?
    private let log: Log
    /// When the broker has started, in milliseconds since 1970.
    private let startedAt: UInt64
    private let syncWatch: SyncWatch
    /// By what the node is let in by the servers now.
    private var credentials: ClusterCredentials
    /// How the cluster was when the loop that speaks to the servers told last.
    private(set) var status = ClusterStatus(name: "", trouble: "no server has answered yet")
    private var waiting: [UInt64: ([NodeResponse]) -> Void] = [:]
    private var lastToken: UInt64 = 0
    /// The counts of the summary before this one.
    private var before: (at: UInt64, received: UInt64, sent: UInt64, processorSeconds: Double)?

    /// - Parameter mailbox: the control thread's.
    init(
        _ plan: ClusterPlan, loops: LoopGroup, _ brokerClient: BrokerClient, _ configuration: RunningConfiguration,
        store: OpenStore?, log: Log, startedAt: UInt64, mailbox: Mailbox<ControlLoopMessage>
    ) {
        (self.plan, self.loops, self.brokerClient, self.configuration) = (plan, loops, brokerClient, configuration)
        (self.store, self.log, self.startedAt) = (store, log, startedAt)
        credentials = plan.credentials
        syncWatch = SyncWatch(
            plan, log: log, post: { mailbox.post(.syncConducts($0)) }, report: { loops.sendToGateway(.unsynced($0)) })
    }

    /// Makes this broker a node of its cluster, before the loops run.
    func join() {
        let node = NodeIncarnations.first(storeSeed: store?.store.seed)
        for loop in loops.all {
            loop.shard.joinCluster(
                logPartitions: plan.logPartitions, claimsSessions: plan.hasStore, node: node.rawValue,
                startMilliseconds: Limits.clusterStartMilliseconds)
        }
        loops.all[0].cluster.participant = ClusterRunner(plan, node: node, on: loops.all[0])
        if plan.monitors.isEmpty, plan.mode == .synced {
            log.write(
                .warning,
                "Cluster \(plan.name): it is not known whether the servers sync what they acknowledge: set "
                    + "martlet_cluster_monitors to find out.")
        }
    }

    // MARK: What an acknowledgement says

    /// Finds out when the servers sync, now.
    func askForSyncs() { syncWatch.ask() }

    /// What the servers' monitors have said.
    func received(_ conducts: [SyncConduct]) { syncWatch.received(conducts) }

    // MARK: Credentials

    /// The credentials for the servers in a new configuration; nil if they have not changed. A file that the same
    /// options name as before, and that cannot be read now, is no reason to refuse the whole configuration.
    func newCredentials(_ wantedConfiguration: BrokerConfiguration) throws(ServerError) -> ClusterCredentials? {
        let wanted: ClusterCredentials
        do throws(ServerError) {
            wanted = try ClusterCredentials(wantedConfiguration.cluster, serverName: plan.credentials.tls.serverName)
        } catch {
            guard wantedConfiguration.cluster == configuration.value.cluster else { throw error }
            log.write(.error, "Error: \(error); what was read before stays in use.")
            return nil
        }
        return wanted.isSame(as: credentials) ? nil : wanted
    }

    func renew(_ credentials: ClusterCredentials) {
        self.credentials = credentials
        loops.sendToGateway(.credentials(credentials))
    }

    // MARK: How it is

    /// Records the cluster's status that the gateway reports.
    func record(_ status: ClusterStatus) { self.status = status }

    /// How the cluster is, with what this thread has found out.
    var condition: ClusterStatus {
        var status = status
        status.name = plan.name
        // What a node without a store acknowledges is in its own memory.
        status.mode = plan.hasStore ? syncWatch.mode?.rawValue : "node"
        status.servers = zip(plan.monitors, syncWatch.conducts).map { .init(address: "\($0)", syncs: $1) }
        return status
    }

    /// Makes a summary of this node, and sends it to the others.
    ///
    /// - Parameter isDraining: whether this node sends its clients away.
    func summarize(isDraining: Bool) {
        brokerClient.statistics { [weak self] shards in
            guard let self, !shards.isEmpty else { return }
            var figures = figures(shards)
            figures.isDraining = isDraining
            loops.sendToGateway(.summary(figures))
        }
    }

    /// The figures that this thread knows of the node. The gateway adds the node's name and state.
    private func figures(_ shards: [ShardStatistics]) -> NodeSummary {
        let now = MonotonicClock.milliseconds()
        var sum = ShardStatistics()
        for shard in shards { sum.add(shard) }
        var figures = NodeSummary(node: NodeID(0))
        figures.startedAt = startedAt
        figures.clientsConnected = UInt64(max(0, sum.clientsConnected - sum.localClientsConnected))
        figures.sessions = UInt64(max(0, sum.clientsTotal))
        figures.subscriptions = UInt64(max(0, sum.subscriptions))
        figures.retainedMessages = UInt64(max(0, sum.retainedMessages))
        figures.storedMessages = UInt64(max(0, sum.storedMessages))
        figures.dropped = sum.drops.total
        figures.residentBytes = ProcessFigures.residentBytes()
        let seconds = ProcessFigures.processorSeconds()
        if let before, now > before.at {
            let time = now - before.at
            figures.receivedRate = (sum.publishReceived &- before.received) * 1000 / time
            figures.sentRate = (sum.publishSent &- before.sent) * 1000 / time
            figures.processorLoad = UInt64(max(0, (seconds - before.processorSeconds) * 1_000_000) / Double(time))
        }
        before = (now, sum.publishReceived, sum.publishSent, seconds)
        figures.dashboard = dashboard
        if let store, store.condition != .good { figures.trouble = "the store is \(store.condition.rawValue)" }
        return figures
    }

    /// Where people reach this node's dashboard: at the host of its address, if a listener of HTTP is to be reached
    /// from elsewhere.
    private var dashboard: String {
        guard let host = plan.host else { return "" }
        for listener in configuration.value.openListeners where listener.application == .httpAPI {
            guard case .tcp(let port, let bound) = listener.endpoint, bound.map({ !Self.isOwnMachine($0) }) ?? true else {
                continue
            }
            return "\(listener.tls.isEnabled ? "https" : "http")://\(host):\(port)/dashboard/"
        }
        return ""
    }

    private static func isOwnMachine(_ host: String) -> Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    // MARK: Administrators

    /// Asks all other nodes.
    func ask(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void) {
        guard waiting.count < ClusterLimits.nodeQuestionsMax else {
            return done(
                status.members.filter { !$0.isSelf && $0.state == .up }.map {
                    NodeResponse(node: $0.shownName, status: nil, body: [])
                })
        }
        lastToken += 1
        waiting[lastToken] = done
        let question = NodeQuestion(
            role: request.role.rawValue, method: request.method, target: request.target, who: request.who,
            cursor: request.cursor ?? "")
        loops.sendToGateway(.ask(token: lastToken, question))
    }

    /// Takes the answers of the other nodes.
    func answered(_ token: UInt64, _ reports: [NodeReport]) {
        waiting.removeValue(forKey: token)?(
            reports.map { NodeResponse(node: $0.node, status: $0.answer?.status, body: $0.answer?.body ?? []) })
    }

    /// Answers another node's question.
    ///
    /// - Parameter administration: answers.
    func asked(_ number: UInt64, _ question: NodeQuestion, _ administration: Administration) {
        guard let role = AdministrationRole(rawValue: question.role) else {
            // It knows roles that this one does not.
            return loops.sendToGateway(.answer(number: number, NodeAnswer(status: 503, body: [])))
        }
        let request = NodeRequest(
            method: question.method, target: question.target, cursor: question.cursor.isEmpty ? nil : question.cursor, role: role,
            who: question.who)
        administration.answer(request, clock: Moment.now) { [loops] status, body in
            loops.sendToGateway(.answer(number: number, NodeAnswer(status: status, body: body)))
        }
    }
}

extension ClusterCredentials {
    /// Reads the files now, so that a wrong one ends the start, or the reload, and not the next connection.
    ///
    /// - Parameters:
    ///   - cluster: as it is configured.
    ///   - serverName: for which a server's certificate has to be.
    init(_ cluster: ClusterConfiguration, serverName: String) throws(ServerError) {
        let login = try Self.login(cluster)
        let tls = try Self.tls(cluster, serverName: serverName)
        let contents = [tls.authoritiesFile, tls.certificateFile, tls.keyFile].map { path in
            path.flatMap { try? WholeFile.bytes(of: $0, bytesMax: Limits.clusterCertificateBytesMax) } ?? []
        }
        self.init(login: login, requiresTLS: cluster.requiresTLS, tls: tls, contents: contents)
    }

    private static func login(_ cluster: ClusterConfiguration) throws(ServerError) -> NATSLogin? {
        if let user = cluster.userName { return .user(user, password: cluster.password ?? "") }
        if let token = cluster.token { return .token(token) }
        guard let path = cluster.keyFile else { return nil }
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.text(of: path, bytesMax: Limits.clusterKeyFileBytesMax)
        } catch {
            let reason =
                FileAdvice.obstacle(toReading: path)?.advice() ?? "\(FullPath.of(path)): it cannot be read as a file with a seed"
            throw .cluster(option: "martlet_cluster_nkey_file", reason: reason)
        }
        // What nk writes has a line break at its end, and what nsc writes a comment around the seed.
        let lines = String(decoding: bytes, as: UTF8.self).split(whereSeparator: { $0.isNewline || $0 == " " })
        do throws(NKeyError) {
            return .key(try NKey(seed: lines.first { $0.hasPrefix("SU") }.map { String($0) } ?? ""))
        } catch {
            throw .cluster(option: "martlet_cluster_nkey_file", reason: "\(FullPath.of(path)): \(error)")
        }
    }

    private static func tls(_ cluster: ClusterConfiguration, serverName: String) throws(ServerError) -> TLSClientSettings {
        var tls = TLSClientSettings(serverName: serverName)
        tls.authoritiesFile = cluster.authoritiesFile
        tls.certificateFile = cluster.certificateFile
        tls.keyFile = cluster.certificateKeyFile
        do throws(TLSFailure) {
            _ = try TLSClientContext(tls)
        } catch {
            throw .cluster(option: "martlet_cluster_\(error.option)", reason: error.explanation)
        }
        return tls
    }
}

extension ClusterPlan {
    /// nil on a broker that is alone. Reads the key. Throws what is wrong.
    init?(_ configuration: BrokerConfiguration) throws(ServerError) {
        let cluster = configuration.cluster
        guard cluster.isEnabled, let name = cluster.name else { return nil }
        let nodeName = configuration.general.nodeName ?? HostName.text()
        let servers = try Self.read("martlet_cluster_servers", cluster.servers, ServerAddress.init(reading:))
        let monitors = try Self.read("martlet_cluster_monitors", cluster.monitors, ServerMonitor.init(reading:))
        guard servers.allSatisfy({ $0.login == nil }) else {
            throw .cluster(
                option: "martlet_cluster_servers",
                reason:
                    "an address must not contain a login, because addresses are shown: write martlet_cluster_user and martlet_cluster_password"
            )
        }
        var settings = NATSSettings(
            servers: servers, name: "martlet \(nodeName)", versionMin: Self.versionMin, programVersion: ProductVersion.text)
        let credentials = try ClusterCredentials(cluster, serverName: servers[0].certificateName)
        (settings.requiresTLS, settings.login) = (credentials.requiresTLS, credentials.login)
        self.init(
            name: name, nodeName: nodeName, settings: settings, credentials: credentials, replicas: cluster.replicas,
            detached: cluster.detached, mode: cluster.mode, monitors: monitors,
            sessionWaitMilliseconds: UInt64(cluster.sessionWaitSeconds) * 1000,
            logPartitions: configuration.persistence.isEnabled ? cluster.partitions : 0, address: cluster.nodeAddress,
            systemTopicMilliseconds: configuration.general.systemTopicIntervalSeconds.map { UInt64($0) * 1000 })
    }

    private static func read<Address>(
        _ option: String, _ texts: [String], _ address: (String) throws(ServerAddressError) -> Address
    ) throws(ServerError) -> [Address] {
        var addresses: [Address] = []
        for text in texts {
            do throws(ServerAddressError) {
                addresses.append(try address(text))
            } catch {
                throw .cluster(option: option, reason: error.description)
            }
        }
        return addresses
    }
}

extension Limits {
    /// Bytes of `martlet_cluster_nkey_file`; a larger one is no seed.
    static let clusterKeyFileBytesMax = 4096

    /// Bytes of `martlet_cluster_cafile` and the like that are compared when the configuration is read again; whether a
    /// larger one is another is not seen.
    static let clusterCertificateBytesMax = 4 << 20

    /// How long after the start a client waits until its node has found the cluster, in milliseconds; then it is
    /// refused. Less than the 10 s after which many clients take a broker that does not answer for one that is not
    /// there.
    static let clusterStartMilliseconds: UInt64 = 8_000

    /// How often a node says how it is, in milliseconds.
    static let summaryMilliseconds: UInt64 = 2000

    /// How often the monitoring of the cluster's servers is asked when they sync, in milliseconds.
    static let monitorMilliseconds: UInt64 = 30_000
}
