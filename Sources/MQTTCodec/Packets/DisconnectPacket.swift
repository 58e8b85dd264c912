/// DISCONNECT: the last packet of a connection, with a reason in MQTT 5.0.
public struct DisconnectPacket: Hashable, Sendable {
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(reasonCode: ReasonCode = .normalDisconnection, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
