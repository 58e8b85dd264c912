import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What waits for a client, and how much of it is in flight.
@Suite struct QueueTests {
    private func absentSubscriber(_ broker: SimulatedBroker, version: ProtocolVersion = .v5) -> TestClient {
        let client = broker.client("subscriber", version: version)
        client.connect(clean: false, expiry: version == .v5 ? .max : nil)
        client.subscribe("t/#")
        client.disconnect()
        return client
    }

    @Test(arguments: [1, 4]) func `at most 1,000 messages wait for a client that is away`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = absentSubscriber(broker)
        let publisher = broker.connected("publisher")
        for number in 0..<1010 { publisher.publish("t/a", "\(number)", qos: .atLeastOnce) }
        #expect(broker.statistics().publishDropped == 10)
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.texts == (0..<1000).map(String.init))
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(arguments: [1, 4]) func `what waits may be bounded in bytes`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuedBytesMax = 1000 })
        let subscriber = absentSubscriber(broker)
        let publisher = broker.connected("publisher")
        // Topic and payload count: 101 bytes each. The tenth begins below the limit, and is queued as a whole.
        for _ in 0..<20 { publisher.publish("t/a", bytes: Array(repeating: 1, count: 98), qos: .atLeastOnce) }
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.messages.count == 10)
        #expect(broker.statistics().publishDropped == 10)
    }

    @Test(arguments: [1, 4], [2, 30])
    func `what is in flight may be bounded in bytes, by the message that reaches the bound`(shards: Int, receivers: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightBytesMax = 1000 })
        let subscribers = (0..<receivers).map { broker.connected("subscriber \($0)") }
        for subscriber in subscribers {
            subscriber.acknowledgement = .manual
            subscriber.subscribe("t", qos: .atLeastOnce)
        }
        let publisher = broker.connected("publisher")
        for _ in 0..<20 { publisher.publish("t", bytes: Array(repeating: 1, count: 99), qos: .atLeastOnce) }
        #expect(subscribers.allSatisfy { $0.publishes.count == 10 })
        for subscriber in subscribers { subscriber.acknowledge(.puback, subscriber.publishes[0].packetIdentifier ?? 0) }
        #expect(subscribers.allSatisfy { $0.publishes.count == 11 })
    }

    @Test(arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `20 messages are in flight to a client that does not acknowledge`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.acknowledgement = .manual
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher")
        for number in 0..<50 { publisher.publish("t", "\(number)", qos: qos) }
        #expect(subscriber.publishes.count == 20)
        let first = subscriber.publishes[0].packetIdentifier ?? 0
        subscriber.acknowledge(qos == .atLeastOnce ? .puback : .pubrec, first)
        // A QoS 2 message is in flight until PUBCOMP.
        if qos == .exactlyOnce {
            #expect(subscriber.publishes.count == 20)
            subscriber.acknowledge(.pubcomp, first)
        }
        #expect(subscriber.publishes.count == 21)
        #expect(subscriber.publishes.map { String(decoding: $0.payload, as: UTF8.self) } == (0..<21).map(String.init))
    }

    @Test(.statement("MQTT-3.3.4-9", .v5), arguments: [1, 4])
    func `a client's Receive Maximum bounds what is in flight to it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("subscriber")
        var properties = Properties()
        properties.receiveMaximum = 3
        subscriber.connect(properties: properties)
        subscriber.acknowledgement = .manual
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        #expect(subscriber.publishes.count == 3)
        // QoS 0 does not count.
        publisher.publish("t", "now")
        #expect(subscriber.publishes.count == 4)
        for packet in subscriber.publishes {
            if let identifier = packet.packetIdentifier { subscriber.acknowledge(.puback, identifier) }
        }
        #expect(subscriber.publishes.count == 7)
    }

    @Test(.statement("MQTT-3.3.4-7", .v5), arguments: [1, 4])
    func `a client that exceeds the broker's Receive Maximum is disconnected`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for _ in 0..<20 { publisher.publish("t", qos: .exactlyOnce, until: .answered) }
        #expect(publisher.isConnected)
        publisher.publish("t", qos: .exactlyOnce, until: .answered)
        #expect(publisher.disconnectReason == .receiveMaximumExceeded)
    }

    @Test(arguments: [1, 4]) func `QoS 0 waits for a client that is away only when the operator says so`(shards: Int) {
        for queues in [false, true] {
            let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuesQoS0 = queues })
            let subscriber = absentSubscriber(broker)
            let publisher = broker.connected("publisher")
            for number in 0..<5 { publisher.publish("t/a", "\(number)") }
            subscriber.connect(clean: false, expiry: .max)
            #expect(subscriber.texts == (queues ? ["0", "1", "2", "3", "4"] : []))
            #expect(broker.statistics().storedMessages == 0)
        }
    }

    @Test(arguments: [1, 4]) func `a megabyte of queued QoS 0 messages arrives without another event`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuesQoS0 = true })
        let subscriber = absentSubscriber(broker)
        let publisher = broker.connected("publisher")
        let payload = [UInt8](repeating: 7, count: 10_000)
        for _ in 0..<100 { publisher.publish("t/a", bytes: payload) }
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.messages.count == 100)
    }

    @Test(arguments: [1, 4]) func `large messages of QoS 1 arrive all, in order`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = absentSubscriber(broker)
        let publisher = broker.connected("publisher")
        for number in 0..<60 {
            publisher.publish("t/a", bytes: Array(repeating: UInt8(number), count: 50_000), qos: .atLeastOnce)
        }
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.messages.map { Int($0.payload[0]) } == Array(0..<60))
    }

    @Test(.statement("MQTT-3.3.2-5", .v5), arguments: [1, 4]) func `an expired message is not sent`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = absentSubscriber(broker)
        let publisher = broker.connected("publisher")
        var properties = Properties()
        properties.messageExpiryInterval = 10
        publisher.publish("t/a", "short", qos: .atLeastOnce, properties: properties)
        properties.messageExpiryInterval = 20
        publisher.publish("t/a", "long", qos: .atLeastOnce, properties: properties)
        publisher.publish("t/a", "eternal", qos: .atLeastOnce)
        broker.advance(seconds: 10)
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.texts == ["long", "eternal"])
        // [MQTT-3.3.2-6 v5]
        #expect(subscriber.messages.map(\.properties.messageExpiryInterval) == [10, nil])
        #expect(broker.statistics().storedMessages == 0)
    }
}
