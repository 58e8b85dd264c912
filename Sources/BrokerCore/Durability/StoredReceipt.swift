/// A QoS 2 message that a session sent and has not released: the key says it; the body holds what share groups have chosen
/// for it, if they have. [MQTT-4.3.3-10 v5]
public struct StoredReceipt: Equatable, Sendable {
    /// The session's key.
    public var session: UInt64
    public var packetIdentifier: UInt16

    public init(session: UInt64, packetIdentifier: UInt16) {
        self.session = session
        self.packetIdentifier = packetIdentifier
    }

    /// Reads a row's key; nil if no identifier is in it.
    public init?(key: UInt64) {
        self.init(session: key >> 16, packetIdentifier: UInt16(truncatingIfNeeded: key))
        if packetIdentifier == 0 { return nil }
    }

    public var key: UInt64 { session << 16 | UInt64(packetIdentifier) }
}
