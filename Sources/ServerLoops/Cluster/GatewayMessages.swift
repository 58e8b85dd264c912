package import BrokerCore
package import BrokerModel
package import Cluster
package import NATSClient
package import Transports

/// Messages to a shard's loop from the gateway, which speaks to the cluster's servers for all loops of the node.
package enum FromGateway: Sendable {
    /// A message to the shard.
    case shard(FromCluster)
    /// Other nodes' members of share groups have changed. The loop answers with `ToGateway.groupsTaken`.
    case groups([FromCluster], token: UInt64)
    /// The state of the log: whether so much waits for it that publishers must wait, and whether it is away.
    case logRoom(isFull: Bool, isAway: Bool)
    /// A record of the log. The loop answers with `ToGateway.recordsTaken`.
    case record(LogRecord)
    /// A record of the log, once more. The loop answers with `ToGateway.recordsReplayed`.
    case recordAgain(LogRecord, RereadPurpose)
    /// A session lacks records of the log. The loop answers with `ToGateway.spans`, which says which.
    case sessionLacksLog([UInt8])
    /// Asks how far the shard is done with what was dispatched to it. The loop answers with `ToGateway.dispatched`.
    case dispatchedIsWanted
    /// This node goes on as another one, in two steps: no loop has anything on its way to another when the second
    /// begins.
    case incarnationEnds(next: NodeID)
    case incarnationBegins(after: StoredDispatches?)
}

/// Messages to the gateway: from the shards' loops, from the control thread, and from the connection to the servers.
package enum ToGateway: Sendable {
    // MARK: From the shards' loops

    /// A message of a shard.
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

    /// Asks the gateway for the cluster's status.
    case report
    /// A read or change of the access data that nodes share.
    case access(AccessCommand)
    /// This node's summary, which goes to the others.
    case summary(NodeSummary)
    /// Why the servers do not do what the configuration asks of them; nil if they do, or nobody knows.
    case unsynced(String?)
    /// Connect anew, with these credentials.
    case credentials(ClusterCredentials)
    /// Ask all other nodes.
    case ask(token: UInt64, NodeQuestion)
    /// Answer another node's question.
    case answer(number: UInt64, NodeAnswer)

    // MARK: From the connection

    /// Addresses that the connection to the servers has asked for.
    case nats(NATSConnectionMessage)
}

/// The credentials by which a node logs in at its cluster's servers, and the certificates by which it knows them: both
/// may change while the broker runs.
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
