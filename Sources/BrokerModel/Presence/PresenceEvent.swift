public import MQTTCodec

/// What has happened to a client. The events of one client are told in order.
public enum PresenceEvent: Sendable {
    /// The client was let in.
    case connected(ClientArrival)
    /// Its connection has ended, or is about to. The session goes on, unless `sessionEnded` follows.
    case disconnected(ClientDeparture)
    /// The session is no more: with its connection, because its time was over, or because its client began anew.
    ///
    /// - Parameter session: tells it from the client's other sessions.
    case sessionEnded(clientIdentifier: EncodedString, session: UInt64)
    /// A client was not let in.
    case refused(ClientRefusal)
    case subscribed(ClientSubscription)
    /// Its options are nothing.
    case unsubscribed(ClientSubscription)
    /// The client has lost messages, since its session is here; at most once a second for each client.
    case dropping(clientIdentifier: EncodedString, drops: DropCounts, at: UInt64)
    /// The client has not taken a message for as long as `martlet_slow_client` says.
    case slow(clientIdentifier: EncodedString, lagMilliseconds: UInt64, at: UInt64)
    /// So many events were not told as topics, because there were too many in a second.
    case lost(count: UInt64, at: UInt64)
}

/// Which events are published below `$SYS/brokers/`. `martlet_presence_events`
public enum PresenceTopics: Sendable {
    case none
    /// Events of clients that come and go.
    case connections
    /// Subscriptions and refused clients too.
    case all
}

/// How a client has come in.
public struct ClientArrival: Sendable {
    public let clientIdentifier: EncodedString
    /// Tells the session from the client's other sessions.
    public let session: UInt64
    /// Rises with each connection of a client: tells a late word of an earlier one.
    public let number: UInt64
    public let userName: EncodedString?
    public let connection: ConnectionID
    public let info: ConnectionInfo
    public let version: ProtocolVersion
    public let cleanStart: Bool
    /// Whether it came back to a session that was there.
    public let sessionPresent: Bool
    /// 0 for none.
    public let keepAliveSeconds: UInt16
    public let sessionExpirySeconds: UInt32
    /// How many QoS 1 and 2 messages it may be sent ahead.
    public let receiveMaximum: Int
    /// Milliseconds on the shard's clock.
    public let at: UInt64

    package init(
        clientIdentifier: EncodedString, session: UInt64, number: UInt64, userName: EncodedString?, connection: ConnectionID,
        info: ConnectionInfo, version: ProtocolVersion, cleanStart: Bool, sessionPresent: Bool, keepAliveSeconds: UInt16,
        sessionExpirySeconds: UInt32, receiveMaximum: Int, at: UInt64
    ) {
        self.clientIdentifier = clientIdentifier
        self.session = session
        self.number = number
        self.userName = userName
        self.connection = connection
        self.info = info
        self.version = version
        self.cleanStart = cleanStart
        self.sessionPresent = sessionPresent
        self.keepAliveSeconds = keepAliveSeconds
        self.sessionExpirySeconds = sessionExpirySeconds
        self.receiveMaximum = receiveMaximum
        self.at = at
    }
}

/// How a client's connection has ended.
public struct ClientDeparture: Sendable {
    public let clientIdentifier: EncodedString
    public let session: UInt64
    public let number: UInt64
    public let userName: EncodedString?
    public let connection: ConnectionID
    public let info: ConnectionInfo
    public let version: ProtocolVersion
    /// Milliseconds on the shard's clock.
    public let connectedAt: UInt64
    /// What DISCONNECT says or would say, from either side; nil where the network connection ended without it.
    public let reason: ReasonCode?
    /// The reason in words for people.
    public let words: String
    /// Whether the client said goodbye itself.
    public let isByClient: Bool
    /// Whether its will is published, now or after its delay.
    public let willSent: Bool
    public let traffic: ClientTraffic
    /// What the client has lost since its session is here.
    public let drops: DropCounts
    /// Milliseconds on the shard's clock.
    public let at: UInt64

    package init(
        clientIdentifier: EncodedString, session: UInt64, number: UInt64, userName: EncodedString?, connection: ConnectionID,
        info: ConnectionInfo, version: ProtocolVersion, connectedAt: UInt64, reason: ReasonCode?, words: String, isByClient: Bool,
        willSent: Bool, traffic: ClientTraffic, drops: DropCounts, at: UInt64
    ) {
        self.clientIdentifier = clientIdentifier
        self.session = session
        self.number = number
        self.userName = userName
        self.connection = connection
        self.info = info
        self.version = version
        self.connectedAt = connectedAt
        self.reason = reason
        self.words = words
        self.isByClient = isByClient
        self.willSent = willSent
        self.traffic = traffic
        self.drops = drops
        self.at = at
    }
}

/// How a client was not let in.
public struct ClientRefusal: Sendable {
    /// Nil where it never said.
    public let clientIdentifier: EncodedString?
    public let userName: EncodedString?
    public let info: ConnectionInfo
    public let version: ProtocolVersion
    public let reason: ReasonCode
    public let words: String
    /// Milliseconds on the shard's clock.
    public let at: UInt64

    package init(
        clientIdentifier: EncodedString?, userName: EncodedString?, info: ConnectionInfo, version: ProtocolVersion,
        reason: ReasonCode, words: String, at: UInt64
    ) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.info = info
        self.version = version
        self.reason = reason
        self.words = words
        self.at = at
    }
}

/// What a client has subscribed to, or does not any more.
public struct ClientSubscription: Sendable {
    public let clientIdentifier: EncodedString
    public let userName: EncodedString?
    /// As topics are called inside the broker.
    public let filter: TopicFilter
    public let options: SubscriptionOptions?
    public let isNew: Bool
    /// Milliseconds on the shard's clock.
    public let at: UInt64

    package init(
        clientIdentifier: EncodedString, userName: EncodedString?, filter: TopicFilter, options: SubscriptionOptions?, isNew: Bool,
        at: UInt64
    ) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.filter = filter
        self.options = options
        self.isNew = isNew
        self.at = at
    }
}
