import MQTTCodec

/// A client that is to be: whom it connects as, and what it subscribes to.
struct ClientSpecification: Sendable {
    /// Its number among the publishers or among the subscribers.
    let index: Int
    /// nil for a publisher.
    let subscription: Subscription?
    let connect: ConnectPacket

    static func publisher(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: nil, connect: workload.connect("p", index, keepsSession: workload.options.keepsSessions))
    }

    static func subscriber(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: subscription(index, workload),
            connect: workload.connect("s", index, keepsSession: workload.options.keepsSessions))
    }

    /// One that subscribes and is gone before messages flow.
    static func away(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: subscription(index, workload), connect: workload.connect("a", index, keepsSession: true))
    }

    /// Whoever connects as this client ends its session: with the connection, if not before.
    var remover: ClientSpecification {
        var connect = connect
        connect.cleanStart = true  // [MQTT-3.1.2-4 v5]
        connect.properties.sessionExpiryInterval = nil
        return ClientSpecification(index: index, subscription: nil, connect: connect)
    }

    private static func subscription(_ index: Int, _ workload: Workload) -> Subscription {
        Subscription(
            filter: workload.filter(subscriber: index), options: SubscriptionOptions(maximumQoS: workload.subscriberQoS))
    }
}
