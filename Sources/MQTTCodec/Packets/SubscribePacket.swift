/// SUBSCRIBE: at least one subscription.
public struct SubscribePacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var properties: Properties
    public var subscriptions: [Subscription]

    public init(packetIdentifier: UInt16, properties: Properties = Properties(), subscriptions: [Subscription]) {
        self.packetIdentifier = packetIdentifier
        self.properties = properties
        self.subscriptions = subscriptions
    }
}
