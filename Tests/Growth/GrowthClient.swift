import BrokerModel
import MQTTCodec

/// A client of a `GrowthBroker`.
final class GrowthClient {
    private let broker: GrowthBroker
    let shard: Int
    let id: ConnectionID
    private var lastIdentifier: UInt16 = 0

    init(broker: GrowthBroker, shard: Int, id: ConnectionID) {
        (self.broker, self.shard, self.id) = (broker, shard, id)
    }

    func send(_ packet: ControlPacket) { broker.receive(packet.encoded(version: .v5), from: self) }

    func send(_ bytes: [UInt8]) { broker.receive(bytes, from: self) }

    func subscribe(_ filters: [String], identifier: UInt32? = nil) {
        var packet = SubscribePacket(packetIdentifier: nextIdentifier(), subscriptions: [])
        if let identifier { packet.properties.subscriptionIdentifiers = [identifier] }
        let options = SubscriptionOptions(maximumQoS: .exactlyOnce)
        packet.subscriptions = filters.compactMap { TopicFilter($0) }.map { Subscription(filter: $0, options: options) }
        send(.subscribe(packet))
    }

    func unsubscribe(_ filters: [String]) {
        send(.unsubscribe(UnsubscribePacket(packetIdentifier: nextIdentifier(), filters: filters.compactMap { TopicFilter($0) })))
    }

    func publish(_ topic: String, qos: QoS = .atMostOnce, retain: Bool = false, properties: Properties = Properties()) {
        let identifier = qos > .atMostOnce ? nextIdentifier() : nil
        send(
            .publish(
                PublishPacket(
                    topic: EncodedString(topic) ?? "", packetIdentifier: identifier, qos: qos, retain: retain,
                    properties: properties, payload: [1])))
        guard qos == .exactlyOnce, let identifier else { return }
        send(.acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: identifier)))
    }

    func close() { broker.close(self) }

    private func nextIdentifier() -> UInt16 {
        lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1
        return lastIdentifier
    }
}
