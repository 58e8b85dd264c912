public import MQTTCodec

/// A client whose session mosquitto kept.
public struct MosquittoClient: Equatable, Sendable {
    public var identifier: EncodedString
    /// Seconds that the session outlives its connection; `UInt32.max` for ever, which it is for every client before MQTT 5.0.
    public var sessionExpiryInterval: UInt32
    /// When the session ends, in seconds since 1970; nil for never, and while the client is connected.
    public var sessionEndsAt: UInt64?
    /// The packet identifier that the broker gave out last.
    public var lastPacketIdentifier: UInt16
    /// Nil for none, and where the file does not tell; `MosquittoDatabase` knows why that happens.
    public var userName: EncodedString?
    /// The port of the listener that the client came through; 0 for unknown.
    public var listenerPort: UInt16
}
