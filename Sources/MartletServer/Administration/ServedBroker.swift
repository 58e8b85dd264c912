import Administration
import BrokerCore
import BrokerModel
import ClusterGateway
import Configuration
import Glibc
import HTTPServer
import MQTTCodec
import Platform
import Security
import ServerLoops
import Transports

/// The running broker as its administration sees it: what `Administration` asks is answered by the parts that know, of
/// which this holds those that are needed. What the whole has to do it asks of the control thread's loop, as a
/// `ControlRequest`. Belongs to the control thread.
final class ServedBroker: AdministeredBroker {
    let facts: BrokerFacts
    let current: RunningConfiguration
    let loops: LoopGroup
    private let brokerClient: BrokerClient
    let sockets: ListenerService
    let login: HTTPLogin
    private let activity: HTTPActivity
    private let store: OpenStore?
    private let banService: BanService
    private let drainService: DrainService
    private let bridgeService: BridgeService
    let documents: SecurityDocuments
    private let security: DynamicSecurityService
    let hasher: EntryHasher
    let explainer: LoginExplainer
    private let services: ServiceAccess
    private let cluster: ClusterAdministration?
    let control: ControlLoop
    let log: Log
    private let auditLog: AuditLog
    /// The topics below `$SYS/broker/alarms`, and what was published there last.
    private var publishedAlarms: [String: String] = [:]

    init(
        _ facts: BrokerFacts, configuration: RunningConfiguration, loops: LoopGroup, _ brokerClient: BrokerClient,
        listeners: ListenerService, login: HTTPLogin, activity: HTTPActivity, store: OpenStore?, bans: BanService,
        drain: DrainService, bridges: BridgeService, documents: SecurityDocuments, security: DynamicSecurityService,
        hasher: EntryHasher, explainer: LoginExplainer, services: ServiceAccess, cluster: ClusterAdministration?,
        control: ControlLoop, log: Log, auditLog: AuditLog
    ) {
        (self.facts, current, self.loops, self.brokerClient) = (facts, configuration, loops, brokerClient)
        (sockets, self.login, self.activity, self.store) = (listeners, login, activity, store)
        (banService, drainService, bridgeService) = (bans, drain, bridges)
        (self.documents, self.security, self.hasher, self.cluster) = (documents, security, hasher, cluster)
        (self.explainer, self.services) = (explainer, services)
        (self.control, self.log, self.auditLog) = (control, log, auditLog)
    }

    // MARK: The shards

    var shardCount: Int { brokerClient.shardCount }

    func shard(of clientIdentifier: EncodedString) -> Int { brokerClient.placement.shard(of: clientIdentifier) }

    func shard(of topic: TopicName) -> Int { brokerClient.placement.shard(of: topic) }

    func ask(_ query: ShardQuery, of shard: Int, _ done: @escaping (ShardReply?) -> Void) {
        brokerClient.ask(query, of: shard, done)
    }

    func perform(_ command: ShardCommand, to shard: Int, _ done: @escaping (ShardCommandOutcome?) -> Void) {
        brokerClient.perform(command, to: shard, done)
    }

    func statistics(_ done: @escaping ([ShardStatistics]) -> Void) {
        brokerClient.statistics { [self] counts in
            var counts = counts
            // What this thread has counted goes with the first shard's.
            if !counts.isEmpty {
                counts[0].logins.add(activity.logins)
                counts[0].refusals.add(activity.refusals)
            }
            done(counts)
        }
    }

    func watchClients(_ isWatched: Bool) {
        brokerClient.watchEvents(isWatched ? { [control] event in control.request(.presence(event)) } : nil)
    }

    func watchLog(_ isWatched: Bool) {
        guard isWatched else { return log.ring.forward(to: nil) }
        log.ring.forward { [mailbox = control.mailbox] line in mailbox.post(.logged(line)) }
    }

    // MARK: Traces

    /// Makes a file for a trace: beside the store, else in the directory of temporary files.
    func makeTraceFile() -> (any TraceFile)? {
        let temporary = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let directory = store == nil ? temporary : storeDirectory
        do throws(SystemError) {
            return try NamelessTraceFile(in: directory)
        } catch {
            log.write(.error, "Error: a trace needs a file in \(directory): \(error).")
            return nil
        }
    }

    func tracesTaken(by shard: Int) { brokerClient.tracesTaken(by: shard) }

    // MARK: How it is

    var wallClockOffset: UInt64 { WallClock.offsetMilliseconds() }

