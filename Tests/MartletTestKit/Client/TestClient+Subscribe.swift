public import MQTTCodec

/// Subscribing.
extension TestClient {
    /// Subscribes to one filter.
    ///
    /// - Returns: the broker's answer, nil if none came.
    @discardableResult
    public func subscribe(
        _ filter: TopicFilter, qos: QoS = .exactlyOnce, noLocal: Bool = false, retainAsPublished: Bool = false,
        retainHandling: RetainHandling = .sendAtSubscribe, identifier: UInt32? = nil
    ) -> SubackPacket? {
        let options = SubscriptionOptions(
            maximumQoS: qos, noLocal: noLocal, retainAsPublished: retainAsPublished, retainHandling: retainHandling)
        return subscribe([Subscription(filter: filter, options: options)], identifier: identifier)
    }

    /// Subscribes to filters with one SUBSCRIBE.
    @discardableResult
    public func subscribe(_ subscriptions: [Subscription], identifier: UInt32? = nil) -> SubackPacket? {
        let packetIdentifier = beginSubscribe(subscriptions, identifier: identifier)
        let before = packets.count
        broker.settle()
        for case .suback(let answer) in packets[before...] where answer.packetIdentifier == packetIdentifier { return answer }
        return nil
    }

    /// Sends a SUBSCRIBE and does not wait; returns its packet identifier.
    @discardableResult
    public func beginSubscribe(_ subscriptions: [Subscription], identifier: UInt32? = nil) -> UInt16 {
        var packet = SubscribePacket(packetIdentifier: unusedPacketIdentifier(), subscriptions: subscriptions)
        if let identifier { packet.properties.subscriptionIdentifiers = [identifier] }
        connection?.send(.subscribe(packet))
        return packet.packetIdentifier
    }

    /// Unsubscribes from filters with one UNSUBSCRIBE.
    ///
    /// - Returns: the broker's answer, nil if none came.
    @discardableResult
    public func unsubscribe(_ filters: TopicFilter...) -> UnsubackPacket? {
        let packet = UnsubscribePacket(packetIdentifier: unusedPacketIdentifier(), filters: filters)
        connection?.send(.unsubscribe(packet))
        let before = packets.count
        broker.settle()
        for case .unsuback(let answer) in packets[before...] where answer.packetIdentifier == packet.packetIdentifier {
            return answer
        }
        return nil
    }
}
