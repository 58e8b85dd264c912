public import MQTTCodec

/// A question to one shard about what it holds, answered by pages: each with at most `rowsMax` rows and with where the
/// next one begins.
///
/// A shard spends a bounded number of steps on questions in each turn, however much it holds, so that asking delays
/// nobody's messages. What is there from the first page to the last is in exactly one page; what comes or goes
/// meanwhile may be in one or not.
public struct ShardQuery: Sendable {
    public enum Subject: Sendable {
        /// The sessions of the shard, connected or not.
        case clients(ClientSelection = ClientSelection())
        /// One session, whole. Its shard is `ShardPlacement`'s.
        case client(EncodedString)
        /// The messages that a session has still to receive, oldest first: those in flight, then those that wait.
        /// Places move up as messages leave, so that a page may leave out what has moved, or tell it again.
        ///
        /// - Parameter withPayload: whether the rows have the messages' content; a page ends then with the row that
        ///   brings it to 1 MiB.
        case queue(of: EncodedString, withPayload: Bool = false)
        /// The messages of a session that are in flight, without those that wait.
        case inFlight(of: EncodedString)
        /// The subscriptions of the shard's sessions, in share groups or not.
        ///
        /// - Parameters:
        ///   - client: only those of this Client Identifier; nil for all.
        ///   - topic: only those that a message to this topic reaches, as topics are called inside the broker; nil for
        ///     all.
        case subscriptions(of: EncodedString?, matching: TopicName?)
        /// The levels that follow `prefix` in topics and topic filters, by name, with how much there is at and below
        /// each: one page.
        ///
        /// - Parameters:
        ///   - prefix: the levels above, such as `a/b`, wildcards being levels as any other; nil for the first levels.
        ///   - name: only levels whose name stands behind this one's, byte by byte; nil for all.
        case topicTree(under: [UInt8]?, after: [UInt8]? = nil)
        /// The topics with a retained message that are kept on the shard and match a filter; one with a wildcard in
        /// front leaves out those that begin with `$`. Who may read them does not matter.
        case retained(TopicFilter)
        /// The retained message of a topic, with its content. Its shard is `ShardPlacement`'s.
        case retainedMessage(TopicName)
        /// The connections that have ended and the clients that were refused, last first, as far as they are
        /// remembered.
        case closedConnections(ClosedSelection = ClosedSelection())
        /// The messages that were dropped last, last first, and how many for each prefix of topics and each listener:
        /// one page.
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
    /// The index in the shard's table of what is asked for: nothing there moves. In a queue, the position from its
    /// head.
    package var index: UInt32
    /// At a share group: the key of the last session that has been told of, 0 for none.
    package var member: UInt64 = 0

    /// At so many messages from the head of a queue.
    public init(queuePosition: Int) { index = UInt32(clamping: queuePosition) }

    package init(index: UInt32) { self.index = index }
}

/// A page.
public struct ShardReply: Sendable {
    public enum Rows: Sendable {
        case clients([ClientRow])
        /// Nil if there is no such session here.
        case client(ClientDetail?)
        /// And how many wait behind all of them, of which nothing is told: the store has them.
        case queue([QueueRow], behind: Int)
        /// And the packet identifiers of QoS 2 messages that came from the client and are not released, in order; all
        /// of them on each page.
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
    /// Where the next page begins; nil at the end, and where pages are asked for by the last row: of clients in an
    /// order, of topic levels, of closed connections.
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

/// A cursor as text, for who hands it to others: two numbers.
extension ShardCursor: LosslessStringConvertible {
    public init?(_ text: String) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false)
        guard numbers.count == 2, let index = UInt32(numbers[0]), let member = UInt64(numbers[1]) else { return nil }
        self.init(index: index)
        self.member = member
    }

    public var description: String { "\(index).\(member)" }
}

/// A subscription of a session.
public struct SubscriptionRow: Hashable, Sendable {
    public let clientIdentifier: EncodedString
    /// As topics are called inside the broker, without `$share` and the group's name.
    public let filter: [UInt8]
    /// The name of the share group; nil for none.
    public let shareName: EncodedString?
    public let options: SubscriptionOptions
    /// 0 for none.
    public let identifier: UInt32

