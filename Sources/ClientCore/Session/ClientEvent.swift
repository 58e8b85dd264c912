public import MQTTCodec

/// What a client's owner is to know, in the order in which it came about.
public enum ClientEvent: Hashable, Sendable {
    /// The server let us in.
    indirect case connected(ConnackPacket)
    /// The server did not; it closes the connection.
    indirect case refused(ConnackPacket)
    /// A message came. One of QoS 1 or 2 has a token for `acknowledge`.
    case message(ReceivedMessage)
    /// The server has a message of QoS 2 (PUBREC); `published` is still to come.
    case received(PublishTicket)
    /// A message of QoS 1 or 2 has been taken over by the server, or refused with that reason.
    case published(PublishTicket, ReasonCode)
    /// A message of QoS 1 or 2 has waited for longer than its Message Expiry Interval: it is not sent.
    case expired(PublishTicket)
    indirect case subscribed(SubackPacket)
    indirect case unsubscribed(UnsubackPacket)
    /// The next step of an extended authentication is ours.
    indirect case authentication(AuthPacket)
    /// The server says goodbye; it closes the connection.
    indirect case disconnected(DisconnectPacket)
    /// The connection is of no more use: send what waits, then close it.
    case failed(ClientFailure)

    /// What lies where an event was.
    static var taken: ClientEvent { .received(PublishTicket(number: 0)) }
}
