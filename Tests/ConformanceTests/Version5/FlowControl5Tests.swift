import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.3.4 and 4.9: Receive Maximum in both directions.
@Suite struct FlowControl5Tests {
    @Test(
        .statement("MQTT-3.3.4-9", .v5), .statement("MQTT-4.9.0-1", .v5), .statement("MQTT-4.9.0-2", .v5), arguments: [1, 4],
        [UInt16(1), 2, 20, 25])
    func `no more than the client's Receive Maximum are in flight to it`(shards: Int, maximum: UInt16) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 0 })
        let subscriber = broker.connected("s", expiry: 100) { $0.receiveMaximum = maximum }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("p")
        for number in 0..<40 { publisher.publish("t", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
        let count = Int(maximum)
        #expect(subscriber.publishes.count == count)
        // Each end of a flow makes room for one: PUBACK, PUBCOMP, PUBREC with an error; PUBREC does not.
        subscriber.acknowledge(.puback, subscriber.publishes[0].packetIdentifier ?? 0)
        #expect(subscriber.publishes.count == count + 1)
        subscriber.acknowledge(.pubrec, subscriber.publishes[1].packetIdentifier ?? 0)
        #expect(subscriber.publishes.count == count + 1)
        subscriber.acknowledge(.pubcomp, subscriber.publishes[1].packetIdentifier ?? 0)
        #expect(subscriber.publishes.count == count + 2)
        guard count > 2 else { return }
        subscriber.acknowledge(.pubrec, subscriber.publishes[3].packetIdentifier ?? 0, .quotaExceeded)
        #expect(subscriber.publishes.count == count + 3)
    }

    @Test(.statement("MQTT-3.3.4-10", .v5), .statement("MQTT-4.9.0-3", .v5), arguments: [1, 4])
    func `a full window holds nothing back but messages of QoS 1 and 2`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a") { $0.receiveMaximum = 1 }
        client.subscribe("t")
        client.acknowledgement = .manual
        let publisher = broker.connected("p")
        for _ in 0..<5 { publisher.publish("t", qos: .exactlyOnce) }
        #expect(client.publishes.count == 1)
        #expect(client.ping())
        #expect(client.subscribe("u")?.reasonCodes == [.grantedQoS2])
        #expect(client.unsubscribe("u")?.reasonCodes == [.success])
        #expect(client.publish("x", qos: .atLeastOnce) != nil)
        #expect(client.publish("x", qos: .exactlyOnce) != nil)
        #expect(client.unfinished == [])
        publisher.publish("t", "at once")
        #expect(client.texts.last == "at once")
        client.acknowledge(.pubrec, client.publishes[0].packetIdentifier ?? 0)
        #expect(client.acknowledgements(.pubrel).count == 1)
    }

    @Test(.statement("MQTT-3.3.4-10", .v5), .statement("MQTT-4.4.0-1", .v5), arguments: [1, 4])
    func `a smaller window after a reconnect does not hold PUBREL back`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: 100) { _ in }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("p")
        for number in 0..<8 { publisher.publish("t", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
        let sent = subscriber.publishes.compactMap(\.packetIdentifier)
        let released = [1, 3, 5, 7].map { sent[$0] }
        for identifier in released { subscriber.acknowledge(.pubrec, identifier) }
        for _ in 0..<2 {
            subscriber.lose()
            subscriber.connect(clean: false, expiry: 100, properties: .having { $0.receiveMaximum = 2 })
            #expect(subscriber.acknowledgements(.pubrel).map(\.packetIdentifier) == released)
            #expect(subscriber.publishesOfConnection.count <= 2)
        }
        for identifier in released { subscriber.acknowledge(.pubcomp, identifier) }
        for number in [0, 2, 4, 6] { subscriber.acknowledge(.puback, sent[number]) }
        let again = subscriber.publishesOfConnection
        #expect(again.map(\.packetIdentifier) == [0, 2, 4, 6].map { sent[$0] })
        #expect(again.allSatisfy { $0.duplicate })
        #expect(broker.statistics().storedMessages == 0)
    }

    /// Section 4.9: the send quota begins anew with each Network Connection, whatever is to be released from before.
    @Test(.statement("MQTT-3.3.4-7", .v5), arguments: [1, 4])
    func `what an earlier connection left to release does not count against Receive Maximum`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 5 })
        let client = broker.client("a")
        client.connect(expiry: 100)
        for _ in 0..<5 { client.publish("t", qos: .exactlyOnce, until: .answered) }
        client.lose()
        client.connect(clean: false, expiry: 100)
        for _ in 0..<5 { client.publish("t", qos: .exactlyOnce, until: .answered) }
        #expect(client.ending == .open)
        client.publish("t", qos: .exactlyOnce, until: .answered)
        #expect(client.ending == .closed(.receiveMaximumExceeded))
    }

    @Test(.statement("MQTT-3.3.4-7", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `one message more than the broker's Receive Maximum ends the connection with 0x93`(shards: Int, last: QoS) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 5 })
        let client = broker.connected("a")
        #expect(client.connack?.properties.receiveMaximum == 5)
        for _ in 0..<5 { client.publish("t", qos: .exactlyOnce, until: .answered) }
        client.publish("t", qos: .atMostOnce)
        // One that is sent again is not one more.
        client.send(.publish(PublishPacket(topic: "t", packetIdentifier: 1, qos: .exactlyOnce, duplicate: true)))
        #expect(client.ending == .open)
        client.release()
        for _ in 0..<5 { client.publish("t", qos: .exactlyOnce, until: .answered) }
        #expect(client.ending == .open)
        client.publish("t", qos: last, until: .answered)
        #expect(client.ending == .closed(.receiveMaximumExceeded))
    }
}
