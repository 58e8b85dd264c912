/// The cluster that the broker is a node of.
public struct ClusterConfiguration: Sendable, Equatable {
    /// `martlet_cluster_servers`: the addresses of NATS servers; empty on a broker that is alone.
    public var servers: [String] = []
    /// `martlet_cluster_name`: what all its nodes call it.
    public var name: String?
    /// `martlet_node_address`: where clients reach this node, `HOST` or `HOST:PORT`.
    public var nodeAddress: String?
    /// `martlet_cluster_user`, `martlet_cluster_password`: the login at the servers.
    public var userName: String?
    public var password: String?
    /// `martlet_cluster_token`: instead of a user.
    public var token: String?
    /// `martlet_cluster_nkey_file`: instead of both, a file with the seed of a user's key.
    public var keyFile: String?
    /// `martlet_cluster_tls`: whether TLS is used even with servers that do not ask for it.
    public var requiresTLS = false
    /// `martlet_cluster_cafile`: whose certificates servers may show; nil for the system's own.
    public var authoritiesFile: String?
    /// `martlet_cluster_certfile`, `martlet_cluster_keyfile`: the node's own certificate.
    public var certificateFile: String?
    public var certificateKeyFile: String?
    /// `martlet_cluster_replicas`: on how many servers what the cluster shares is kept; nil for three where there is a cluster of servers, else
    /// one.
    public var replicas: Int?
    /// `martlet_cluster_partitions`: how many partitions the cluster's log has.
    public var partitions = 1
    /// `martlet_cluster_detached`: what becomes of new clients while no server can be reached.
    public var detached = DetachedConduct.refuse

    /// `martlet_cluster_mode`: what an acknowledgement has to say; nil for whatever it says.
    public var mode: ClusterMode?
    /// `martlet_cluster_session_wait`: how long clients wait for a node that is away and has their sessions, in seconds.
    public var sessionWaitSeconds = 5
    /// `martlet_cluster_monitors`: where the servers' monitoring is.
    public var monitors: [String] = []

    public var isEnabled: Bool { !servers.isEmpty }

    public init() {}
}

/// What an acknowledgement of QoS 1 and 2 says in a cluster.
public enum ClusterMode: String, Sendable, Equatable, CaseIterable {
    /// The message is on the disks of a majority of the servers.
    case synced
    /// The message is in the memories of a majority.
    case replicated
}

/// What a node does that cannot reach the cluster's servers.
public enum DetachedConduct: String, Sendable, Equatable, CaseIterable {
    /// New clients are refused with Server unavailable; those that are there go on among themselves.
    case refuse
    /// New clients are let in, and go on with those of this node.
    case local
}
