package import Configuration
package import NATSClient
import Platform
package import ServerLoops

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
    /// Whether sessions are the cluster's, and go where their clients go.
    package var movesSessions: Bool { logPartitions > 0 }
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

    /// Says what an operator has to know of servers that are too few for a stream.
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