    var condition: BrokerCondition {
        var condition = BrokerCondition()
        let now = MonotonicClock.milliseconds()
        condition.loopAges = brokerClient.answeredAt.map { now - min(now, $0) }
        condition.isListening = drain == nil
        condition.isStopping = loops.isStopping
        condition.store = store?.condition
        condition.storeDisk =
            store == nil
            ? nil : ResourceLimits.diskBytes(at: storeDirectory).map { .init(freeBytes: $0.free, totalBytes: $0.total) }
        condition.residentBytes = ProcessFigures.residentBytes()
        condition.processorSeconds = ProcessFigures.processorSeconds()
        condition.heapBytesMax = current.value.limits.memoryBytesMax.map { UInt64($0) }
        condition.isMemoryFull = condition.heapBytesMax.map { UInt64(max(0, ProcessMemory.heapBytes())) >= $0 } ?? false
        condition.reloadedAt = current.reloadedAt
        condition.cluster = cluster?.condition
        condition.loginSources = services.tallies.all.map { tally in
            let counts = tally.counts
            var source = BrokerCondition.LoginSource(name: tally.name)
            (source.asked, source.allowed, source.refused) = (counts.asked, counts.allowed, counts.refused)
            (source.unknown, source.failed, source.latency) = (counts.unknown, counts.failed, counts.latency)
            source.remembered = counts.remembered
            (source.isDown, source.lastFailure) = (tally.isDown, counts.lastFailure)
            return source
        }
        return condition
    }

    var openFiles: Int { ProcessFigures.openFiles() }
    var openFilesMax: Int { ResourceLimits.fileDescriptors }
    var storeFreeBytes: UInt64? { store == nil ? nil : ResourceLimits.freeBytes(at: storeDirectory) }

    private var storeDirectory: String { current.value.persistence.location ?? "." }

    var listeners: [AdministeredListener] {
        current.value.listeners.enumerated().map { index, configuration in
            var listener = AdministeredListener(
                name: ListenerName.of(configuration.endpoint), application: Self.application(configuration.application))
            switch configuration.endpoint {
            case .tcp(let port, let host): (listener.port, listener.host) = (port, host)
            case .loopback(let port): (listener.port, listener.host) = (port, "localhost")
            case .unixSocket(let path): listener.path = path
            }
            listener.usesTLS = configuration.tls.isEnabled
            listener.requiresCertificate = configuration.tls.requiresCertificate
            listener.allowsAnonymous = configuration.security.allowsAnonymous
            listener.hidesUserNames = configuration.hidesUserNames
            if configuration.application == .httpAPI {
                listener.connections = activity.connections.count(of: index)
            } else {
                listener.connections = sockets.admission.count(ofListener: index)
                listener.connectionsAccepted = sockets.admission.acceptedCount(ofListener: index)
            }
            listener.connectionsMax = configuration.connectionsMax
            listener.isClosed = sockets.entries[index].sockets.isEmpty
            if let certificate = sockets.entries[index].layers.tls?.current.certificate {
                listener.certificate = .init(
                    name: configuration.tls.certificateFile ?? "", subject: certificate.subject, notAfter: certificate.notAfter)
            }
            return listener
        }
    }

    private static func application(_ application: ListenerProtocol) -> AdministeredListener.Application {
        switch application {
        case .mqtt: .mqtt
        case .webSockets: .webSockets
        case .httpAPI: .httpAPI
        }
    }

    // MARK: Logins and rules

    func logIn(_ wanted: AdministrationLogin, _ done: @escaping (AdministrationLogin.Answer) -> Void) -> () -> Void {
        guard login.tables.listeners[wanted.listener].authenticator != nil else {
            done(.refused)
            return {}
        }
        return login.check(
            wanted.userName, password: wanted.password,
            from: ConnectionInfo(address: wanted.address, port: 0, listener: wanted.listener)
        ) { outcome in
            switch outcome {
            case .accepted(let user): done(.accepted(userName: user ?? wanted.userName))
            case .refused: done(.refused)
            case .busy: done(.unavailable)
            }
        }
    }

    func permits(
        _ user: EncodedString?, ofListener listener: Int, to access: AdministeredAccess, topic: TopicName
    ) -> AdministeredPermission {
        guard let rules = login.tables.listeners[listener].accessControl else { return .unruled }
        let policy = rules.policy(userName: user, clientIdentifier: HTTPLogin.clientIdentifier)
        let isGranted = topic.bytes.withUnsafeBytes { topic in
            switch access {
            case .read: policy.mayReceive(topic: topic)
            case .write: policy.mayPublish(topic: topic)
            }
        }
        return isGranted ? .granted : .denied
    }

    func performSecurityCommands(
        _ payload: [UInt8], for who: String, from origin: RequestOrigin, _ done: @escaping (SecurityCommandsAnswer) -> Void
    ) {
        let listeners = current.value.listeners
        let own = listeners.indices.contains(origin.listener) ? listeners[origin.listener].security : nil
        let document = ([own].compactMap { $0 } + current.value.openListeners.map(\.security)).lazy
            .compactMap { self.documents.document(of: $0) }.first
        guard let document else { return done(.notConfigured) }
        let asker = DynamicSecurityService.Asker(clientIdentifier: "\(HTTPLogin.clientIdentifier)", userName: who)
        let isTaken = security.perform(SecurityRequest(payload), on: document, for: asker) { [control] reply, next in
            let hasChanged = !reply.changes.isEmpty
            done(.performed(reply.text, changes: hasChanged ? reply.lines.joined(separator: "; ") : ""))
            control.request(.usersChanged(reply.changes.users))
            next()
        }
        if !isTaken { done(.busy) }
    }