    package init(
        clientIdentifier: EncodedString, filter: [UInt8], shareName: EncodedString?, options: SubscriptionOptions,
        identifier: UInt32
    ) {
        self.clientIdentifier = clientIdentifier
        self.filter = filter
        self.shareName = shareName
        self.options = options
        self.identifier = identifier
    }
}

/// A retained message, without its content.
public struct RetainedRow: Hashable, Sendable {
    public let topic: [UInt8]
    public let qos: QoS
    public let payloadBytes: Int
    /// When it expires, in milliseconds on the shard's clock; nil for never.
    public let expiresAt: UInt64?
    /// The client that published it; nil for the broker itself, or where nobody asked.
    public let publisher: EncodedString?

    package init(
        topic: [UInt8], qos: QoS, payloadBytes: Int, expiresAt: UInt64?, publisher: EncodedString?
    ) {
        self.topic = topic
        self.qos = qos
        self.payloadBytes = payloadBytes
        self.expiresAt = expiresAt
        self.publisher = publisher
    }
}

/// A retained message, with its content.
public struct RetainedContent: Sendable {
    public let row: RetainedRow
    /// As a client would get it.
    public let packet: PublishPacket

    package init(
        row: RetainedRow, packet: PublishPacket
    ) {
        self.row = row
        self.packet = packet
    }
}

/// A message that a session has still to receive.
public struct QueueRow: Hashable, Sendable {
    public enum State: Sendable {
        /// The message is sent when those before it are, and the client's window has room.
        case waiting
        /// The message waits so, and only the store has it: its content is not known here.
        case stored
        /// Sent, and not acknowledged.
        case sent
        /// Of QoS 2: the client has it, and PUBCOMP is awaited.
        case released
    }

    /// From the queue's head, 0 first; vacant slots are left out.
    public let position: Int
    public let state: State
    /// As topics are called inside the broker; nil where the message is not in memory.
    public let topic: [UInt8]?
    public let qos: QoS
    public let retain: Bool
    /// Of topic, properties and payload; 0 once the client has the message.
    public let byteCount: Int
    /// 0 for none yet.
    public let packetIdentifier: UInt16
    /// Since the broker took it, or has read it from its store, in milliseconds; nil where the message is not in
    /// memory.
    public let ageMilliseconds: UInt64?
    /// When it expires, in milliseconds on the shard's clock; nil for never, or where the message is not in memory.
    public let expiresAt: UInt64?
    /// If it was asked for, and is in memory.
    public let payload: [UInt8]?

    package init(
        position: Int, state: State, topic: [UInt8]?, qos: QoS, retain: Bool, byteCount: Int, packetIdentifier: UInt16,
        ageMilliseconds: UInt64?, expiresAt: UInt64?, payload: [UInt8]?
    ) {
        self.position = position
        self.state = state
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.byteCount = byteCount
        self.packetIdentifier = packetIdentifier
        self.ageMilliseconds = ageMilliseconds
        self.expiresAt = expiresAt
        self.payload = payload
    }
}

/// A level of topics and topic filters below some others.
public struct TopicLevelRow: Hashable, Sendable {
    public let name: [UInt8]
    /// Subscriptions of the shard's sessions whose filter has the level, at it and below it.
    public var subscriptions = 0
    /// Retained messages of the shard at the level and below it.
    public var retainedMessages = 0
    /// Whether there is anything below it.
    public var hasMoreLevels = false

