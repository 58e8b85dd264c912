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

/// The running broker as its administration sees it. Belongs to the control thread.
final class ServedBroker: AdministeredBroker {
    unowned let server: Server
    private let brokerClient: BrokerClient
    let login: HTTPLogin
    /// The topics below `$SYS/broker/alarms`, and what was published there last.
    private var toldAlarms: [String: String] = [:]
    let facts: BrokerFacts
    /// Gets the events of clients, while somebody watches them.
    var report: ((PresenceEvent) -> Void)?

    init(_ server: Server, _ brokerClient: BrokerClient, _ login: HTTPLogin) {
        (self.server, self.brokerClient, self.login) = (server, brokerClient, login)
        facts = BrokerFacts(
            version: ProductVersion.text, node: server.clusterPlan?.nodeName ?? ProcessFigures.hostName(),
            startedAt: server.startedAt)
    }

    // MARK: The shards

    var shardCount: Int { brokerClient.shardCount }

    func shard(of clientIdentifier: EncodedString) -> Int { brokerClient.placement.shard(of: clientIdentifier) }

    func shard(of topic: TopicName) -> Int { brokerClient.placement.shard(of: topic) }

    func ask(_ query: ShardQuery, of shard: Int, _ done: @escaping (ShardReply?) -> Void) {
        brokerClient.ask(query, of: shard, done)
    }

    func order(_ order: ShardOrder, to shard: Int, _ done: @escaping (ShardOrderOutcome?) -> Void) {
        brokerClient.order(order, to: shard, done)
    }

    func statistics(_ done: @escaping ([ShardStatistics]) -> Void) {
        brokerClient.statistics { [self] counts in
            var counts = counts
            // What this thread has counted goes with the first shard's.
            if !counts.isEmpty {
                counts[0].logins.add(login.logins)
                if let refusals = server.http?.refusals { counts[0].refusals.add(refusals) }
            }
            done(counts)
        }
    }

    func watchClients(_ isWatched: Bool) {
        brokerClient.watchEvents(isWatched ? { [weak self] event in self?.report?(event) } : nil)
    }

    func watchLog(_ isWatched: Bool) {
        guard isWatched else { return server.log.ring.forward(to: nil) }
        server.log.ring.forward { [mailbox = server.control.mailbox] line in mailbox.post(.logged(line)) }
    }

    // MARK: Traces

