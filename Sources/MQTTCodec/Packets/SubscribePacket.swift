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

/// One line of a SUBSCRIBE.
public struct Subscription: Hashable, Sendable {
    public var filter: TopicFilter
    public var options: SubscriptionOptions

    public init(filter: TopicFilter, options: SubscriptionOptions = SubscriptionOptions()) {
        self.filter = filter
        self.options = options
    }
}

/// When a subscription gets the retained messages that match it.
public enum RetainHandling: UInt8, Sendable {
    case sendAtSubscribe = 0
    case sendIfNewSubscription = 1
    case doNotSend = 2
}

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
