/// How a client stands with its server.
public enum ConnectionState: Hashable, Sendable {
    /// Not begun, or disconnected on request.
    case offline
    /// A connection is being made: which attempt since the last success, from 1.
    case connecting(attempt: Int)
    /// The server has let us in.
    case online(ServerFacts)
    /// Nothing was reached, and why; it is tried again after that time, or when `reconnectNow()` is called.
    case waiting(Duration, ClientError)
    /// The server, or the settings, make further attempts useless. `start()` and `connect()` begin anew.
    case refused(ClientError)
    /// The client is gone for good.
    case ended

    /// Whether messages flow.
    public var isOnline: Bool {
        if case .online = self { true } else { false }
    }

    /// The filters of subscriptions whose consumers take less than comes, while it is online: their backlog has been full for five seconds, or for
    /// as long they have not acknowledged a message of QoS 1 or 2 behind which nine or more stand. Messages of QoS 0 beyond the backlog are
    /// dropped; messages of QoS 1 and 2, also those of other subscriptions, may wait at the server. None in the usual case.
    public var heldBy: [TopicFilter] {
        if case .online(let facts) = self { facts.heldBy } else { [] }
    }
}

/// What a server said when it let the client in, and how the connection stands.
public struct ServerFacts: Hashable, Sendable {
    /// Which connection of the client this is, counted from 1.
    public var connectionNumber: UInt64
    /// Which of the settings' servers it is, or where it sent us.
    public var address: String
    /// The version of MQTT that is spoken.
    public var version: ProtocolVersion
    /// Whether it had kept the session.
    public var isSessionPresent: Bool
    /// The identifier that it gave us, or the settings' own.
    public var clientIdentifier: String
    /// CONNACK's properties; none before MQTT 5.0.
    public var properties: Properties
    /// As ``ConnectionState/heldBy``.
    public var heldBy: [TopicFilter] = []
}

extension ServerFacts: CustomStringConvertible {
    /// Where it is, as whom it knows us, and what holds the client.
    public var description: String {
        let holding = heldBy.isEmpty ? "" : ", held by \(heldBy.map(\.description).joined(separator: " "))"
        return "\(address) as \(clientIdentifier)\(holding)"
    }
}
