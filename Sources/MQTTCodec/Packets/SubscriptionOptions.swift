/// How a subscription wants its messages. Before MQTT 5.0 there is only the QoS.
public struct SubscriptionOptions: Hashable, Sendable {
    public var maximumQoS: QoS
    public var noLocal: Bool
    public var retainAsPublished: Bool
    public var retainHandling: RetainHandling

    public init(
        maximumQoS: QoS = .atMostOnce, noLocal: Bool = false, retainAsPublished: Bool = false,
        retainHandling: RetainHandling = .sendAtSubscribe
    ) {
        self.maximumQoS = maximumQoS
        self.noLocal = noLocal
        self.retainAsPublished = retainAsPublished
        self.retainHandling = retainHandling
    }
}
