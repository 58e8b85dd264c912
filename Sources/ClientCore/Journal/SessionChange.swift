public import MQTTCodec

/// What changed in a session that a client needs to know after a crash.
///
/// The shell stores the changes, in this order, before the output that was made up to then leaves: then whatever the server has seen is known
/// after a crash as well. They name messages by their tickets.
public enum SessionChange: Hashable, Sendable {
    /// A message of QoS 1 or 2 has a packet identifier, and is sent. A ticket comes again when the server had forgotten the session.
    case sent(PublishTicket, packetIdentifier: UInt16, Publication)
    /// The server has a message of QoS 2 (PUBREC): it is not sent again, only released (PUBREL).
    case released(PublishTicket)
    /// A message has ended, as the `published` event says.
    case done(PublishTicket, ReasonCode)
    /// A message of QoS 2 of the server's is taken over; what its owner keeps of it is to be stored together with this.
    case received(packetIdentifier: UInt16)
    /// The server has released it (PUBREL): under that identifier a new message may come.
    case forgotten(packetIdentifier: UInt16)
    /// The server has forgotten the session: what it did not have waits to be sent as new.
    case startedOver
}
