public import MQTTCodec

/// A question to one shard about what it holds, answered by pages: each with at most `rowsMax` rows and with where the next one begins.
///
/// A shard spends a bounded number of steps on questions in each turn, however much it holds, so that asking delays nobody's messages. What
/// is there from the first page to the last is in exactly one page; what comes or goes meanwhile may be in one or not.
public struct ShardQuery: Sendable {
    public enum Subject: Sendable {
        /// The sessions of the shard, connected or not.
        case clients(ClientSelection = ClientSelection())
        /// One session, whole. Its shard is `ShardPlacement`'s.
        case client(EncodedString)
        /// The messages that a session has still to receive, oldest first: those in flight, then those that wait. Places move up as messages
        /// leave, so that a page may leave out what has moved, or tell it again.
        ///
        /// - Parameter withPayload: whether the rows have the messages' content; a page ends then with the row that brings it to 1 MiB.
        case queue(of: EncodedString, withPayload: Bool = false)
        /// The messages of a session that are in flight, without those that wait.
        case inFlight(of: EncodedString)
        /// The subscriptions of the shard's sessions, in share groups or not.
        ///
        /// - Parameters:
        ///   - client: only those of this Client Identifier; nil for all.
        ///   - topic: only those that a message to this topic reaches, as topics are called inside the broker; nil for all.
        case subscriptions(of: EncodedString?, matching: TopicName?)
        /// The levels that follow `prefix` in topics and topic filters, by name, with how much there is at and below each: one page.
        ///
        /// - Parameters:
        ///   - prefix: the levels above, such as `a/b`, wildcards being levels as any other; nil for the first levels.
        ///   - name: only levels whose name stands behind this one's, byte by byte; nil for all.
        case topicTree(under: [UInt8]?, after: [UInt8]? = nil)
        /// The topics with a retained message that are kept on the shard and match a filter; one with a wildcard in front leaves out those that
        /// begin with `$`. Who may read them does not matter.
        case retained(TopicFilter)
        /// The retained message of a topic, with its content. Its shard is `ShardPlacement`'s.
        case retainedMessage(TopicName)
        /// The connections that have ended and the clients that were refused, last first, as far as they are remembered.
        case closedConnections(ClosedSelection = ClosedSelection())
        /// The messages that were dropped last, last first, and how many for each prefix of topics and each listener: one page.
        case drops
        /// What was counted of the topic filters that are counted: one page.
        case topicMeters
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
        self.rowsMax = min(max(1, rowsMax), SharedLimits.queryRowsMax)
    }
}

/// Where a page of an answer begins. It stays valid whatever the shard does meanwhile, until the broker ends.
public struct ShardCursor: Hashable, Sendable {
    /// The place in the shard's table of what is asked for: nothing there moves. In a queue, the place from its head.
    package var place: UInt32
    /// At a share group: the key of the last session that has been told of, 0 for none.
    package var member: UInt64 = 0

    /// At so many messages from the head of a queue.
    public init(queuePosition: Int) { place = UInt32(clamping: queuePosition) }

    package init(place: UInt32) { self.place = place }
}

/// A page.
public struct ShardReply: Sendable {
    public enum Rows: Sendable {
        case clients([ClientRow])
        /// Nil if there is no such session here.
        case client(ClientDetail?)
        /// And how many wait behind all of them, of which nothing is told: the store has them.
        case queue([QueueRow], behind: Int)
        /// And the packet identifiers of QoS 2 messages that came from the client and are not released, in order; all of them on each page.
        case inFlight([QueueRow], received: [UInt16])
        case subscriptions([SubscriptionRow])
        case topicTree([TopicLevelRow])
        case retained([RetainedRow])
        /// Nil if the topic has none here.
        case retainedMessage(RetainedContent?)
        case closedConnections([ClosedConnectionRow])
        case drops(DropReport)
        case topicMeters([TopicMeterRow])
    }

    public let token: UInt64
    public let rows: Rows
    /// Where the next page begins; nil at the end, and where pages are asked for by the last row: of clients in an order, of topic levels, of
    /// closed connections.
    public let next: ShardCursor?
    /// Whether there is more behind this page.
    public let hasMore: Bool
    /// How many there are in all, whatever the page begins with; nil where that was not counted.
    public let count: Int?
    /// When the page was complete, in milliseconds on the shard's clock.
    public let at: UInt64

    package init(
        token: UInt64, rows: Rows, next: ShardCursor?, hasMore: Bool, count: Int?, at: UInt64
    ) {
        self.token = token
        self.rows = rows
        self.next = next
        self.hasMore = hasMore
        self.count = count
        self.at = at
    }
}
