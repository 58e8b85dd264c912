package import BrokerCore
package import BrokerModel
package import Cluster
package import NATSClient

/// What reaches a loop on account of the cluster.
package enum ClusterLoopMessage: Sendable {
    /// To the loop that speaks to the servers: addresses that it has asked for.
    case nats(NATSConnectionMessage)
    /// To that loop: what a shard has to tell.
    case note(from: Int, ClusterNote)
    /// To that loop: tell how it is.
    case report
    /// To that loop: what the control thread wants of what nodes share.
    case access(AccessOrder)
    /// To that loop: this node is like this.
    case summary(NodeFigures)
    /// To that loop: why the servers do not do what the configuration asks of them; nil if they do, or nobody knows.
    case unsynced(String?)
    /// To that loop: connect anew, with these.
    case credentials(ClusterCredentials)
    /// To that loop: ask all other nodes.
    case ask(token: UInt64, NodeQuestion)
    /// To that loop: what another node is to be answered.
    case answer(number: UInt64, NodeAnswer)
    /// To a shard's loop: whether the cluster can be reached.
    case isAway(Bool)
    /// To a shard's loop: other nodes' members of share groups. `groupsTaken` is to follow.
    case groups(GroupsChange, token: UInt64)
    /// To the loop that speaks to the servers: a loop knows.
    case groupsTaken(token: UInt64)
    /// To a shard's loop: the shard's batches up to this serial are in the log, or one of them is not.
    case logged(serial: UInt64, failure: LogFailure?)
    /// To a shard's loop: whether so much waits for the log that nothing more may come, and whether it is away.
    case logIsFull(Bool, isAway: Bool)
    /// To a shard's loop: the partitions of the log that have no room, a bit for each.
    case logLacksRoom(UInt64)
    /// To a shard's loop: from where on a partition of the log is read.
    case logBegins(Int, LogPlaces.Place)
    /// To a shard's loop: a partition ends at this record, before some that was read of it.
    case logIsCut(Int, at: UInt64)
    /// To a shard's loop: a partition has come as far as it went when it was found.
    case logIsCurrent(Int)
    /// To a shard's loop: what stands in the log.
    case record(LogRecord)
    /// To the loop that speaks to the servers: a shard has worked off so many bytes of records, of which so many messages were illegible.
    case recordsTaken(byteCount: Int, illegible: Int)
    /// To a shard's loop: what is to become of a session.
    case session(SessionOrder)
    /// To the loop that speaks to the servers: a shard's session lacks these records.
    case spans(from: Int, [UInt8], [LogSpan])
    /// To that loop: a shard has worked off so many bytes of records that it was given again.
    case recordsReplayed(byteCount: Int)
    /// To a shard's loop: deal from now on what the log has for a node that is gone, which was done up to these records; all that it had before stands in
    /// the log once more; deal it no more.
    case dealsFor(NodeID, after: [UInt64])
    case hasDealt(for: NodeID)
    case dealsNoMoreFor(NodeID)
    /// To a shard's loop: a record that says what became of messages that were dealt to a node that is gone, until `forgetDealt`; and one that may have
    /// some for it.
    case learnDealt(LogRecord, by: NodeID)
    case dealAgain(LogRecord, for: NodeID)
    case forgetDealt(by: NodeID)
    /// To a shard's loop: what earlier incarnations of this node were dealt.
    case past(PastOrder)
    /// To a shard's loop: this node goes on as another one, in two steps, so that no loop has anything on its way to another when that begins.
    case endIncarnation(next: NodeID)
    case beginIncarnation(after: StoredDealing?)
    /// To the loop that speaks to the servers: this loop has.
    case incarnationEnded(StoredDealing?)
    case incarnationBegun(from: Int, past: StoredDealing?)
    /// To a shard's loop: say with `dealt` how far what was dealt is done, by partition.
    case sendDealt
    /// To the loop that speaks to the servers.
    case dealt(from: Int, [(through: UInt64, last: UInt64)])
    /// To a shard's loop, of retained messages: how many bytes one may have, whether too many changes wait, which ones are in the stream,
    /// and that it look for what is not.
    case retainedBytes(max: Int)
    case retainedIsFull(Bool)
    case retainedIsSafe(UInt64)
    case lookForStaleChanges
}

/// What a shard is to do about what earlier incarnations of its node were dealt, in this order.
package enum PastOrder: Sendable {
    /// The node that deals for one of those incarnations is known.
    case heir(of: NodeID, NodeID)
    /// A record in which those incarnations may have said whose it is.
    case learn(LogRecord)
    /// There is no other; and one in which others may have said so since.
    case follow(LogRecord)
    /// There is no other; and these are the incarnations whose part this node deals again.
    case known(won: Set<UInt64>)
    /// A record that may have some of it.
    case deal(LogRecord)
    /// There is no other.
    case settle
    /// Nobody leaves those incarnations anything any more.
    case end
}

/// What has become of other nodes' members of share groups.
package enum GroupsChange: Sendable {
    case told([ClusterGroup])
    case isGone(NodeID)
}
