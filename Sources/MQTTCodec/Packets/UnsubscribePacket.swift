/// UNSUBSCRIBE: at least one filter.
public struct UnsubscribePacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var properties: Properties
    public var filters: [TopicFilter]

    public init(packetIdentifier: UInt16, properties: Properties = Properties(), filters: [TopicFilter]) {
        self.packetIdentifier = packetIdentifier
        self.properties = properties
        self.filters = filters
    }
}

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