    // MARK: Configuration

    var configuration: ConfigurationReport { current.report }

    func checkConfiguration() -> ConfigurationFindings? { current.check() }

    func reloadConfiguration(_ done: @escaping (ConfigurationFindings?) -> Void) { control.request(.reload(done)) }

    // MARK: Bridges

    var bridges: [AdministeredBridge] { bridgeService.administered }

    var bridgesEndWithBroker: Bool { bridgeService.supervisor.endsWithBroker }

    func perform(_ command: BridgeCommand, bridge name: String) -> BridgeCommandOutcome {
        bridgeService.perform(command, onBridge: name)
    }

    // MARK: Drain

    var drain: DrainStatus? { drainService.status }

    func beginDrain(_ request: DrainRequest) {
        drainService.begin(request, at: Moment.now().wallMilliseconds)
    }

    func endDrain() { drainService.end() }

    // MARK: The cluster

    func askOtherNodes(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void) {
        guard let cluster else { return done([]) }
        cluster.ask(request, done)
    }

    // MARK: Bans

    var bans: BanList { banService.list }

    var bansMade: [BanKind: Int] { banService.made }

    var bansEndWithBroker: Bool { banService.endsWithBroker }

    func ban(_ ban: Ban, _ done: @escaping (String?) -> Void) -> Bool { banService.ban(ban, done) }

    func liftBan(_ target: BanTarget, by who: String, _ done: @escaping (String?) -> Void) -> Bool {
        banService.lift(target, by: who, done)
    }

    // MARK: Alarms

    func report(_ changes: [AlarmChange], counts: [(kind: AlarmKind, count: Int)]) {
        for change in changes {
            log.write(change.isRaised ? .warning : .notice, (change.isRaised ? "Warning: " : "") + change.text)
        }
        var values = counts.map { ("$SYS/broker/alarms/\($0.kind.rawValue)", String($0.count)) }
        values.append(("$SYS/broker/alarms/count", String(counts.reduce(0) { $0 + $1.count })))
        for (topic, value) in values where publishedAlarms[topic] != value {
            publishedAlarms[topic] = value
            loops.sendToFirst(.systemTopic(topic: topic, value: value))
        }
    }

    // MARK: The log

    var logTopics: LogTopics {
        get { log.topics }
        set {
            log.choose(newValue)
            control.request(.renewSettings)
        }
    }

    func logLines(_ countMax: Int) -> [AdministeredLogLine] { log.ring.last(countMax).map { AdministeredLogLine($0) } }

    func audit(_ line: String) { auditLog.write(line, to: current.value.administration.auditFile) }

    func writeTokens(_ text: String) -> Bool {
        guard let path = current.value.administration.tokenFile else { return false }
        do throws(FileReplacement.Failure) {
            try FileReplacement.write(Array(text.utf8), to: path)
            return true
        } catch {
            log.write(.error, "Error: martlet_http_token_file \(path) \(error).")
            return false
        }
    }
}

extension AdministeredLogLine {
    init(_ line: LogLine) {
        self.init(
            topic: line.topic, text: line.text, at: UInt64(max(0, line.seconds)) * 1000 + UInt64(line.nanoseconds / 1_000_000),
            fields: line.fields)
    }
}

/// A trace's lines on the disk.
final class NamelessTraceFile: TraceFile {
    private let file: NamelessFile

    init(in directory: String) throws(SystemError) { file = try NamelessFile(in: directory) }

    func append(_ bytes: [UInt8]) -> Bool { (try? file.append(bytes)) != nil }

    func bytes(from offset: Int, count: Int) -> [UInt8] { (try? file.bytes(from: offset, count: count)) ?? [] }
}

/// What the kernel tells of this process.
enum ProcessFigures {
    /// Memory that is in use, in bytes; 0 where the kernel does not tell.
    static func residentBytes() -> UInt64 {
        guard let bytes = try? WholeFile.bytes(of: "/proc/self/statm", bytesMax: 4096) else { return 0 }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return words.count > 1 ? (UInt64(words[1]) ?? 0) * UInt64(sysconf(Int32(_SC_PAGESIZE))) : 0
    }

    /// User and system time, in seconds.
    static func processorSeconds() -> Double {
        var usage = rusage()
        guard getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return 0 }
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1_000_000 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    /// What the host is called.
    static func hostName() -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress, gethostname(start, buffer.count - 1) == 0 else { return "localhost" }
            buffer[buffer.count - 1] = 0
            return String(cString: start)
        }
    }

    /// Files and sockets that are open.
    static func openFiles() -> Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Itself, its parent, and the directory that is read.
        return max(0, count - 3)
    }
}
