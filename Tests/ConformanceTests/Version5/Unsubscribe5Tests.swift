import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.10 and 3.11: UNSUBSCRIBE and UNSUBACK.
@Suite struct Unsubscribe5Tests {
    @Test(.statement("MQTT-3.10.4-1", .v5), .statement("MQTT-4.7.3-4", .v5), arguments: [1, 4])
    func `filters are compared character by character`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        let filters: [TopicFilter] = [
            "a/b", "a/+", "a/#", "A/b", "a/b/", "/a/b", "a//b", "é", "e\u{301}", "$share/g/a/b", "$share/h/a/b",
        ]
        for filter in filters { client.subscribe(filter) }
        for wrong: TopicFilter in ["a/B", "+/b", "#", "a", "a/", "$share/g/a/+", "$share/G/a/b"] {
            #expect(client.unsubscribe(wrong)?.reasonCodes == [.noSubscriptionExisted])
        }
        #expect(broker.statistics().subscriptions + broker.statistics().sharedSubscriptions == filters.count)
        for filter in filters {
            #expect(client.unsubscribe(filter)?.reasonCodes == [.success], "\(filter)")
            #expect(client.unsubscribe(filter)?.reasonCodes == [.noSubscriptionExisted], "\(filter)")
        }
        #expect(broker.statistics().subscriptions == 0)
        #expect(broker.statistics().sharedSubscriptions == 0)
    }

    @Test(.statement("MQTT-3.10.4-2", .v5), arguments: [1, 4], [QoS.atMostOnce, .exactlyOnce])
    func `after UNSUBACK no new message comes`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.subscribe("t")
        client.subscribe("t/#")
        let publisher = broker.connected("p")
        client.unsubscribe("t")
        publisher.publish("t", "still matched", qos: qos)
        client.unsubscribe("t/#")
        publisher.publish("t", "no longer", qos: qos)
        #expect(client.texts == ["still matched"])
    }

    @Test(.statement("MQTT-3.10.4-3", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `what was begun is delivered to the end, over a reconnect too`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a", expiry: 100) { _ in }
        client.subscribe("t")
        client.acknowledgement = .manual
        broker.connected("p").publish("t", "x", qos: qos)
        client.unsubscribe("t")
        client.lose()
        client.acknowledgement = .automatic
        client.connect(clean: false, expiry: 100)
        #expect(client.publishesOfConnection.map(\.duplicate) == [true])
        #expect(client.acknowledgements(.pubrel).count == (qos == .exactlyOnce ? 1 : 0))
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.10.4-4", .v5), .statement("MQTT-3.10.4-5", .v5), arguments: [1, 4])
    func `UNSUBACK comes with the identifier, also when there was nothing`(shards: Int) {
        let client = SimulatedBroker(shards: shards).connected("a")
        for identifier: UInt16 in [1, 77, 65_535] {
            client.send(.unsubscribe(UnsubscribePacket(packetIdentifier: identifier, filters: ["nothing"])))
            #expect(
                client.packets.last
                    == .unsuback(UnsubackPacket(packetIdentifier: identifier, reasonCodes: [.noSubscriptionExisted])))
        }
    }

    @Test(
        .statement("MQTT-3.10.4-6", .v5), .statement("MQTT-3.11.3-1", .v5), .statement("MQTT-3.11.3-2", .v5), arguments: [1, 4])
    func `several filters are answered one by one, in their order, in one UNSUBACK`(shards: Int) {
        let client = SimulatedBroker(shards: shards).connected("a")
        client.subscribe([Subscription(filter: "a"), Subscription(filter: "b/#"), Subscription(filter: "$share/g/c")])
        let answer = client.unsubscribe("x", "a", "a", "b/+", "b/#", "$share/g/c", "c")
        #expect(
            answer?.reasonCodes == [
                .noSubscriptionExisted, .success, .noSubscriptionExisted, .noSubscriptionExisted, .success, .success,
                .noSubscriptionExisted,
            ])
    }
}
