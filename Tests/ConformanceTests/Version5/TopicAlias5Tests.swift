import BrokerCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Section 3.3.2.3.4: Topic Aliases in both directions.
@Suite struct TopicAlias5Tests {
    @Test(
        .statement("MQTT-3.1.2-26", .v5), .statement("MQTT-3.3.2-11", .v5), arguments: [1, 4], [UInt16(1), 2, 5, 10, 11, 65_535])
    func `the broker's aliases stay within the client's maximum and always mean the right topic`(shards: Int, maximum: UInt16) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s") { $0.topicAliasMaximum = maximum }
        subscriber.subscribe("topic/#")
        let publisher = broker.connected("p")
        var sent: [String] = []
        var random = SeededGenerator(seed: UInt64(maximum))
        for _ in 0..<300 {
            let topic = "topic/\(Int.random(in: 0..<15, using: &random))"
            sent.append(topic)
            publisher.publish(EncodedString(topic) ?? "", qos: .atMostOnce)
        }
        #expect(subscriber.messages.map(\.topic) == sent)
        let aliases = subscriber.publishes.compactMap(\.properties.topicAlias)
        #expect(aliases.allSatisfy { $0 >= 1 && $0 <= min(maximum, 10) })
        #expect(subscriber.publishes.contains { $0.topic.isEmpty })
    }

    @Test(.statement("MQTT-3.1.2-27", .v5), arguments: [1, 4], [nil, 0] as [UInt16?])
    func `a client that allows no alias gets none`(shards: Int, maximum: UInt16?) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s") { $0.topicAliasMaximum = maximum }
        subscriber.subscribe("#")
        let publisher = broker.connected("p")
        // Not the publisher's own either.
        for _ in 0..<10 { publisher.publish("a/long/topic", properties: .having { $0.topicAlias = 1 }) }
        #expect(subscriber.publishes.count == 10)
        #expect(subscriber.publishes.allSatisfy { $0.properties.topicAlias == nil && !$0.topic.isEmpty })
    }

    @Test(.statement("MQTT-3.3.2-7", .v5), arguments: [1, 4])
    func `aliases end with their connection, in both directions`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: 100) { $0.topicAliasMaximum = 5 }
        subscriber.subscribe("#")
        let publisher = broker.connected("p", expiry: 100) { _ in }
        publisher.publish("a/long/topic", properties: .having { $0.topicAlias = 1 })
        publisher.publish("", properties: .having { $0.topicAlias = 1 })
        #expect(subscriber.publishes.map(\.topic) == ["a/long/topic", ""])
        subscriber.connect(clean: false, properties: .having { $0.topicAliasMaximum = 5 })
        publisher.publish("", properties: .having { $0.topicAlias = 1 })
        #expect(subscriber.publishesOfConnection.map(\.topic) == ["a/long/topic"])
        publisher.connect(clean: false)
        publisher.publish("", properties: .having { $0.topicAlias = 1 })
        #expect(publisher.ending == .closed(.protocolError))
    }

    @Test(.statement("MQTT-3.3.2-8", .v5)) func `alias 0 ends the connection with 0x94`() {
        let broker = SimulatedBroker()
        let packet = RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x23, 0, 0]))
        #expect(broker.ending(after: packet) == .closed(.topicAliasInvalid))
        // Nor does the broker send one.
        let subscriber = broker.connected("s") { $0.topicAliasMaximum = 2 }
        subscriber.subscribe("#")
        let publisher = broker.connected("p")
        for number in 0..<20 { publisher.publish("topic/\(number % 3)") }
        #expect(!subscriber.publishes.contains { $0.properties.topicAlias == 0 })
    }

    @Test(.statement("MQTT-3.3.2-12", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `every alias within the broker's maximum is accepted, and may be set anew`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("#")
        let publisher = broker.connected("p")
        let maximum = publisher.connack?.properties.topicAliasMaximum ?? 0
        #expect(maximum == 10)
        for round in 0..<2 {
            for alias in stride(from: maximum, through: 1, by: -1) {
                publisher.publish("t/\(round)/\(alias)", qos: qos, properties: .having { $0.topicAlias = alias })
            }
            for alias in 1...maximum { publisher.publish("", qos: qos, properties: .having { $0.topicAlias = alias }) }
            let expected = (1...maximum).reversed().map { "t/\(round)/\($0)" } + (1...maximum).map { "t/\(round)/\($0)" }
            #expect(subscriber.takeMessages().map(\.topic) == expected)
        }
    }
}
