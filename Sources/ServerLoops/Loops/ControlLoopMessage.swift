package import BrokerCore
package import BrokerModel
package import Cluster
package import DynamicSecurity
package import Security

/// What reaches the control thread's loop from other threads.
package enum ControlLoopMessage: Sendable {
    /// A page that was asked for.
    case reply(ShardReply)
    /// What has become of an order.
    case outcome(ShardOrderOutcome)
    /// A question or an order was not taken: too many wait there.
    case declined(token: UInt64)
    /// What has happened to a client, while somebody wants to know.
    case event(PresenceEvent)
    /// What a shard has recorded for traces.
    case traced(TraceBatch)
    /// What a shard has counted.
    case statistics(token: UInt64, shard: Int, ShardStatistics)
    /// The store takes what it is given, or does not any more.
    case store(StoreReport)
    /// Every loop goes by the configuration that was read last.
    case reloaded
    /// Every loop goes by the list of bans that they were given, one after the other.
    case bansInForce
    /// Somebody has done what may end in a ban.
    case offence(Offence)
    /// How the bridges of a loop are.
    case bridges([BridgeStatus])
    /// How the cluster is.
    case cluster(ClusterStatus)
    /// What nodes of the cluster share has changed.
    case access(AccessNews)
    /// Dynamic security that another node has changed was read; nil with the reason for what cannot be.
    case securityRead(Result<SecurityModel, SecurityFile.Complaint>)
    /// One of the cluster's servers was reached.
    case clusterReached
    /// When the cluster's servers sync.
    case syncConducts([SyncConduct])
    /// An administrator of another node asks.
    case clusterAsked(number: UInt64, NodeQuestion)
    /// What the other nodes have answered.
    case clusterAnswered(token: UInt64, [NodeReport])
    /// A line was logged, while somebody reads the log over HTTP.
    case logged(LogLine)
    /// A client asks the broker for something.
    case control(ControlMessage)
    /// The hashes of passwords that commands on dynamic security set.
    case hashed([[UInt8]: StoredPassword])
    /// A password for a file is hashed; nil where there was no memory for it.
    case entryHashed(number: Int, String?)
    /// A login over HTTP is decided.
    case decided(LoginService.Decision)
}
