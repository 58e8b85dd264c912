import BrokerModel
import MQTTCodec

/// What shards tell each other besides messages.
enum ShardMessage: Sendable {
    /// All of the cluster's stream of retained messages is about to be read.
    case retainedReading
    /// It was: see `BrokerShard.sweepRetained`.
    case retainedSweep(place: Int, offers: Bool, round: UInt64)
    /// The sending shard wants the messages that match `filter` from now on, or no more.
    case interest(filter: [UInt8], isWanted: Bool)
    /// A session of the sending shard has a full queue: publishers are refused meanwhile.
    case fullQueue(FullQueue)
    /// That session has subscribed to a filter, or does no more.
    case fullQueueFilter(sessionKey: UInt64, filter: [UInt8], isThere: Bool)
    /// The session's queue has room again, or it has ended.
    case queueHasRoom(sessionKey: UInt64)
    /// A share group's member on the sending shard has changed.
    case group(GroupName, GroupChange)
    /// For the cluster: which nodes deal the message that follows to their members of share groups.
    case dealing(GroupDealing)
    /// For the cluster's log: a packet identifier was released, or the message that follows was received with it.
    case step(SessionStep)
    /// What the receiver has dealt to members on the sending shard, out of the cluster's log, is done.
    case dealt([DealtPlaces.Place])
    /// For the cluster's log: steps stand behind this one from now on.
    case stepIsKnown(number: UInt64)
    /// Answer with `barrierPassed` when everything before was worked off.
    case barrier(token: UInt64)
    case barrierPassed(token: UInt64)
    /// The source of the message that follows, which is to be retained.
    case retainedSource(RetainedSource)
    /// Send the retained messages that match to a session of the sending shard.
    case retainedQuery(RetainedQuery)
    /// The session has taken `count` messages of the scan: send as many more.
    case retainedMore(scan: UInt64, sessionKey: UInt64, count: Int)
    /// The query is answered, by the scan of that number, 0 for none; all that was found was sent before.
    case retainedFinished(RetainedQuery, scan: UInt64)
    /// The session that scans were opened for has ended.
    case retainedCancelled(sessionKey: UInt64)
    /// What the sending shard was sent, up to the batch with this serial, would survive a power cut.
    case durable(serial: UInt64)
    /// The client of the sending shard has released the QoS 2 message that this names, of which these share groups had a part.
    case released(receipt: UInt64, groups: [UInt64])
    case statisticsRequest
    case statistics(ShardStatistics)
}

/// A session that has a full queue, as its shard tells the others.
struct FullQueue: Sendable {
    let sessionKey: UInt64
    /// What its client may read; nil for everything.
    let access: AccessPolicy?
    /// The topics that it is for; nil for all.
    let part: TopicPart?
    /// What it subscribes to for itself, with a QoS that waits.
    let filters: [[UInt8]]
}
