public import MQTTCodec

/// A session and the connection that it is on.
public struct ClientRow: Sendable {
    public let clientIdentifier: EncodedString
    /// Of the client that was here last; nil for one without.
    public let userName: EncodedString?
    /// Of the last connection.
    public let version: ProtocolVersion
    /// Nil while the client is away.
    public let connection: ClientConnectionRow?
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
    /// What the client has lost since its session is here.
    public let drops: DropCounts

    init(_ session: Session) {
        (clientIdentifier, userName, version) = (session.clientIdentifier, session.userName, session.version)
        connection = session.connection?.with { ClientConnectionRow($0) }
        sessionExpirySeconds = session.expiryIntervalSeconds
        subscriptionCount = Int(session.subscriptionCount) + session.groups.count
        (queuedMessages, queuedBytes) = (session.outbox.waiting, session.outbox.waitingBytes)
        inFlightMessages = session.outbox.inFlight
        receivedMessages = session.receivedIdentifiers.count
        drops = session.drops
    }
}

/// A connection of a client that is let in.
public struct ClientConnectionRow: Sendable {
    public let id: ConnectionID
    public let address: String
    public let port: UInt16
    /// An index into `BrokerSettings.listeners`; nil for a client of the broker's own.
    public let listener: Int?
    /// 0 for none.
    public let keepAliveSeconds: Int
    /// Bytes that the transport has not taken yet.
    public let outputBytes: Int

    init(_ connection: Connection) {
        id = connection.id
        (address, port) = (connection.info.address, connection.info.port)
        listener = connection.isLocal ? nil : connection.info.listener
        keepAliveSeconds = Int(connection.keepAliveMilliseconds / 1500)
        outputBytes = connection.output.pendingBytes
    }
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

    init(_ session: Session, _ filter: [UInt8], shareName: EncodedString?, _ terms: SubscriptionTerms) {
        (clientIdentifier, self.filter, self.shareName) = (session.clientIdentifier, filter, shareName)
        // When retained messages go out is nothing that a subscription remembers.
        options = SubscriptionOptions(
            maximumQoS: terms.maximumQoS, noLocal: terms.noLocal, retainAsPublished: terms.retainAsPublished)
        identifier = terms.identifier
    }
}

/// A retained message, without its content.
public struct RetainedRow: Hashable, Sendable {
    public let topic: [UInt8]
    public let qos: QoS
    public let payloadBytes: Int
    /// When it expires, in milliseconds on the shard's clock; nil for never.
    public let expiresAt: UInt64?
    /// Who published it; nil for the broker itself, or where nobody asked.
    public let publisher: EncodedString?

    init(_ message: Message) {
        (topic, qos, payloadBytes) = (Array(message.topic), message.qos, message.payload.count)
        expiresAt = message.expiresAt == Message.neverExpires ? nil : message.expiresAt
        publisher = message.source?.clientIdentifier
    }
}