    package init(
        name: [UInt8], subscriptions: Int = 0, retainedMessages: Int = 0, hasMoreLevels: Bool = false
    ) {
        self.name = name
        self.subscriptions = subscriptions
        self.retainedMessages = retainedMessages
        self.hasMoreLevels = hasMoreLevels
    }
}

/// A session and the connection that it is on. Times are milliseconds on the shard's clock.
public struct ClientRow: Sendable {
    public let clientIdentifier: EncodedString
    /// Of the client that was here last; nil for one without.
    public let userName: EncodedString?
    /// Of the last connection.
    public let version: ProtocolVersion
    /// Nil while the client is away.
    public let connection: ClientConnectionRow?
    /// When the session began; nil if that was before the broker's start.
    public let createdAt: UInt64?
    /// When its last connection ended; nil while there is one, and if that was before the broker's start.
    public let disconnectedAt: UInt64?
    /// How long the session outlives its connection; `UInt32.max` for ever.
    public let sessionExpirySeconds: UInt32
    public let subscriptionCount: Int
    /// Messages that wait to be sent, and their bytes.
    public let queuedMessages: Int
    public let queuedBytes: Int
    /// QoS 1 and 2 messages that were sent and are not acknowledged to the end.
    public let inFlightMessages: Int
    /// QoS 2 messages that were received and are not released.
    public let receivedMessages: Int
    /// How long the oldest message that the client has not been sent has waited, in milliseconds; 0 for none, and while
    /// the client is away.
    public let lagMilliseconds: UInt64
    /// What the client has lost since its session is here.
    public let drops: DropCounts
    /// Where it stands in the order that was asked for.
    public let position: ClientPosition

    package init(
        clientIdentifier: EncodedString, userName: EncodedString?, version: ProtocolVersion, connection: ClientConnectionRow?,
        createdAt: UInt64?, disconnectedAt: UInt64?, sessionExpirySeconds: UInt32, subscriptionCount: Int, queuedMessages: Int,
        queuedBytes: Int, inFlightMessages: Int, receivedMessages: Int, lagMilliseconds: UInt64, drops: DropCounts,
        position: ClientPosition
    ) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.version = version
        self.connection = connection
        self.createdAt = createdAt
        self.disconnectedAt = disconnectedAt
        self.sessionExpirySeconds = sessionExpirySeconds
        self.subscriptionCount = subscriptionCount
        self.queuedMessages = queuedMessages
        self.queuedBytes = queuedBytes
        self.inFlightMessages = inFlightMessages
        self.receivedMessages = receivedMessages
        self.lagMilliseconds = lagMilliseconds
        self.drops = drops
        self.position = position
    }
}

/// A connection of a client that is let in.
public struct ClientConnectionRow: Sendable {
    public let id: ConnectionID
    public let address: String
    public let port: UInt16
    /// An index into `BrokerSettings.listeners`; nil for a client of the broker's own.
    public let listener: Int?
    public let isBridge: Bool
    public let cleanStart: Bool
    /// When the client was let in, in milliseconds on the shard's clock.
    public let connectedAt: UInt64
    /// 0 for none.
    public let keepAliveSeconds: Int
    /// Bytes that the transport has not taken yet.
    public let outputBytes: Int
    public let traffic: ClientTraffic
    /// Messages a second, received from the client and sent to it: since somebody asked before, at least a second ago,
    /// else since it is connected.
    public let rates: (received: UInt64, sent: UInt64)

    package init(
        id: ConnectionID, address: String, port: UInt16, listener: Int?, isBridge: Bool, cleanStart: Bool, connectedAt: UInt64,
        keepAliveSeconds: Int, outputBytes: Int, traffic: ClientTraffic, rates: (received: UInt64, sent: UInt64)
    ) {
        self.id = id
        self.address = address
        self.port = port
        self.listener = listener
        self.isBridge = isBridge
        self.cleanStart = cleanStart
        self.connectedAt = connectedAt
        self.keepAliveSeconds = keepAliveSeconds
        self.outputBytes = outputBytes
        self.traffic = traffic
        self.rates = rates
    }
}

/// All of a session and its connection.
public struct ClientDetail: Sendable {
    public let row: ClientRow
    /// Nil without one.
    public let will: ClientWillRow?
    /// How many QoS 1 and 2 messages may be in flight to the client.
    public let inFlightMax: Int
    /// The largest packet that the client takes, in bytes; nil while it is away.
    public let packetBytesMax: Int?
    /// What stands before its topics inside the broker; empty for nothing.
    public let mountPoint: [UInt8]
    /// What its transport knows of it; nil while it is away.
    public let info: ConnectionInfo?

