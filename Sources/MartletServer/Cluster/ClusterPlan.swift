import Configuration
import NATSClient
import Platform
import ServerLoops

/// The cluster as its configuration wants it.
struct ClusterPlan: Sendable {
    let name: String
    let nodeName: String
    let settings: NATSSettings
    /// As they were at the start.
    let credentials: ClusterCredentials
    /// nil for three where the servers are a cluster, else one.
    let replicas: Int?
    let detached: DetachedConduct
    /// What an acknowledgement has to say; nil for whatever it says.
    let mode: ClusterMode?
    let monitors: [ServerMonitor]
    /// How long clients wait for a node that is away and has their sessions.
    let sessionWaitMilliseconds: UInt64
    /// How many partitions the cluster's log has; 0 on a node that has no store, and logs nothing.
    let logPartitions: Int
    /// Whether sessions are the cluster's, and go where their clients go.
    var movesSessions: Bool { logPartitions > 0 }
    /// Where clients reach this node; nil for nowhere that it knows of.
    let address: String?
    /// How often `$SYS` tells of the cluster; nil for never.
    let systemTopicMilliseconds: UInt64?

    /// What is needed: time to live of single messages, on which leases rest.
    static let versionMin = ServerVersion(2, 11)

    /// nil on a broker that is alone. Reads the key. Throws what is wrong.
    init?(_ configuration: BrokerConfiguration) throws(ServerError) {
        let cluster = configuration.cluster
        guard cluster.isEnabled, let name = cluster.name else { return nil }
        self.name = name
        nodeName = configuration.general.nodeName ?? HostName.text()
        address = cluster.nodeAddress
        systemTopicMilliseconds = configuration.general.systemTopicIntervalSeconds.map { UInt64($0) * 1000 }
        let servers = try Self.read("martlet_cluster_servers", cluster.servers, ServerAddress.init(reading:))
        monitors = try Self.read("martlet_cluster_monitors", cluster.monitors, ServerMonitor.init(reading:))
        mode = cluster.mode
        sessionWaitMilliseconds = UInt64(cluster.sessionWaitSeconds) * 1000
        guard servers.allSatisfy({ $0.login == nil }) else {
            throw .cluster(
                option: "martlet_cluster_servers",
                reason:
                    "an address must not contain a login, because addresses are shown: write martlet_cluster_user and martlet_cluster_password"
            )
        }
        var settings = NATSSettings(
            servers: servers, name: "martlet \(nodeName)", versionMin: Self.versionMin, programVersion: ProductVersion.text)
        credentials = try ClusterCredentials(cluster, serverName: servers[0].certificateName)
        (settings.requiresTLS, settings.login) = (credentials.requiresTLS, credentials.login)
        self.settings = settings
        replicas = cluster.replicas
        detached = cluster.detached
        logPartitions = configuration.persistence.isEnabled ? cluster.partitions : 0
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

    /// On how many servers what the cluster shares is kept.
    func replicas(_ info: ServerInfo) -> Int { replicas ?? (info.clusterName == nil ? 1 : 3) }

    /// What is to be known of servers that are too few for a stream.
    func replicasRemark(_ info: ServerInfo) -> String {
        replicas.map { "; martlet_cluster_replicas asks for \($0)" }
            ?? "; there are to be \(replicas(info)) replicas, unless martlet_cluster_replicas asks for less"
    }

    /// The host of `address`, with the brackets that it may have.
    var host: String? {
        guard let address else { return nil }
        if let end = address.lastIndex(of: "]") { return String(address[...end]) }
        return String(address.prefix { $0 != ":" })
    }

    /// What the operator is told at the start.
    var line: String {
        "Cluster \(name), node \(nodeName): messages go to the subscribers of all nodes, through the NATS servers "
            + "\(settings.servers.map(\.description).joined(separator: ", ")). "
            + (logPartitions > 0
                ? "Those of QoS 1 and 2 are acknowledged when they are stored in the cluster's log, from which persistent sessions get them. "
                : "Without a store (persistence true) they are acknowledged without waiting for other nodes. ")
            + (movesSessions
                ? "Sessions with their queues move to the node that their client connects to. "
                : "This node has its own sessions with their queues. ")
            + "Retained messages are the same on all nodes. Of a shared subscription one member of all nodes gets a message; each node has its own $SYS topics."
    }
}
