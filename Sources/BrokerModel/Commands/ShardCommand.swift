public import MQTTCodec

/// What an administrator wants done on one shard, answered by a `ShardCommandOutcome`.
///
/// What has much to do is done over several turns, so that nobody's messages are delayed; commands are carried out one
/// after the other.
public struct ShardCommand: Sendable {
    public enum Action: Sendable {
        /// End a client's connection: a 5.0 client is told Administrative action (0x98). Its session goes on as long as
        /// it was to.
        ///
        /// - Parameter publishesWill: whether the will is published, as when a connection is lost; else it is
        ///   discarded.
        case kick(EncodedString, publishesWill: Bool)
        /// End a client's connection, and its session at once, connected or not.
        case endSession(EncodedString, publishesWill: Bool)
        /// Give up the messages that wait for a client and were never sent to it; not those that come after the
        /// command. Done when that would survive a crash, as far as anything does.
        ///
        /// - Parameter filter: only those whose topic matches. What only the store has is read for it, a part at a
        ///   time. Nil for all.
        case purgeQueue(of: EncodedString, matching: TopicFilter?)
        /// Give up the retained messages of the shard that match a filter; one with a wildcard in front leaves out
        /// topics that begin with `$`.
        ///
        /// - Parameter isRehearsal: whether they are only counted.
        case deleteRetained(TopicFilter, isRehearsal: Bool)
        /// Publish a message as the broker's own, to all whom it concerns on all shards. Its QoS 1 or 2 is that of the
        /// deliveries.
        case publish(PublishPacket)
        /// Count the messages of a topic filter from now on; one that is counted goes on.
        case meterTopic(TopicFilter)
        /// Count them no more.
        case unmeterTopic(TopicFilter)
        /// Record from now on, as `Effect.traced`; a trace with the same number ends.
        case beginTrace(TraceWish)
        /// Record no more of the trace with this number.
        case endTrace(Int)
    }

    /// Comes back with the outcome.
    public var token: UInt64
    public var action: Action

    public init(_ action: Action, token: UInt64 = 0) { (self.action, self.token) = (action, token) }
}

/// What has become of a command.
public struct ShardCommandOutcome: Hashable, Sendable {
    /// Why a queue was not purged as it was to be.
    public enum Shortfall: Hashable, Sendable {
        /// So many messages could not be read from the store; they stay. Beyond `SharedLimits.purgedRowsUnreadableMax`,
        /// others were not looked at.
        case unreadable(Int)
        /// The session is on its way from another node, or to one, with what is left of its queue.
        case moving
        /// The store takes nothing now: after a restart the messages may be there again.
        case unstored
    }

    public enum Result: Hashable, Sendable {
        case done
        /// No such client is connected, or no such session is here.
        case notFound
        /// There are as many already as there may be.
        case tooMany
        /// So many messages are given up, or would be.
        case removed(Int)
        /// So many messages of a queue are given up, and not all is as it was to be.
        case removedInPart(Int, Shortfall)
        /// What PUBACK would say; and how many sessions and share groups of this shard get the message, nil if others
        /// may on other shards.
        case published(ReasonCode, receivers: Int?)
    }

    public let token: UInt64
    public let result: Result

    package init(
        token: UInt64, result: Result
    ) {
        self.token = token
        self.result = result
    }
}
