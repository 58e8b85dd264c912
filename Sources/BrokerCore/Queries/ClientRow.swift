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

    init(_ session: Session, at now: UInt64, _ position: ClientPosition? = nil) {
        (clientIdentifier, userName, version) = (session.clientIdentifier, session.userName, session.version)
        connection = session.connection?.with { ClientConnectionRow($0, at: now) }
        createdAt = session.createdAt == 0 ? nil : session.createdAt
        disconnectedAt = connection != nil || session.disconnectedAt == 0 ? nil : session.disconnectedAt
        sessionExpirySeconds = session.expiryIntervalSeconds
        subscriptionCount = session.heldSubscriptions
        (queuedMessages, queuedBytes) = (session.outbox.waiting, session.outbox.waitingBytes)
        inFlightMessages = session.outbox.inFlight
        receivedMessages = session.receivedIdentifiers.count
        lagMilliseconds = session.lagMilliseconds(now: now)
        drops = session.drops
        self.position = position ?? ClientPosition(value: 0, clientIdentifier: session.clientIdentifier)
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

    init(_ connection: Connection, at now: UInt64) {
        id = connection.id
        (address, port) = (connection.info.address, connection.info.port)
        listener = connection.isLocal ? nil : connection.info.listener
        (isBridge, cleanStart) = (connection.isBridge, connection.isCleanStart)
        connectedAt = connection.connectedAt
        keepAliveSeconds = Int(connection.keepAliveMilliseconds / 1500)
        outputBytes = connection.output.pendingBytes
        traffic = connection.traffic
        rates = connection.rates(at: now)
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

    init(_ session: Session, at now: UInt64) {
        row = ClientRow(session, at: now)
        will = session.will.map { ClientWillRow($0) }
        inFlightMax = session.inFlightMax
        packetBytesMax = session.connection?.with { Int($0.maximumPacketSize) }
        mountPoint = session.mountPoint
        info = session.connection?.with { $0.info }
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

    init(_ will: Will) {
        (topic, qos, retain) = (will.topic, will.qos, will.retain)
        payloadBytes = will.payload.count
        delayInterval = will.properties.willDelayInterval ?? 0
    }
}

extension Session {
    /// Its subscriptions, those in share groups included.
    var heldSubscriptions: Int { Int(subscriptionCount) + groups.count }

    /// How long the oldest message that a connected client has not been sent has waited, in milliseconds; 0 for none.
    func lagMilliseconds(now: UInt64) -> UInt64 {
        guard let connection else { return 0 }
        let unwritten = connection.with { $0.isBlocked ? $0.extras?.outputLag.milliseconds(now: now) ?? 0 : 0 }
        guard let first = outbox.firstWaiting, let message = outbox[first].message else { return unwritten }
        return max(unwritten, message.with { now &- min(now, $0.madeAt / 1000) })
    }
}
