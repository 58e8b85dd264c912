public import MQTTCodec

/// A question to one shard about what it holds, answered by pages: each with at most `rowsMax` rows and with where the next one begins.
///
/// A shard spends a bounded number of steps on questions in each turn, however much it holds, so that asking delays nobody's messages. What
/// is there from the first page to the last is in exactly one page; what comes or goes meanwhile may be in one or not.
public struct ShardQuery: Sendable {
    public enum Subject: Sendable {
        /// The sessions of the shard, connected or not.
        case clients
        /// The subscriptions of the shard's sessions, in share groups or not.
        ///
        /// - Parameters:
        ///   - client: only those of this Client Identifier; nil for all.
        ///   - topic: only those that a message to this topic reaches, as topics are called inside the broker; nil for all.
        case subscriptions(of: EncodedString?, matching: TopicName?)
        /// The topics with a retained message that are kept on the shard and match a filter; one with a wildcard in front leaves out those that
        /// begin with `$`. Who may read them does not matter.
        case retained(TopicFilter)
    }

    /// Comes back with the answer.
    public var token: UInt64
    public var subject: Subject
    /// Where the page begins: what the page before it said; nil for the first one.
    public var cursor: ShardCursor?
    /// 1 to 10,000.
    public var rowsMax: Int

    public init(_ subject: Subject, token: UInt64 = 0, cursor: ShardCursor? = nil, rowsMax: Int = 100) {
        (self.subject, self.token, self.cursor) = (subject, token, cursor)
        self.rowsMax = min(max(1, rowsMax), Limits.queryRowsMax)
    }
}

/// Where a page of an answer begins. It stays valid whatever the shard does meanwhile, until the broker ends.
public struct ShardCursor: Hashable, Sendable {
    /// The place in the shard's table of what is asked for: nothing there moves.
    var place: UInt32
    /// At a share group: the key of the last session that has been told of, 0 for none.
    var member: UInt64 = 0
}

/// A page.
public struct ShardReply: Sendable {
    public enum Rows: Sendable {
        case clients([ClientRow])
        case subscriptions([SubscriptionRow])
        case retained([RetainedRow])
    }

    public let token: UInt64
    public let rows: Rows
    /// Where the next page begins; nil at the end.
    public let next: ShardCursor?
}
