import MQTTCodec

/// A message of QoS 1 or 2 that a `TestClient` publishes, and how far it has come.
struct OutgoingMessage {
    var packet: PublishPacket
    let packetIdentifier: UInt16
    /// Whether PUBREC came, so that only PUBREL is to be sent.
    var isReceived = false
}
