/// How far a message of the outbox has come. It only goes forward.
public enum DeliveryStatus: Hashable, Sendable {
    /// It waits behind about so many others.
    case queued(ahead: Int)
    /// It is on its way to the server.
    case sent
    /// The server has a message of QoS 2 (PUBREC), and lets it pass once.
    case received
    /// The server has taken it over; at QoS 0: it was handed to the connection.
    case acknowledged
    /// It does not arrive: why.
    case failed(ClientError)
    /// It was too old before it could be sent.
    case expired

    /// Whether nothing follows.
    public var isFinal: Bool { rank == 3 }

    var rank: Int {
        switch self {
        case .queued: 0
        case .sent: 1
        case .received: 2
        case .acknowledged, .failed, .expired: 3
        }
    }
}