    package init(
        row: ClientRow, will: ClientWillRow?, inFlightMax: Int, packetBytesMax: Int?, mountPoint: [UInt8], info: ConnectionInfo?
    ) {
        self.row = row
        self.will = will
        self.inFlightMax = inFlightMax
        self.packetBytesMax = packetBytesMax
        self.mountPoint = mountPoint
        self.info = info
    }
}

/// A will, without its content.
public struct ClientWillRow: Hashable, Sendable {
    public let topic: TopicName
    public let qos: QoS
    public let retain: Bool
    public let payloadBytes: Int
    /// Seconds.
    public let delayInterval: UInt32

    package init(
        topic: TopicName, qos: QoS, retain: Bool, payloadBytes: Int, delayInterval: UInt32
    ) {
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.payloadBytes = payloadBytes
        self.delayInterval = delayInterval
    }
}

/// Which sessions of a shard are told, and in which order.
public struct ClientSelection: Sendable, Equatable {
    /// Only those whose Client Identifier or user name has these bytes in it; case does not matter for ASCII letters.
    /// Nil for all.
    public var text: [UInt8]? {
        didSet { text = text?.map(Self.folded) }
    }
    /// Only those whose Client Identifier begins with this.
    public var prefix: EncodedString?
    public var userName: EncodedString?
    /// Only those connected from an address of this network.
    public var network: AddressRange?
    /// Only those connected through this listener, an index into `BrokerSettings.listeners`.
    public var listener: Int?
    public var isConnected: Bool?
    public var version: ProtocolVersion?
    /// Only those that have lost at least so many messages.
    public var dropsMin: UInt64 = 0
    /// Only those for which at least so many messages wait.
    public var queuedMin = 0
    /// Only those whose oldest unwritten message has waited so long, in milliseconds.
    public var lagMillisecondsMin: UInt64 = 0

    /// Nil for the order of the shard's table, with pages by `ShardCursor`: the cheapest. In any other order a page is
    /// the best rows behind `after` among all sessions.
    public var order: ClientOrder?
    public var isDescending = false
    /// The last row of the page before, from any shard; nil for the first page.
    public var after: ClientPosition?

    public init() {}

    /// In this order.
    public init(order: ClientOrder, isDescending: Bool = false, after: ClientPosition? = nil) {
        (self.order, self.isDescending, self.after) = (order, isDescending, after)
    }

    package static func folded(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }
}

/// What clients are sorted by; those that are equal in it, by Client Identifier.
public enum ClientOrder: Sendable, CaseIterable {
    case clientIdentifier
    case drops
    case queuedMessages
    case queuedBytes
    case outputBytes
    case lag
    /// Messages a second, see `ClientTraffic`.
    case receivedRate
    case sentRate
    case subscriptions
    /// The time; clients that are away count as 0.
    case connectedAt
}

/// A client's position in an order.
public struct ClientPosition: Hashable, Sendable {
    /// What it is sorted by; 0 in the order of Client Identifiers.
    public var value: UInt64
    public var clientIdentifier: EncodedString

    public init(value: UInt64, clientIdentifier: EncodedString) {
        (self.value, self.clientIdentifier) = (value, clientIdentifier)
    }

    /// Whether it stands before another one. O(bytes of the identifiers).
    public func precedes(_ other: ClientPosition, isDescending: Bool) -> Bool {
        if value != other.value { return (value < other.value) != isDescending }
        let (mine, others) = (clientIdentifier.bytes, other.clientIdentifier.bytes)
        return isDescending ? others.lexicographicallyPrecedes(mine) : mine.lexicographicallyPrecedes(others)
    }
}

extension SharedLimits {
    /// Rows of a page of an answer.
    package static let queryRowsMax = 10_000
}
