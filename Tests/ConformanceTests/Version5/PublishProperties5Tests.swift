import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.3.2.3: the properties of PUBLISH, which travel with the message or end on the way.
@Suite struct PublishProperties5Tests {
    private static let all = Properties.having {
        $0.payloadFormatIndicator = 1
        $0.contentType = "text/plain; charset=utf-8"
        $0.responseTopic = "answers/1"
        $0.correlationData = [0, 1, 0xFF]
        $0.userProperties = [
            UserProperty(name: "b", value: "1"), UserProperty(name: "a", value: "2"), UserProperty(name: "b", value: "1"),
            UserProperty(name: "", value: ""), UserProperty(name: "ü", value: "\u{FEFF}"),
        ]
    }

    @Test(
        .statement("MQTT-3.3.2-4", .v5), .statement("MQTT-3.3.2-15", .v5), .statement("MQTT-3.3.2-16", .v5),
        .statement("MQTT-3.3.2-17", .v5), .statement("MQTT-3.3.2-18", .v5), .statement("MQTT-3.3.2-20", .v5),
        arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `all that belongs to a message reaches every subscriber unaltered`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        var subscribers = (0..<5).map { broker.connected("s\($0)") }
        subscribers.append(broker.connected("aliased") { $0.topicAliasMaximum = 5 })
        for subscriber in subscribers { subscriber.subscribe("topic") }
        let publisher = broker.connected("p")
        for properties in [Self.all, Self.all.with { $0.payloadFormatIndicator = 0 }, Properties()] {
            // An alias and an expiry of its own do not disturb the rest.
            for own in [properties, properties.with { $0.topicAlias = 3 }] {
                publisher.publish("topic", "x", qos: qos, properties: own)
                for subscriber in subscribers {
                    let received = subscriber.takeMessages().map { $0.properties.with { $0.topicAlias = nil } }
                    #expect(received == [properties])
                }
            }
        }
    }

    @Test(.statement("MQTT-3.3.2-17", .v5), arguments: [1, 4])
    func `what waited keeps its properties`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: 100) { _ in }
        subscriber.subscribe("t")
        subscriber.lose()
        broker.connected("p").publish("t", "x", qos: .atLeastOnce, properties: Self.all.with { $0.messageExpiryInterval = 50 })
        broker.advance(seconds: 7)
        subscriber.connect(clean: false)
        #expect(subscriber.messages.map(\.properties) == [Self.all.with { $0.messageExpiryInterval = 43 }])
    }

    @Test(.statement("MQTT-3.3.2-5", .v5), .statement("MQTT-3.3.2-6", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `a message's life counts down to the second while it waits, and ends in time`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        for (waited, left): (UInt64, UInt32?) in [(0, 10), (1_000, 9), (5_500, 5), (9_900, 1), (10_000, nil), (11_000, nil)] {
            let subscriber = broker.connected("s", expiry: 1000) { _ in }
            subscriber.subscribe("t")
            subscriber.lose()
            publisher.publish("t", "x", qos: qos, properties: .having { $0.messageExpiryInterval = 10 })
            broker.advance(milliseconds: waited)
            subscriber.connect(clean: false)
            #expect(subscriber.messages.map(\.properties.messageExpiryInterval) == (left.map { [$0] } ?? []), "\(waited)")
            subscriber.disconnect(expiry: 0)
        }
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.3.2-6", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce])
    func `a message that does not wait keeps the interval it came with`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscribers = (0..<3).map { broker.connected("s\($0)") }
        for subscriber in subscribers { subscriber.subscribe("t") }
        let publisher = broker.connected("p")
        for interval in [UInt32(1), 0xFFFF_FFFF] {
            publisher.publish("t", qos: qos, properties: .having { $0.messageExpiryInterval = interval })
            for subscriber in subscribers {
                #expect(subscriber.takeMessages().map(\.properties.messageExpiryInterval) == [interval])
            }
        }
    }

    @Test(.statement("MQTT-3.3.2-5", .v5), .statement("MQTT-3.3.2-6", .v5), arguments: [1, 4])
    func `a retained message grows old too`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        broker.connected("p").publish("r/t", "x", retain: true, properties: .having { $0.messageExpiryInterval = 10 })
        broker.advance(seconds: 4)
        for filter: TopicFilter in ["r/t", "r/#"] {
            let subscriber = broker.connected("s")
            subscriber.subscribe(filter)
            #expect(subscriber.messages.map(\.properties.messageExpiryInterval) == [6])
        }
        broker.advance(seconds: 6)
        for filter: TopicFilter in ["r/t", "r/#"] {
            let subscriber = broker.connected("s")
            subscriber.subscribe(filter)
            #expect(subscriber.messages.isEmpty)
        }
    }

    @Test(.statement("MQTT-3.3.2-5", .v5), arguments: [1, 4])
    func `a message that waits for room in the window expires there`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s") { $0.receiveMaximum = 1 }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("p")
        publisher.publish("t", "first", qos: .atLeastOnce, properties: .having { $0.messageExpiryInterval = 10 })
        publisher.publish("t", "short", qos: .atLeastOnce, properties: .having { $0.messageExpiryInterval = 10 })
        publisher.publish("t", "long", qos: .atLeastOnce, properties: .having { $0.messageExpiryInterval = 20 })
        broker.advance(seconds: 15)
        subscriber.acknowledge(.puback, subscriber.publishes[0].packetIdentifier ?? 0)
        #expect(subscriber.texts == ["first", "long"])
        #expect(subscriber.messages.map(\.properties.messageExpiryInterval) == [10, 5])
    }

    @Test(.statement("MQTT-3.3.2-14", .v5), arguments: ["#", "+", "a/#", "a/+/b", "a+"])
    func `a Response Topic with a wildcard is a protocol error`(topic: String) {
        let packet = RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x08] + RawPacket.text(topic)))
        #expect(SimulatedBroker().ending(after: packet) == .closed(.protocolError))
    }

    @Test func `a payload marked as text is checked when the operator asks for it`() {
        let text = Properties.having { $0.payloadFormatIndicator = 1 }
        for checks in [false, true] {
            let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.validatesPayloadFormat = checks })
            let subscriber = broker.connected("s")
            subscriber.subscribe("t")
            let publisher = broker.connected("p")
            let reason: ReasonCode = checks ? .payloadFormatInvalid : .success
            #expect(publisher.publish("t", bytes: [0xFF], qos: .atLeastOnce, properties: text)?.reasonCode == reason)
            #expect(publisher.publish("t", bytes: [0xFF], qos: .exactlyOnce, properties: text)?.reasonCode == reason)
            publisher.publish("t", bytes: [0xFF], properties: text)
            #expect(subscriber.takeMessages().count == (checks ? 0 : 3))
            #expect(publisher.publish("t", "ü", qos: .exactlyOnce, properties: text)?.reasonCode == .success)
            #expect(publisher.publish("t", bytes: [0xFF], qos: .exactlyOnce)?.reasonCode == .success)
            #expect(subscriber.messages.count == 2)
            #expect(publisher.unfinished == [])
        }
    }
}
