/// UNSUBACK: one code for each filter of the UNSUBSCRIBE; before MQTT 5.0 there are none on the wire.
public struct UnsubackPacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var reasonCodes: [ReasonCode]
    public var properties: Properties

    public init(packetIdentifier: UInt16, reasonCodes: [ReasonCode] = [], properties: Properties = Properties()) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}
