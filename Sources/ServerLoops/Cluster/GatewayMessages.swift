package import BrokerCore
package import BrokerModel
package import Cluster
package import NATSClient
package import Transports

/// What a shard's loop is told by the gateway, which speaks to the cluster's servers for all loops of the node.
package enum FromGateway: Sendable {
    /// What the shard is to know.
    case shard(FromCluster)
    /// What has become of other nodes' members of share groups. `ToGateway.groupsTaken` is to follow.
    case groups([FromCluster], token: UInt64)
    /// Whether so much waits for the log that nothing more may come, and whether it is away.
    case logRoom(isFull: Bool, isAway: Bool)
    /// What stands in the log. `ToGateway.recordsTaken` is to follow.
    case record(LogRecord)
    /// What stands in the log, once more. `ToGateway.recordsReplayed` is to follow.
    case recordAgain(LogRecord, ReplayPurpose)
    /// A session lacks some of the log: `ToGateway.spans` is to say which records.
    case sessionLacksLog([UInt8])
    /// `ToGateway.dispatched` is to say how far what was dispatched is done.
    case dispatchedIsWanted
    /// This node goes on as another one, in two steps: no loop has anything on its way to another when the second
    /// begins.
    case incarnationEnds(next: NodeID)
    case incarnationBegins(after: StoredDispatches?)
}

/// What the gateway is told: by the shards' loops, by the control thread, and by the connection to the servers.
package enum ToGateway: Sendable {
    // MARK: From the shards' loops

    /// What a shard has to tell.
    case shard(Int, ToCluster)
    /// A loop knows what `FromGateway.groups` has said.
    case groupsTaken(token: UInt64)
    /// A shard has worked off so many bytes of records, of which so many messages were illegible.
    case recordsTaken(byteCount: Int, illegible: Int)
    /// A shard has worked off so many bytes of records that it was given again.
    case recordsReplayed(byteCount: Int)
    /// A shard's session lacks these records.
    case spans(from: Int, [UInt8], [LogSpan])
    /// How far what was dispatched to a shard is done, by partition.
    case dispatched(from: Int, [(through: UInt64, last: UInt64)])
    case incarnationEnded(StoredDispatches?)
    case incarnationBegun(from: Int, earlierDispatches: StoredDispatches?)

    // MARK: From the control thread

    /// It is to tell how it is.
    case report
    /// What is wanted of what nodes share.
    case access(AccessOrder)
    /// This node is like this.
    case summary(NodeSummary)
    /// Why the servers do not do what the configuration asks of them; nil if they do, or nobody knows.
    case unsynced(String?)
    /// It is to connect anew, with these.
    case credentials(ClusterCredentials)
    /// All other nodes are to be asked.
    case ask(token: UInt64, NodeQuestion)
    /// What another node is to be answered.
    case answer(number: UInt64, NodeAnswer)

    // MARK: From the connection

    /// Addresses that it has asked for.
    case nats(NATSConnectionMessage)
}

/// By what a node is let in by its cluster's servers, and by what it knows them: what may be another while the broker
/// runs.
package struct ClusterCredentials: Sendable {
    package let login: NATSLogin?
    package let requiresTLS: Bool
    package let tls: TLSClientSettings
    /// What stood in the files of certificates and their key, which may be renewed under the same name.
    private let contents: [[UInt8]]

    package init(login: NATSLogin?, requiresTLS: Bool, tls: TLSClientSettings, contents: [[UInt8]]) {
        (self.login, self.requiresTLS, self.tls, self.contents) = (login, requiresTLS, tls, contents)
    }

    package func isSame(as other: ClusterCredentials) -> Bool {
        login == other.login && requiresTLS == other.requiresTLS && tls.authoritiesFile == other.tls.authoritiesFile
            && tls.certificateFile == other.tls.certificateFile && tls.keyFile == other.tls.keyFile && contents == other.contents
    }
}
