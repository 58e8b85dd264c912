public import MQTTCodec

/// That a client has come or gone. The events of one client are told in order; told only if `BrokerSettings.tellsPresence` says so.
public enum PresenceEvent: Sendable {
    /// The client was let in.
    case connected(ClientArrival)
    /// Its connection has ended, or is about to. The session goes on, unless `sessionEnded` follows.
    case disconnected(ClientDeparture)
    /// The session is no more: with its connection, because its time was over, or because its client began anew.
    ///
    /// - Parameter session: tells it from the client's other sessions.
    case sessionEnded(clientIdentifier: EncodedString, session: UInt64)
}

/// How a client has come in.
public struct ClientArrival: Sendable {
    public let clientIdentifier: EncodedString
    /// Tells the session from the client's other sessions.
    public let session: UInt64
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
    /// Milliseconds on the shard's clock.
    public let at: UInt64
}

/// How a client's connection has ended.
public struct ClientDeparture: Sendable {
    public let clientIdentifier: EncodedString
    public let session: UInt64
    public let userName: EncodedString?
    public let connection: ConnectionID
    public let info: ConnectionInfo
    /// What DISCONNECT says or would say, from either side; nil where the network connection ended without it.
    public let reason: ReasonCode?
    /// Whether the client said goodbye itself.
    public let isByClient: Bool
    /// What the client has lost since its session is here.
    public let drops: DropCounts
    /// Milliseconds on the shard's clock.
    public let at: UInt64
}
