public import MQTTCodec

/// A message as a `TestClient` got it. Of a QoS 2 message that came twice, the first.
public struct ReceivedMessage: Sendable {
    /// The topic, also where an alias stood for it.
    public let topic: String
    public let payload: [UInt8]
    public let qos: QoS
    public let retain: Bool
    public let duplicate: Bool
    public let packetIdentifier: UInt16?
    public let properties: Properties

    /// The payload as text.
    public var text: String { String(decoding: payload, as: UTF8.self) }
}
