import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What did not get where it was going is counted: by reason, and for each client.
@Suite struct DropTests {
    private func drops(_ broker: SimulatedBroker) -> [String: UInt64] {
        let counts = broker.statistics().drops
        return Dictionary(uniqueKeysWithValues: DropReason.allCases.map { ($0.words, counts[$0]) }.filter { $0.1 > 0 })
    }

    private func told(_ broker: SimulatedBroker) -> [String] {
        broker.logLines.filter { $0.contains(" dropped (") }
    }

    @Test(arguments: [1, 4]) func `what a full queue, its age and its size keep from a client`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 3 })
        let sleeper = broker.client("sleeper")
        sleeper.connect(clean: false, expiry: .max)
        sleeper.subscribe("t")
        sleeper.disconnect()
        let publisher = broker.connected("publisher")
        var properties = Properties()
        properties.messageExpiryInterval = 5
        publisher.publish("t", "old", qos: .atLeastOnce, properties: properties)
        for _ in 0..<4 { publisher.publish("t", bytes: Array(repeating: 1, count: 200), qos: .atLeastOnce) }
        broker.advance(seconds: 10)
        properties = Properties()
        properties.maximumPacketSize = 100
        sleeper.connect(clean: false, expiry: .max, properties: properties)
        #expect(sleeper.messages.isEmpty)
        #expect(drops(broker) == ["queue full": 2, "expired": 1, "too large for the client": 2])
        #expect(broker.statistics().publishDropped == 5)
        #expect(told(broker) == [])
        sleeper.disconnect()
        #expect(told(broker) == ["Client sleeper: 5 messages dropped (2 queue full, 2 too large for the client, 1 expired)."])
        // Nothing new, nothing said.
        sleeper.connect(clean: false, expiry: .max)
        sleeper.disconnect()
        #expect(told(broker).count == 1)
    }

    @Test(arguments: [1, 4]) func `what is not taken from a client counts as its own`(shards: Int) {
        let broker = SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.payloadBytesMax = 10
                $0.topicBytesMax = 6
                $0.validatesPayloadFormat = true
            })
        let publisher = broker.connected("publisher")
        publisher.publish("$SYS/broker/version", "mine", qos: .atLeastOnce)
        publisher.publish("a", "longer than ten", qos: .atLeastOnce)
        publisher.publish("a", "longer than ten too")
        publisher.publish("a/b/c/d", "long", qos: .atLeastOnce)
        #expect(drops(broker) == ["not authorised": 1, "payload too large": 2, "refused": 1])
        publisher.lose()
        #expect(
            told(broker) == ["Client publisher: 4 messages dropped (1 not authorised, 2 payload too large, 1 refused)."])
    }

    @Test func `a client that does not read is told of once for each connection`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.outputBytesMax = 65_536 })
        let slow = broker.client("slow")
        slow.connect(clean: false, expiry: .max)
        slow.subscribe("t", qos: .atMostOnce)
        let publisher = broker.connected("publisher")
        for round in 1...2 {
            slow.connection?.isReading = false
            for _ in 0..<100 { publisher.publish("t", bytes: Array(repeating: 1, count: 1024)) }
            #expect(broker.logLines.filter { $0.contains("being dropped for client slow") }.count == round)
            slow.lose()
            #expect(told(broker).count == round)
            slow.connect(clean: false, expiry: .max)
        }
        #expect(drops(broker).keys.sorted() == ["output full"])
        let total = broker.statistics().publishDropped
        #expect(told(broker).last == "Client slow: \(total) messages dropped (\(total) output full).")
    }

    @Test(arguments: [1, 4]) func `an operator may ask what each client has lost so far`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 1 })
        for name: EncodedString in ["one", "two", "none"] {
            let client = broker.client(name)
            client.connect(clean: false, expiry: .max)
            client.subscribe(name == "none" ? "other" : "t")
            client.disconnect()
        }
        let publisher = broker.connected("publisher")
        for _ in 0..<2 { publisher.publish("t", "x", qos: .atLeastOnce) }
        for core in broker.cores { core.listSubscriptions() }
        broker.settle()
        #expect(
            Set(told(broker)) == ["Client one: 1 message dropped (1 queue full).", "Client two: 1 message dropped (1 queue full)."])
    }

    @Test func `the $SYS topics tell of each reason`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.systemIntervalSeconds = 10 })
        broker.settle()
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/broker/publish/messages/dropped/#")
        let publisher = broker.connected("publisher")
        publisher.publish("$SYS/broker/version", "mine")
        broker.advance(seconds: 10)
        let values = Dictionary(watcher.messages.map { ($0.topic, $0.text) }, uniquingKeysWith: { $1 })
        #expect(values["$SYS/broker/publish/messages/dropped"] == "1")
        #expect(values["$SYS/broker/publish/messages/dropped/not_authorised"] == "1")
        #expect(values["$SYS/broker/publish/messages/dropped/queue_full"] == "0")
        #expect(values.count == 1 + DropReason.allCases.count)
    }
}
