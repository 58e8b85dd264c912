/// SUBACK: one code for each subscription of the SUBSCRIBE; before MQTT 5.0 one of 0, 1, 2 and 0x80.
public struct SubackPacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var reasonCodes: [ReasonCode]
    public var properties: Properties

    public init(packetIdentifier: UInt16, reasonCodes: [ReasonCode], properties: Properties = Properties()) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}