    /// Makes a file for a trace: beside the store, else in the directory of temporary files.
    func makeTraceFile() -> (any TraceFile)? {
        let persistence = server.configuration.persistence
        let temporary = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let directory = server.openStore == nil ? temporary : persistence.location ?? "."
        do throws(SystemError) {
            return try NamelessTraceFile(in: directory)
        } catch {
            server.log.write(.error, "Error: a trace needs a file in \(directory): \(error).")
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
        condition.isStopping = server.isStopping
        condition.store = server.openStore == nil ? nil : server.storeTrouble
        condition.storeDisk =
            server.openStore == nil
            ? nil
            : ResourceLimits.diskBytes(at: server.configuration.persistence.location ?? ".").map {
                .init(freeBytes: $0.free, totalBytes: $0.total)
            }
        condition.residentBytes = ProcessFigures.residentBytes()
        condition.processorSeconds = ProcessFigures.processorSeconds()
        condition.heapBytesMax = server.configuration.limits.memoryBytesMax.map { UInt64($0) }
        condition.isMemoryFull = condition.heapBytesMax.map { UInt64(max(0, ProcessMemory.heapBytes())) >= $0 } ?? false
        condition.reloadedAt = server.reloadedAt
        condition.cluster = server.clusterCondition
        return condition
    }

    var openFiles: Int { ProcessFigures.openFiles() }
    var openFilesMax: Int { ResourceLimits.fileDescriptors }
    var storeFreeBytes: UInt64? {
        server.openStore == nil ? nil : ResourceLimits.freeBytes(at: server.configuration.persistence.location ?? ".")
    }

    var listeners: [AdministeredListener] {
        server.configuration.listeners.enumerated().map { index, configuration in
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
            if configuration.application == .httpAPI {
                listener.connections = server.http?.service.connectionCount(of: index) ?? 0
            } else {
                listener.connections = server.admission?.count(ofListener: index) ?? 0
                listener.connectionsAccepted = server.admission?.acceptedCount(ofListener: index) ?? 0
            }
            listener.connectionsMax = configuration.connectionsMax
            listener.isClosed = server.open.places[index].sockets.isEmpty
            if let certificate = server.open.places[index].layers.tls?.current.certificate {
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
        server.performSecurityCommands(payload, for: who, listener: origin.listener, done)
    }

    // MARK: Configuration

    var configuration: ConfigurationReport { server.configurationReport }

    func checkConfiguration() -> ConfigurationFindings? {
        server.reread.map { ConfigurationFindings($0().diagnostics) }
    }

    func reloadConfiguration(_ done: @escaping (ConfigurationFindings?) -> Void) { server.reload(done) }

    // MARK: Bridges

    var bridges: [AdministeredBridge] { server.administeredBridges }

    var bridgesEndWithBroker: Bool { server.bridges.endsWithBroker }

    func order(_ order: BridgeOrder, bridge name: String) -> BridgeOrderOutcome { server.perform(order, onBridge: name) }

    // MARK: Drain

    var drain: DrainStatus? { server.drain?.status }

    func beginDrain(_ order: DrainOrder) {
        server.drain?.begin(order, at: MonotonicClock.milliseconds() &+ WallClock.offsetMilliseconds())
    }

    func endDrain() { server.drain?.end() }

    // MARK: The cluster

    func askOtherNodes(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void) {
        guard let brokerClient = server.clusterAdministration else { return done([]) }
        brokerClient.ask(request, done)
    }

    // MARK: Bans

    var bans: BanList { server.bans?.list ?? BanList() }

    var bansMade: [BanKind: Int] { server.bans?.made ?? [:] }

    var bansEndWithBroker: Bool { server.bans?.endsWithBroker ?? true }

    func ban(_ ban: Ban, _ done: @escaping (String?) -> Void) -> Bool { server.bans?.ban(ban, done) ?? false }

    func liftBan(_ target: BanTarget, by who: String, _ done: @escaping (String?) -> Void) -> Bool {
        server.bans?.lift(target, by: who, done) ?? false
    }

    // MARK: Alarms

    func report(_ changes: [AlarmChange], counts: [(kind: AlarmKind, count: Int)]) {
        for change in changes {
            server.log.write(change.isRaised ? .warning : .notice, (change.isRaised ? "Warning: " : "") + change.text)
        }
        var values = counts.map { ("$SYS/broker/alarms/\($0.kind.rawValue)", String($0.count)) }
        values.append(("$SYS/broker/alarms/count", String(counts.reduce(0) { $0 + $1.count })))
        for (topic, value) in values where toldAlarms[topic] != value {
            toldAlarms[topic] = value
            server.loops.first?.mailbox.post(.systemTopic(topic: topic, value: value))
        }
    }

    // MARK: The log

    var logTopics: LogTopics {
        get { server.log.topics }
        set { server.chooseLogTopics(newValue) }
    }

    func logLines(_ countMax: Int) -> [AdministeredLogLine] { server.log.ring.last(countMax).map { AdministeredLogLine($0) } }

    func audit(_ line: String) { server.auditLog.write(line, to: server.configuration.administration.auditFile) }

    func writeTokens(_ text: String) -> Bool {
        guard let path = server.configuration.administration.tokenFile else { return false }
        do throws(FileReplacement.Failure) {
            try FileReplacement.write(Array(text.utf8), to: path)
            return true
        } catch {
            server.log.write(.error, "Error: martlet_http_token_file \(path) \(error).")
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

extension ConfigurationFindings {
    init(_ diagnostics: [Diagnostic]) {
        self.init(
            diagnostics.map { diagnostic in
                Finding(
                    isError: diagnostic.severity == .error, file: diagnostic.file.isEmpty ? nil : diagnostic.file,
                    line: diagnostic.line, message: (diagnostic.option.map { "\($0): " } ?? "") + diagnostic.message)
            })
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
