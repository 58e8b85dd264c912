import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What the broker counts, and tells of itself below `$SYS`.
@Suite struct SystemTopicTests {
    private func values(_ client: TestClient) -> [String: String] {
        Dictionary(client.messages.map { ($0.topic, $0.text) }, uniquingKeysWith: { $1 })
    }

    @Test(arguments: [1, 4]) func `the broker tells of itself every ten seconds`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.systemIntervalSeconds = 10 })
        broker.settle()
        let everything = broker.connected("everything")
        everything.subscribe("#")
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/#")
        #expect(values(watcher)["$SYS/broker/version"] == "martlet")
        #expect(values(watcher)["$SYS/broker/uptime"] == "0 seconds")
        #expect(watcher.messages.allSatisfy { $0.retain })
        #expect(watcher.takeMessages().count > 20)
        broker.advance(seconds: 10)
        #expect(values(watcher)["$SYS/broker/uptime"] == "10 seconds")
        #expect(values(watcher)["$SYS/broker/clients/connected"] == "2")
        #expect(values(watcher)["$SYS/broker/subscriptions/count"] == "2")
        #expect(watcher.messages.allSatisfy { !$0.retain })
        #expect(everything.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `clients may not publish below $SYS`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/#")
        let client = broker.connected("a")
        #expect(client.publish("$SYS/broker/version", "mine", qos: .atLeastOnce)?.reasonCode == .notAuthorized)
        #expect(client.publish("$SYS/x", "mine", qos: .exactlyOnce, until: .answered)?.reasonCode == .notAuthorized)
        #expect(client.unfinished == [])
        #expect(watcher.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `messages are counted by their QoS, as they came and as they went`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] { broker.connected("at \(qos)").subscribe("t", qos: qos) }
        let publisher = broker.connected("publisher")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] { publisher.publish("t", "hello", qos: qos) }
        let statistics = broker.statistics()
        #expect([QoS.atMostOnce, .atLeastOnce, .exactlyOnce].map { statistics.messagesReceivedByQoS[$0] } == [1, 1, 1])
        #expect([QoS.atMostOnce, .atLeastOnce, .exactlyOnce].map { statistics.messagesSentByQoS[$0] } == [5, 3, 1])
    }

    @Test(arguments: [1, 4]) func `statistics add up over all shards`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscribers = (0..<8).map { broker.connected("subscriber\($0)") }
        for subscriber in subscribers { subscriber.subscribe("t/#", qos: .atLeastOnce) }
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("t/\(number)", "hello", qos: .atLeastOnce, retain: true) }
        let statistics = broker.statistics()
        #expect(statistics.publishReceived == 10)
        #expect(statistics.publishBytesReceived == 50)
        #expect(statistics.publishSent == 80)
        #expect(statistics.publishBytesSent == 400)
        #expect(statistics.publishDropped == 0)
        #expect(statistics.connections == 9)
        #expect(statistics.clientsConnected == 9)
        #expect(statistics.clientsTotal == 9)
        #expect(statistics.connectionsAccepted == 9)
        #expect(statistics.socketsOpened == 9)
        #expect(statistics.subscriptions == 8)
        #expect(statistics.retainedMessages == 10)
        #expect(statistics.storedMessages == 10)
        // 9 CONNECT, 8 SUBSCRIBE, 10 PUBLISH, 80 PUBACK; 9 CONNACK, 8 SUBACK, 80 PUBLISH, 10 PUBACK.
        #expect(statistics.messagesReceived == 107)
        #expect(statistics.messagesSent == 107)
        let received = (subscribers + [publisher]).reduce(0) { $0 + ($1.connection?.receivedByteCount ?? 0) }
        #expect(statistics.bytesSent == received)
    }
}
