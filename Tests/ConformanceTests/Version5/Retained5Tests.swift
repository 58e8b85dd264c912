import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.3.1.3: the RETAIN flag and retained messages.
@Suite struct Retained5Tests {
    private func retained(_ broker: SimulatedBroker, _ filter: TopicFilter) -> [String] {
        let reader = broker.connected("reader")
        reader.subscribe(filter)
        defer { reader.disconnect() }
        return reader.messages.map { "\($0.topic)=\($0.text)" }.sorted()
    }

    @Test(
        .statement("MQTT-3.3.1-5", .v5), .statement("MQTT-3.3.1-6", .v5), .statement("MQTT-3.3.1-7", .v5),
        .statement("MQTT-3.3.1-8", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `RETAIN stores, replaces and removes; without it nothing is touched`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("r/#")
        let publisher = broker.connected("p")
        publisher.publish("r/a", "1", qos: qos, retain: true)
        publisher.publish("r/b", "1", qos: qos, retain: true)
        publisher.publish("r/c", "not kept", qos: qos)
        #expect(retained(broker, "r/#") == ["r/a=1", "r/b=1"])
        publisher.publish("r/a", "2", qos: qos, retain: true)
        publisher.publish("r/a", "3", qos: qos)
        publisher.publish("r/b", "", qos: qos)
        #expect(retained(broker, "r/#") == ["r/a=2", "r/b=1"])
        publisher.publish("r/a", "", qos: qos, retain: true)
        publisher.publish("r/none", "", qos: qos, retain: true)
        #expect(retained(broker, "r/#") == ["r/b=1"])
        #expect(retained(broker, "r/a") == [])
        // All were delivered like any message, those without payload too, with RETAIN 0.
        #expect(witness.texts == ["1", "1", "not kept", "2", "3", "", "", ""])
        #expect(witness.messages.allSatisfy { !$0.retain })
    }

    @Test(.statement("MQTT-3.3.1-9", .v5), .statement("MQTT-3.8.4-4", .v5), arguments: [1, 4])
    func `Retain Handling 0 sends retained messages at each subscription`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        for number in 0..<20 { publisher.publish("r/\(number)", "x", qos: .atLeastOnce, retain: true) }
        let client = broker.connected("a")
        for _ in 0..<2 {
            client.subscribe("r/+", retainHandling: .sendAtSubscribe)
            #expect(Set(client.messages.map(\.topic)).count == 20)
            #expect(client.messages.count == 20)
            #expect(client.takeMessages().allSatisfy { $0.retain })
        }
    }

    @Test(.statement("MQTT-3.3.1-10", .v5), arguments: [1, 4])
    func `Retain Handling 1 sends them for a new subscription only`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        broker.connected("p").publish("r/a", "x", qos: .atLeastOnce, retain: true)
        let client = broker.connected("a", expiry: 100) { _ in }
        client.subscribe("r/+", retainHandling: .sendIfNewSubscription)
        #expect(client.takeMessages().count == 1)
        client.subscribe("r/+", qos: .atMostOnce, retainHandling: .sendIfNewSubscription)
        #expect(client.takeMessages().isEmpty)
        client.lose()
        client.connect(clean: false, expiry: 100)
        client.subscribe("r/+", retainHandling: .sendIfNewSubscription)
        #expect(client.takeMessages().isEmpty)
        client.unsubscribe("r/+")
        client.subscribe("r/+", retainHandling: .sendIfNewSubscription)
        #expect(client.takeMessages().count == 1)
    }

    @Test(.statement("MQTT-3.3.1-11", .v5), arguments: [1, 4])
    func `Retain Handling 2 sends none`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        broker.connected("p").publish("r/a", "x", qos: .atLeastOnce, retain: true)
        let client = broker.connected("a")
        for _ in 0..<2 { client.subscribe("r/#", retainHandling: .doNotSend) }
        #expect(client.messages.isEmpty)
    }

    @Test(.statement("MQTT-3.3.1-12", .v5), .statement("MQTT-3.3.1-13", .v5), arguments: [1, 4], [QoS.atMostOnce, .exactlyOnce])
    func `Retain As Published keeps the flag, otherwise it is cleared`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        for keeps in [false, true] {
            let client = broker.connected("a", expiry: 100) { _ in }
            client.subscribe("t", retainAsPublished: keeps, retainHandling: .doNotSend)
            for retain in [true, false] { publisher.publish("t", "live", qos: qos, retain: retain) }
            #expect(client.takeMessages().map(\.retain) == [keeps, false])
            client.lose()
            for retain in [true, false] { publisher.publish("t", "queued", qos: .atLeastOnce, retain: retain) }
            client.connect(clean: false, expiry: 100)
            #expect(client.takeMessages().map(\.retain) == [keeps, false])
            client.disconnect(expiry: 0)
        }
    }

    @Test(arguments: [1, 4]) func `what is retained is sent at the lower QoS, with all its properties`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let sent = Properties.having {
            $0.contentType = "a/b"
            $0.userProperties = [UserProperty(name: "b", value: ""), UserProperty(name: "a", value: "")]
        }
        broker.connected("p").publish("r", "x", qos: .exactlyOnce, retain: true, properties: sent)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            let client = broker.connected("a")
            client.subscribe("r", qos: qos)
            #expect(client.messages.map(\.qos) == [qos])
            #expect(client.messages.map(\.properties) == [sent])
        }
    }
}
