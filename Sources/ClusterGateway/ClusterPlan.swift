import BrokerCore
import BrokerModel
package import Cluster
package import Configuration
import HTTP
import JSON
import JSONReader
package import NATSClient
import Platform
package import ServerLoops
import Transports

/// The cluster as its configuration wants it.
package struct ClusterPlan: Sendable {
    package let name: String
    package let nodeName: String
    package let settings: NATSSettings
    /// As they were at the start.
    package let credentials: ClusterCredentials
    /// nil for three where the servers are a cluster, else one.
    package let replicas: Int?
    package let detached: DetachedConduct
    /// What an acknowledgement has to say; nil for whatever it says.
    package let mode: ClusterMode?
    package let monitors: [ServerMonitor]
    /// How long clients wait for a node that is away and has their sessions.
    package let sessionWaitMilliseconds: UInt64
    /// How many partitions the cluster's log has; 0 on a node that has no store, and logs nothing.
    package let logPartitions: Int
    /// Whether the node has a store: then what must not be lost is logged, and sessions go where their clients go.
    package var hasStore: Bool { logPartitions > 0 }
    /// Where clients reach this node; nil for nowhere that it knows of.
    package let address: String?
    /// How often `$SYS` tells of the cluster; nil for never.
    package let systemTopicMilliseconds: UInt64?

    /// The lowest version that will do: it has the time to live of single messages, on which leases rest.
    package static let versionMin = ServerVersion(2, 11)

    package init(
        name: String, nodeName: String, settings: NATSSettings, credentials: ClusterCredentials, replicas: Int?,
        detached: DetachedConduct, mode: ClusterMode?, monitors: [ServerMonitor], sessionWaitMilliseconds: UInt64,
        logPartitions: Int, address: String?, systemTopicMilliseconds: UInt64?
    ) {
        self.name = name
        self.nodeName = nodeName
        self.settings = settings
        self.credentials = credentials
        self.replicas = replicas
        self.detached = detached
        self.mode = mode
        self.monitors = monitors
        self.sessionWaitMilliseconds = sessionWaitMilliseconds
        self.logPartitions = logPartitions
        self.address = address
        self.systemTopicMilliseconds = systemTopicMilliseconds
    }

    /// On how many servers what the cluster shares is kept.
    package func replicas(_ info: ServerInfo) -> Int { replicas ?? (info.clusterName == nil ? 1 : 3) }

    /// A bucket that the nodes share, whose entries may have a time to live.
    func bucket(_ name: String, _ info: ServerInfo) -> StreamConfiguration {
        var stream = StreamConfiguration.bucket(name)
        stream.allowsTimeToLive = true
        stream.replicas = replicas(info)
        return stream
    }

    /// The line that tells an operator of too few servers for a stream's replicas.
    func replicasRemark(_ info: ServerInfo) -> String {
        replicas.map { "; martlet_cluster_replicas asks for \($0)" }
            ?? "; there are to be \(replicas(info)) replicas, unless martlet_cluster_replicas asks for less"
    }

    /// The host of `address`, with the brackets that it may have.
    package var host: String? {
        guard let address else { return nil }
        if let end = address.lastIndex(of: "]") { return String(address[...end]) }
        return String(address.prefix { $0 != ":" })
    }

    /// The line that is logged at the start.
    var line: String {
        "Cluster \(name), node \(nodeName): messages go to the subscribers of all nodes, through the NATS servers "
            + "\(settings.servers.map(\.description).joined(separator: ", ")). "
            + (hasStore
                ? "Those of QoS 1 and 2 are acknowledged when they are stored in the cluster's log, from which persistent sessions get them. "
                    + "Sessions with their queues move to the node that their client connects to. "
                : "Without a store (persistence true) they are acknowledged without waiting for other nodes. "
                    + "This node has its own sessions with their queues. ")
            + "Retained messages are the same on all nodes. Of a shared subscription one member of all nodes gets a message; each node has its own $SYS topics."
    }
}

/// The monitoring of a NATS server, which alone says whether the server brings every record to its disk before it
/// acknowledges it.
package struct ServerMonitor: Sendable, CustomStringConvertible {
    private let host: String
    private let port: UInt16

    /// The port that NATS servers have for it if nothing else is said.
    private static let usualPort: UInt16 = 8222

    /// Reads `http://HOST:PORT`. Throws what is wrong with it, and what would be right.
    package init(reading text: String) throws(ServerAddressError) {
        let scheme = "http://"
        guard text.hasPrefix(scheme) else { throw ServerAddressError("\(text) does not begin with \(scheme)") }
        let address = try ServerAddress(reading: String(text.dropFirst(scheme.count)))
        guard address.login == nil else { throw ServerAddressError("monitoring takes no login") }
        host = address.host
        port = address.port == ServerAddress.usualPort ? Self.usualPort : address.port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Asks, and waits for the answer.
    func ask() -> SyncConduct {
        do throws(BlockingChannel.Failure) {
            return SyncConduct(varz: try get("/varz"))
        } catch {
            return .unknown(error.reason)
        }
    }

    private func get(_ path: String) throws(BlockingChannel.Failure) -> [UInt8] {
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try ListenAddress(host: .named(host), port: port).resolve()
        } catch {
            throw BlockingChannel.Failure("\(error)")
        }
        let deadline = MonotonicClock.milliseconds() + Limits.monitorAnswerMillisecondsMax
        var channel = try BlockingChannel(toFirstOf: addresses, deadline: deadline)
        defer { channel.close() }
        var request = Array("GET \(path) HTTP/1.1\r\nHost: \(self)\r\nConnection: close\r\n\r\n".utf8)[...]
        var reader = HTTPResponseReader(bodyBytesMax: Limits.monitorAnswerBytesMax)
        var body: [UInt8] = []
        while true {
            let chunk = try channel.exchange(&request, deadline: deadline)
            do throws(HTTPResponseError) {
                if let chunk { reader.append(chunk) } else { try reader.finish() }
                while true {
                    let event = try reader.next()
                    switch event {
                    case .head(let head) where head.status != .ok: throw HTTPResponseError("is status \(head.status.rawValue)")
                    case .body(let bytes): body += bytes
                    case .end: return body
                    default: break
                    }
                    if event == .needsMore { break }
                }
            } catch {
                throw BlockingChannel.Failure("what it answers \(error)")
            }
        }
    }
}

