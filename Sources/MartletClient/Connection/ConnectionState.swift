/// How a client stands with its server.
public enum ConnectionState: Hashable, Sendable {
    /// Not begun, or disconnected on request.
    case offline
    /// A connection is being made: which attempt since the last success, from 1.
    case connecting(attempt: Int)
    /// The server has let us in.
    case online(ServerFacts)
    /// Nothing was reached; it is tried again in that many milliseconds, or when `reconnectNow()` is called.
    case waiting(milliseconds: UInt64, ClientError)
    /// The server, or the settings, make further attempts useless. `start()` and `connect()` begin anew.
    case refused(ClientError)
    /// The client is gone for good.
    case ended

    /// Whether messages flow.
    public var isOnline: Bool {
        if case .online = self { true } else { false }
    }
}

/// What a server said when it let the client in.
public struct ServerFacts: Hashable, Sendable {
    /// Which connection of the client this is, counted from 1.
    public var connectionNumber: UInt64
    /// Which of the settings' servers it is, or where it sent us.
    public var address: String
    public var version: ProtocolVersion
    /// Whether it had kept the session.
    public var isSessionPresent: Bool
    /// The identifier that it gave us, or the settings' own.
    public var clientIdentifier: String
    /// CONNACK's properties; none before MQTT 5.0.
    public var properties: Properties
}

extension ServerFacts: CustomStringConvertible {
    /// Where it is, and as whom it knows us.
    public var description: String { "\(address) as \(clientIdentifier)" }
}
