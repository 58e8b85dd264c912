import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// The limits of packets, connections and aliases.
@Suite struct LimitTests {
    @Test(arguments: [1, 4]) func `a connection without CONNECT ends after its time`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let silent = broker.open()
        let slow = broker.open()
        slow.send([0x10, 0x0e, 0, 4])
        broker.advance(milliseconds: 29_900)
        #expect(!silent.isClosed && !slow.isClosed)
        broker.advance(milliseconds: 100)
        #expect(silent.isClosed && slow.isClosed)
        #expect(silent.receivedByteCount == 0)
        #expect(broker.isIdle)
    }

    @Test(.statement("MQTT-3.1.0-1", .v5), arguments: [1, 4]) func `the first packet must be CONNECT`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connection = broker.open()
        #expect(connection.exchange([0xc0, 0]) == [])
        #expect(connection.isClosed)
    }

    @Test(arguments: [1, 4]) func `a packet above the broker's limit ends the connection before it is read`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.packetBytesMax = 1000 })
        let client = broker.client("a")
        #expect(client.connect()?.properties.maximumPacketSize == 1000)
        // 1,000 bytes with the header are allowed: 3 of header, 3 of topic, 1 of properties.
        client.publish("t", bytes: [UInt8](repeating: 0, count: 993))
        #expect(client.isConnected)
        client.send([0x30, 0xe6, 0x07])
        #expect(client.disconnectReason == .packetTooLarge)
    }

    @Test(
        .statement("MQTT-3.1.2-24", .v5), .statement("MQTT-3.1.2-25", .v5), arguments: [1, 4],
        [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `a message too large for a client counts as delivered`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("subscriber")
        var properties = Properties()
        properties.maximumPacketSize = 100
        subscriber.connect(expiry: .max, properties: properties)
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher")
        for size in [10, 200, 50] { publisher.publish("t", bytes: [UInt8](repeating: 1, count: size), qos: qos) }
        #expect(subscriber.messages.map(\.payload.count) == [10, 50])
        subscriber.lose()
        for size in [10, 200, 50] { publisher.publish("t", bytes: [UInt8](repeating: 1, count: size), qos: qos) }
        subscriber.connect(clean: false, expiry: .max, properties: properties)
        #expect(subscriber.messages.count == (qos == .atMostOnce ? 2 : 4))
        #expect(broker.statistics().storedMessages == 0)
    }

    /// At once, out of the queue, and behind a packet identifier that has to be durable first.
    @Test(.statement("MQTT-3.1.2-24", .v5), arguments: [QoS.atMostOnce, .atLeastOnce, .exactlyOnce], [false, true])
    func `a message that is left out for its size leaves no alias to rely on`(qos: QoS, waits: Bool) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuesQoS0 = true }, store: SimulatedStore())
        let subscriber = broker.client("subscriber")
        var properties = Properties()
        properties.maximumPacketSize = 60
        properties.topicAliasMaximum = 2
        subscriber.connect(expiry: .max, properties: properties)
        subscriber.subscribe("#")
        let publisher = broker.connected("publisher")
        if waits { subscriber.lose() }
        let sizes: [(EncodedString, Int)] = [
            ("topic/one", 90), ("topic/one", 1), ("topic/two", 90), ("topic/one", 90), ("topic/one", 2), ("topic/two", 3),
            ("topic/two", 4), ("topic/three", 90),
        ]
        for (topic, size) in sizes { publisher.publish(topic, bytes: [UInt8](repeating: 1, count: size), qos: qos) }
        if waits { subscriber.connect(clean: false, expiry: .max, properties: properties) }
        let sent = subscriber.packetsOfConnection.compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
        #expect(sent.map(\.topic) == ["topic/one", "", "topic/two", ""])
        #expect(sent.map(\.properties.topicAlias) == [1, 1, 2, 2])
        #expect(sent.map(\.payload.count) == [1, 2, 3, 4])
        #expect(subscriber.messages.map(\.topic) == ["topic/one", "topic/one", "topic/two", "topic/two"])
    }

    @Test(.statement("MQTT-3.3.2-12", .v5), arguments: [1, 4]) func `a client's aliases stand for their topics`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("#")
        let publisher = broker.connected("publisher")
        #expect(publisher.connack?.properties.topicAliasMaximum == 10)
        var properties = Properties()
        for (topic, alias): (EncodedString, UInt16) in [("a", 1), ("b", 10), ("", 1), ("", 10), ("c", 1), ("", 1)] {
            properties.topicAlias = alias
            publisher.publish(topic, qos: .atLeastOnce, properties: properties)
        }
        #expect(subscriber.messages.map(\.topic) == ["a", "b", "a", "b", "c", "c"])
        #expect(subscriber.messages.map(\.properties.topicAlias) == [nil, nil, nil, nil, nil, nil])
    }

    @Test(.statement("MQTT-3.3.2-9", .v5), arguments: [1, 4], [UInt16(0), 11])
    func `an alias out of range ends the connection`(shards: Int, alias: UInt16) {
        let client = SimulatedBroker(shards: shards).connected("a")
        var properties = Properties()
        properties.topicAlias = alias
        client.publish("a", properties: properties)
        #expect(client.disconnectReason == .topicAliasInvalid)
    }

    @Test(.statement("MQTT-3.3.2-7", .v5), arguments: [1, 4]) func `an alias that this connection did not set ends it`(shards: Int)
    {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: .max)
        var properties = Properties()
        properties.topicAlias = 1
        client.publish("a", properties: properties)
        client.lose()
        client.connect(clean: false, expiry: .max)
        client.publish("", properties: properties)
        #expect(client.disconnectReason == .protocolError)
    }

    @Test(.statement("MQTT-3.1.2-26", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce])
    func `the broker uses aliases as many as the client allows`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("subscriber")
        var properties = Properties()
        properties.topicAliasMaximum = 3
        subscriber.connect(properties: properties)
        subscriber.subscribe("#")
        let plain = broker.connected("plain")
        plain.subscribe("#")
        let publisher = broker.connected("publisher")
        var random = SeededGenerator(seed: 3)
        var topics: [String] = []
        for _ in 0..<300 {
            let topic = "topic/number/\(Int.random(in: 0..<6, using: &random))"
            topics.append(topic)
            publisher.publish("\(topic)", "x", qos: qos)
        }
        #expect(subscriber.messages.map(\.topic) == topics)
        #expect(subscriber.publishes.contains { $0.topic.isEmpty })
        #expect(subscriber.publishes.allSatisfy { ($0.properties.topicAlias ?? 1) <= 3 })
        #expect(plain.publishes.allSatisfy { $0.properties.topicAlias == nil })
    }

    @Test(arguments: [1, 4]) func `a login that is decided later holds CONNACK and all that follows`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in nil }
        let watcher = broker.client("watcher")
        watcher.connect()
        #expect(watcher.isConnected)
        watcher.subscribe("t")
        let client = broker.client("a")
        client.connect(userName: "user", password: [1])
        client.publish("t", "early", qos: .atLeastOnce)
        #expect(client.packets.isEmpty)
        #expect(watcher.messages.isEmpty)
        for pending in broker.pendingAuthentications { broker.answer(pending, .accepted(userName: nil, data: nil)) }
        #expect(client.isConnected)
        #expect(watcher.texts == ["early"])
        let refused = broker.client("b", version: .v311)
        refused.connect(userName: "user", password: [1])
        for pending in broker.pendingAuthentications { broker.answer(pending, .refused(.notAuthorized)) }
        #expect(refused.connack?.returnCode == .notAuthorized)
        #expect(refused.connection?.isClosed == true)
    }

    @Test(arguments: [1, 4]) func `a login that is never decided ends after the time for CONNECT`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in nil }
        let client = broker.client("a")
        client.connect(userName: "user", password: [1])
        broker.advance(seconds: 30)
        #expect(client.connection?.isClosed == true)
        #expect(broker.isIdle)
    }

    @Test(arguments: [1, 4]) func `stop tells clients and ends all connections`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let modern = broker.connected("a")
        let old = broker.connected("b", version: .v311)
        let fresh = broker.open()
        broker.settle()
        broker.stop()
        #expect(modern.disconnectReason == .serverShuttingDown)
        #expect(modern.connection?.isClosed == true)
        #expect(old.connection?.isClosed == true)
        #expect(fresh.isClosed)
        #expect(broker.isIdle)
    }

    @Test(arguments: [1, 4]) func `a closing connection that does not read ends after the linger time`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.connection?.isReading = false
        broker.stop()
        #expect(client.connection?.isClosed == false)
        broker.advance(seconds: 5)
        #expect(client.connection?.isClosed == true)
        #expect(broker.isIdle)
    }
}
