import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// The flows of QoS 0, 1 and 2 in both directions.
@Suite struct DeliveryTests {
    @Test(arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `the lower of the two QoS is delivered`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher", version: version)
        let qualities: [QoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]
        for granted in qualities {
            let subscriber = broker.connected("subscriber", version: version)
            subscriber.subscribe("t", qos: granted)
            for qos in qualities { publisher.publish("t", "x", qos: qos) }
            #expect(subscriber.messages.map(\.qos) == qualities.map { min($0, granted) })
        }
    }

    @Test(.statement("MQTT-4.6.0-5", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `messages keep their order`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t/#")
        let publisher = broker.connected("publisher", version: .v311)
        for number in 0..<200 { publisher.publish("t/\(number % 3)", "\(number)", qos: qos, until: .sent) }
        broker.settle()
        #expect(subscriber.texts == (0..<200).map(String.init))
        #expect(publisher.unfinished == [])
    }

    @Test(arguments: [1, 4]) func `packets may be cut anywhere`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("subscriber")
        subscriber.connect {
            $0.delivery = .byteByByte
            $0.flushBytesMax = 1
        }
        subscriber.subscribe("t")
        let publisher = broker.client("publisher")
        publisher.connect { $0.delivery = .byteByByte }
        for number in 0..<10 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        #expect(subscriber.texts == (0..<10).map(String.init))
    }

    @Test(arguments: [1, 4]) func `packets may come with CONNECT and before CONNACK`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        for name: EncodedString in ["p1", "p2", "p3", "p4", "p5"] {
            let connection = broker.open()
            connection.send(.connect(ConnectPacket(clientIdentifier: name)))
            connection.send(.publish(PublishPacket(topic: "t", payload: Array(name.bytes))))
            broker.settle()
        }
        #expect(subscriber.texts == ["p1", "p2", "p3", "p4", "p5"])
    }

    @Test(.statement("MQTT-4.3.2-5", .v5), arguments: [1, 4])
    func `each QoS 1 PUBLISH of a client is a new message once its identifier was acknowledged`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher")
        let packet = PublishPacket(topic: "t", packetIdentifier: 7, qos: .atLeastOnce, payload: [1])
        publisher.send(.publish(packet))
        publisher.send(.publish(packet))
        #expect(subscriber.messages.count == 2)
        #expect(publisher.acknowledgements(.puback).map(\.packetIdentifier) == [7, 7])
    }

    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `a repeated QoS 2 PUBLISH is not delivered twice until PUBREL`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher", version: version)
        var packet = PublishPacket(topic: "t", packetIdentifier: 7, qos: .exactlyOnce, payload: [1])
        publisher.send(.publish(packet))
        packet.duplicate = true
        publisher.send(.publish(packet))
        #expect(subscriber.messages.count == 1)
        #expect(publisher.acknowledgements(.pubrec).count == 2)
        publisher.acknowledge(.pubrel, 7)
        #expect(publisher.acknowledgements(.pubcomp).map(\.reasonCode) == [.success])
        packet.duplicate = false
        publisher.send(.publish(packet))
        #expect(subscriber.messages.count == 2)
    }

    @Test(.statement("MQTT-4.3.3-11", .v5), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `an unknown PUBREL is answered with PUBCOMP`(shards: Int, version: ProtocolVersion) {
        let client = SimulatedBroker(shards: shards).connected("a", version: version)
        client.acknowledge(.pubrel, 99)
        #expect(client.acknowledgements(.pubcomp).map(\.packetIdentifier) == [99])
        #expect(client.acknowledgements(.pubcomp).map(\.reasonCode) == [version == .v5 ? .packetIdentifierNotFound : .success])
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `an unknown PUBREC is answered with PUBREL, unknown PUBACK and PUBCOMP with nothing`(shards: Int, version: ProtocolVersion)
    {
        let client = SimulatedBroker(shards: shards).connected("a", version: version)
        client.acknowledge(.pubrec, 99)
        #expect(client.acknowledgements(.pubrel).map(\.reasonCode) == [version == .v5 ? .packetIdentifierNotFound : .success])
        let count = client.packets.count
        client.acknowledge(.puback, 98)
        client.acknowledge(.pubcomp, 97)
        #expect(client.packets.count == count)
        #expect(client.ping())
    }

    @Test(.statement("MQTT-2.2.1-4", .v5), arguments: [1, 4])
    func `packet identifiers are reused only when their flow has ended`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 0 })
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher", version: .v311)
        // One message stays in flight while the identifiers go round.
        subscriber.acknowledgement = .manual
        publisher.publish("t", "kept", qos: .atLeastOnce)
        let kept = subscriber.messages[0].packetIdentifier
        subscriber.acknowledgement = .automatic
        for _ in 0..<660 {
            for _ in 0..<100 { publisher.publish("t", qos: .atLeastOnce, until: .sent) }
            broker.settle()
        }
        let identifiers = subscriber.publishes.compactMap(\.packetIdentifier)
        #expect(identifiers.count == 66_001)
        #expect(!identifiers.dropFirst().contains { $0 == kept || $0 == 0 })
    }

    @Test(arguments: [1, 4]) func `acknowledgements may come in any order`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("publisher")
        var random = SeededGenerator(seed: 5)
        for number in 0..<300 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        var texts: [String] = []
        var open: [UInt16] = []
        repeat {
            let messages = subscriber.takeMessages()
            texts += messages.map(\.text)
            open += messages.compactMap(\.packetIdentifier)
            if let position = open.indices.randomElement(using: &random) {
                subscriber.acknowledge(.puback, open.remove(at: position))
            }
        } while !open.isEmpty
        #expect(texts == (0..<300).map(String.init))
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-4.3.3-4", .v5), arguments: [1, 4])
    func `a PUBREC with an error ends the flow`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        broker.connected("publisher").publish("t", qos: .exactlyOnce)
        subscriber.acknowledge(.pubrec, subscriber.publishes[0].packetIdentifier ?? 0, .quotaExceeded)
        #expect(subscriber.acknowledgements(.pubrel).isEmpty)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.3.1-3", .v5), arguments: [1, 4])
    func `DUP does not travel from publisher to subscriber`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher")
        publisher.send(.publish(PublishPacket(topic: "t", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true)))
        #expect(subscriber.messages.map(\.duplicate) == [false])
    }

    @Test(arguments: [1, 4]) func `PUBACK says when nobody subscribes`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
        #expect(publisher.publish("t", qos: .exactlyOnce)?.reasonCode == .success, "PUBREC never says so")
        broker.connected("subscriber").subscribe("t")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .success)
    }

    @Test(.statement("MQTT-3.3.2-17", .v5), .statement("MQTT-3.3.2-18", .v5), arguments: [1, 4])
    func `properties travel unaltered and in order`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        var properties = Properties()
        properties.payloadFormatIndicator = 1
        properties.contentType = "text/plain"
        properties.responseTopic = "answers"
        properties.correlationData = [1, 2, 3]
        properties.userProperties = [
            UserProperty(name: "b", value: "1"), UserProperty(name: "a", value: "2"), UserProperty(name: "b", value: "1"),
        ]
        let publisher = broker.connected("publisher")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] { publisher.publish("t", "x", qos: qos, properties: properties) }
        #expect(subscriber.messages.map(\.properties) == [properties, properties, properties])
    }
}