extension SyncConduct {
    /// Reads what the page `/varz` of a server says.
    init(varz: [UInt8]) {
        guard let page = try? JSONValue(reading: varz), let jetStream = page.object?["jetstream"]?.object?["config"]?.object else {
            self = .unknown("it says nothing of JetStream")
            return
        }
        if jetStream["sync_always"]?.boolean == true {
            self = .always
        } else if let nanoseconds = jetStream["sync_interval"]?.integer {
            self = .every(seconds: nanoseconds / 1_000_000_000)
        } else {
            self = .unknown("it does not say when it syncs")
        }
    }
}

/// Finds out whether the cluster's servers sync what they acknowledge, and so what an acknowledgement of the cluster
/// says. On the control thread; servers are asked on a thread of its own.
package final class SyncWatch {
    private let plan: ClusterPlan
    private let log: Log
    private let post: @Sendable ([SyncConduct]) -> Void
    private let report: (String?) -> Void
    private var isAsking = false
    /// Whether what is being asked has to be asked once more: a server may have come meanwhile.
    private var asksAgain = false
    /// When each server syncs, as it was found out last, in the order of the plan's monitors; empty before that.
    package private(set) var conducts: [SyncConduct] = []

    /// - Parameters:
    ///   - plan: the cluster.
    ///   - log: where changes are told.
    ///   - post: brings the answers to `received`, from any thread.
    ///   - report: is told why the cluster does not do what the configuration asks for; nil when it does.
    package init(
        _ plan: ClusterPlan, log: Log, post: @escaping @Sendable ([SyncConduct]) -> Void, report: @escaping (String?) -> Void
    ) {
        (self.plan, self.log, self.post, self.report) = (plan, log, post, report)
    }

    /// What an acknowledgement says; nil if nobody knows.
    package var mode: ClusterMode? {
        guard !conducts.isEmpty else { return nil }
        if conducts.contains(where: { if case .every = $0 { true } else { false } }) { return .replicated }
        return conducts.allSatisfy { $0 == .always } ? .synced : nil
    }

    /// Asks all servers, when the last answers have come.
    package func ask() {
        guard !plan.monitors.isEmpty else { return }
        guard !isAsking else {
            asksAgain = true
            return
        }
        isAsking = true
        let (monitors, post) = (plan.monitors, post)
        do throws(SystemError) {
            // It ends by itself: each server has its time to answer.
            _ = try NamedThread.start(name: "martlet-monitor") { post(monitors.map { $0.ask() }) }
        } catch {
            isAsking = false
        }
    }

    package func received(_ answers: [SyncConduct]) {
        isAsking = false
        defer {
            if asksAgain {
                asksAgain = false
                ask()
            }
        }
        guard answers != conducts else { return }
        let before = mode
        conducts = answers
        for (monitor, conduct) in zip(plan.monitors, conducts) {
            if case .unknown(let reason) = conduct {
                log.write(.warning, "Cluster \(plan.name): it is not known when the server at \(monitor) syncs: \(reason).")
            }
        }
        // What a node without a store acknowledges is in its own memory.
        if let mode, mode != before, plan.hasStore { log.write(.notice, "Cluster \(plan.name): \(words(mode)).") }
        report(plan.mode == .synced ? complaint : nil)
    }

    /// The complaint about servers that do not sync; nil if all do.
    private var complaint: String? {
        for (monitor, conduct) in zip(plan.monitors, conducts) {
            guard case .every(let seconds) = conduct else { continue }
            return "the server at \(monitor) syncs every \(seconds) s only: martlet_cluster_mode synced wants sync_interval: always"
        }
        return nil
    }

    private func words(_ mode: ClusterMode) -> String {
        switch mode {
        case .synced:
            "what is acknowledged is on the disks of a majority of the servers, as far as martlet_cluster_monitors names them "
                + "(\(plan.monitors.count))"
        case .replicated: "what is acknowledged is in the memory of a majority of the servers, and on their disks a little later"
        }
    }
}

extension Limits {
    /// How long a server may take for its answer, in milliseconds.
    static let monitorAnswerMillisecondsMax: UInt64 = 3000

    /// Bytes of its answer, which has two kilobytes or so.
    static let monitorAnswerBytesMax = 1 << 20
}
