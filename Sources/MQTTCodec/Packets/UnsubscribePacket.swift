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
