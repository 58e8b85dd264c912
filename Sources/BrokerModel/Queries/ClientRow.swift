public import MQTTCodec

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
    /// How long the oldest message that the client has not been sent has waited, in milliseconds; 0 for none, and while the client is away.
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
    /// Messages a second, received from the client and sent to it: since somebody asked before, at least a second ago, else since it is
    /// connected.
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
