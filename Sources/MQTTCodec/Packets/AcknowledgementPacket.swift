/// PUBACK, PUBREC, PUBREL or PUBCOMP: the steps of QoS 1 and 2.
public struct AcknowledgementPacket: Hashable, Sendable {
    /// One of puback, pubrec, pubrel, pubcomp.
    public var type: PacketType
    public var packetIdentifier: UInt16
    /// Success before MQTT 5.0.
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(
        type: PacketType, packetIdentifier: UInt16, reasonCode: ReasonCode = .success, properties: Properties = Properties()
    ) {
        self.type = type
        self.packetIdentifier = packetIdentifier
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
