import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.3: PUBLISH, its flags, its topic, and to whom it goes.
@Suite struct Publish5Tests {
    @Test(.statement("MQTT-3.3.1-1", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `DUP is set when a message is sent again, and only then`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: 100) { _ in }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("p")
        publisher.publish("t", "1", qos: qos)
        #expect(subscriber.publishesOfConnection.map(\.duplicate) == [false])
        for _ in 0..<2 {
            subscriber.lose()
            subscriber.connect(clean: false, expiry: 100)
            #expect(subscriber.publishesOfConnection.map(\.duplicate) == [true])
        }
    }

    @Test(.statement("MQTT-3.3.1-2", .v5), .statement("MQTT-4.3.1-1", .v5), arguments: [1, 4])
    func `a QoS 0 message has no DUP on either side`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        #expect(broker.ending(after: RawPacket.packet(0x38, RawPacket.text("t"), [0])) == .closed(.malformedPacket))
        let subscriber = broker.connected("s")
        subscriber.subscribe("t", qos: .atMostOnce)
        let publisher = broker.connected("p")
        // Published again at a higher QoS, delivered at QoS 0.
        publisher.send(.publish(PublishPacket(topic: "t", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true)))
        publisher.publish("t")
        #expect(subscriber.publishes.map(\.duplicate) == [false, false])
        #expect(subscriber.publishes.map(\.qos) == [.atMostOnce, .atMostOnce])
    }

    @Test(.statement("MQTT-3.3.1-3", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `DUP does not travel on`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("t")
        let publisher = broker.connected("p")
        publisher.send(.publish(PublishPacket(topic: "t", packetIdentifier: 1, qos: qos, duplicate: true)))
        #expect(subscriber.publishes.map(\.duplicate) == [false])
    }

    @Test(.statement("MQTT-3.3.1-4", .v5), arguments: [0x36, 0x37, 0x3E, 0x3F] as [UInt8])
    func `QoS 3 is malformed`(first: UInt8) {
        let packet = RawPacket.packet(first, RawPacket.text("t"), [0, 1, 0])
        #expect(SimulatedBroker().ending(after: packet) == .closed(.malformedPacket))
    }

    @Test(
        .statement("MQTT-3.3.2-2", .v5), .statement("MQTT-4.7.0-1", .v5), .statement("MQTT-4.13.1-1", .v5),
        arguments: ["#", "+", "a/#", "a/+/b", "a+", "#a", "a#b"])
    func `a topic name with a wildcard ends the connection with 0x90`(topic: String) {
        let broker = SimulatedBroker()
        #expect(broker.ending(after: RawPacket.packet(0x30, RawPacket.text(topic), [0])) == .closed(.topicNameInvalid))
        let will = [0] + RawPacket.text(topic) + RawPacket.text("x")
        #expect(broker.ending(afterFirst: RawPacket.connect(flags: 0x06, payload: will)) == .closed(.topicNameInvalid))
    }

    @Test(.statement("MQTT-3.3.2-3", .v5), arguments: [1, 4])
    func `messages come with the topic that they were published to, and match the filter`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("a/+/c/#")
        let publisher = broker.connected("p")
        let topics: [EncodedString] = ["a/b/c", "a//c", "a/b/c/d/e", "a/b", "b/b/c", "a/b/C", "/a/b/c", "a/b/c/"]
        for qos in [QoS.atMostOnce, .exactlyOnce] {
            for topic in topics { publisher.publish(topic, qos: qos) }
            #expect(subscriber.takeMessages().map(\.topic) == ["a/b/c", "a//c", "a/b/c/d/e", "a/b/c/"])
        }
    }

    @Test(.statement("MQTT-3.3.4-1", .v5), arguments: [1, 4])
    func `the answer is the one that the QoS asks for`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.publish("t", qos: .atMostOnce)
        #expect(client.packets.count == 1)
        #expect(client.publish("t", qos: .atLeastOnce)?.type == .puback)
        #expect(client.publish("t", qos: .exactlyOnce, until: .answered)?.type == .pubrec)
    }

    @Test(.statement("MQTT-3.3.4-2", .v5), .statement("MQTT-3.8.4-8", .v5), arguments: [1, 4])
    func `of overlapping subscriptions the highest QoS counts, up to that of the message`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let all: [QoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]
        let publisher = broker.connected("p")
        for first in all {
            for second in all {
                let subscriber = broker.connected("s")
                subscriber.subscribe("t/#", qos: first)
                subscriber.subscribe("t/+", qos: second)
                for qos in all { publisher.publish("t/x", qos: qos) }
                #expect(subscriber.messages.map(\.qos) == all.map { min($0, max(first, second)) })
            }
        }
    }

    @Test(.statement("MQTT-3.3.4-3", .v5), .statement("MQTT-3.3.4-4", .v5), arguments: [1, 4], [QoS.atMostOnce, .exactlyOnce])
    func `one message carries the identifiers of all subscriptions that match`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("t/#", identifier: 1)
        subscriber.subscribe("t/+", identifier: 268_435_455)
        subscriber.subscribe("t/x", identifier: 200)
        subscriber.subscribe("t/x/#")
        subscriber.subscribe("#", identifier: 1)
        let publisher = broker.connected("p")
        for topic: EncodedString in ["t/x", "t/y", "other"] { publisher.publish(topic, qos: qos) }
        #expect(subscriber.messages.count == 3)
        let identifiers = subscriber.messages.map { Set($0.properties.subscriptionIdentifiers) }
        #expect(identifiers == [[1, 200, 268_435_455], [1, 268_435_455], [1]])
        subscriber.subscribe("t/x")
        publisher.publish("t/x", qos: qos)
        #expect(Set(subscriber.messages[3].properties.subscriptionIdentifiers) == [1, 268_435_455])
    }

    @Test(.statement("MQTT-3.3.4-3", .v5), arguments: [1, 4])
    func `messages that waited and retained ones carry the identifiers too`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        publisher.publish("t", "retained", qos: .atLeastOnce, retain: true)
        let subscriber = broker.connected("s", expiry: 100) { _ in }
        subscriber.subscribe("t", identifier: 9)
        subscriber.lose()
        publisher.publish("t", "queued", qos: .atLeastOnce)
        subscriber.connect(clean: false, expiry: 100)
        #expect(subscriber.texts == ["retained", "queued"])
        #expect(subscriber.messages.map(\.properties.subscriptionIdentifiers) == [[9], [9]])
    }

    @Test(.statement("MQTT-3.3.4-5", .v5), arguments: [1, 4])
    func `copies for a shared subscription carry its own identifier`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("t", identifier: 1)
        subscriber.subscribe("$share/g/t", identifier: 2)
        subscriber.subscribe("$share/h/t")
        broker.connected("p").publish("t")
        let identifiers = subscriber.messages.map(\.properties.subscriptionIdentifiers)
        #expect(identifiers.sorted { $0.first ?? 0 < $1.first ?? 0 } == [[], [1], [2]])
    }

    @Test(.statement("MQTT-3.3.4-6", .v5)) func `a client's message with a Subscription Identifier is a protocol error`() {
        let packet = RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x0B, 1]))
        #expect(SimulatedBroker().ending(after: packet) == .closed(.protocolError))
    }

    @Test(arguments: [1, 4]) func `PUBACK says when nobody subscribes`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
        let subscriber = broker.connected("s")
        subscriber.subscribe("$share/g/t")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .success)
        subscriber.unsubscribe("$share/g/t")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
        subscriber.subscribe("+")
        #expect(publisher.publish("t", qos: .atLeastOnce)?.reasonCode == .success)
    }

    @Test(.statement("MQTT-3.3.2-1", .v5), .statement("MQTT-4.7.3-1", .v5))
    func `a message without a topic is a protocol error`() {
        let broker = SimulatedBroker()
        #expect(broker.ending(after: RawPacket.packet(0x30, [])) == .closed(.malformedPacket))
        #expect(broker.ending(after: RawPacket.packet(0x30, [0, 0, 0])) == .closed(.protocolError))
        // Nor does an alias help that was never set.
        #expect(broker.ending(after: RawPacket.packet(0x30, [0, 0], RawPacket.block([0x23, 0, 1]))) == .closed(.protocolError))
    }
}
