import ClientCore
import MQTTCodec

/// A client that is to be: whom it connects as, and what it subscribes to.
struct ClientSpecification: Sendable {
    /// Its number among the publishers or among the subscribers.
    let index: Int
    /// nil for a publisher.
    let subscription: Subscription?
    let connect: ConnectPacket

    static func publisher(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(index: index, subscription: nil, connect: workload.connect("p", index))
    }

    static func subscriber(_ index: Int, _ workload: Workload) -> ClientSpecification {
        let options = SubscriptionOptions(maximumQoS: workload.subscriberQoS)
        return ClientSpecification(
            index: index, subscription: Subscription(filter: workload.filter(subscriber: index), options: options),
            connect: workload.connect("s", index))
    }
}
