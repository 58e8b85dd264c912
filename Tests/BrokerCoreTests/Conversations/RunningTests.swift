import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What an operator changes and sees while the broker runs.
@Suite struct RunningTests {
    private func apply(_ broker: SimulatedBroker, _ change: (inout BrokerSettings) -> Void) {
        let settings = SimulatedBroker.testSettings(change)
        for core in broker.cores { core.apply(settings) }
        broker.advance(milliseconds: 100)
    }

    @Test(arguments: [1, 4]) func `new limits hold for new clients, and what CONNACK told holds for the others`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let old = broker.connected("old")
        #expect(old.publish("t", "kept", qos: .exactlyOnce, retain: true)?.reasonCode.isError == false)
        apply(broker) {
            $0.packetBytesMax = 100
            $0.inFlightMessagesMax = 1
            $0.listeners[0].maximumQoS = .atMostOnce
            $0.listeners[0].topicAliasMaximum = 0
            $0.retainAvailable = false
        }
        old.publish("t", bytes: [UInt8](repeating: 1, count: 1000), qos: .exactlyOnce)
        old.publish("t", "kept", qos: .exactlyOnce, retain: true)
        #expect(old.isConnected)
        let new = broker.client("new")
        let answer = new.connect()
        #expect(answer?.properties.maximumPacketSize == 100)
        #expect(answer?.properties.receiveMaximum == 1)
        #expect(answer?.properties.maximumQoS == .atMostOnce)
        #expect(answer?.properties.topicAliasMaximum == nil)
        #expect(answer?.properties.retainAvailable == false)
        new.publish("t", bytes: [UInt8](repeating: 1, count: 1000))
        #expect(new.disconnectReason == .packetTooLarge)
    }

    @Test(arguments: [1, 4]) func `the topics below $SYS may be switched on and off`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/#")
        broker.advance(seconds: 60)
        #expect(watcher.messages.isEmpty)
        apply(broker) { $0.systemIntervalSeconds = 10 }
        #expect(!watcher.takeMessages().isEmpty)
        apply(broker) { $0.systemIntervalSeconds = 0 }
        broker.advance(seconds: 10)
        _ = watcher.takeMessages()
        broker.advance(seconds: 60)
        #expect(watcher.messages.isEmpty)
        apply(broker) { $0.systemIntervalSeconds = 10 }
        #expect(!watcher.takeMessages().isEmpty)
    }

    @Test func `the topics below $SYS come when the wall clock shows a multiple of its interval`() {
        let broker = SimulatedBroker(
            settings: SimulatedBroker.testSettings {
                $0.systemIntervalSeconds = 10
                $0.wallClockOffsetMilliseconds = 3000
            })
        broker.settle()
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/broker/uptime")
        _ = watcher.takeMessages()
        // What the shell did not know yet at the start.
        broker.advance(milliseconds: 1100)
        #expect(watcher.takeMessages().map(\.text) == ["1 seconds"])
        broker.advance(milliseconds: 5800)
        #expect(watcher.messages.isEmpty)
        broker.advance(milliseconds: 200)
        #expect(watcher.takeMessages().map(\.text) == ["7 seconds"])
        broker.advance(milliseconds: 10_000)
        #expect(watcher.takeMessages().map(\.text) == ["17 seconds"])
    }

    @Test(arguments: [1, 4]) func `packets are counted by type`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.subscribe("t", qos: .exactlyOnce)
        client.publish("t", "x", qos: .exactlyOnce)
        #expect(client.ping())
        client.disconnect()
        let statistics = broker.statistics()
        for type in [PacketType.connect, .subscribe, .publish, .pubrec, .pubrel, .pubcomp, .pingreq, .disconnect] {
            #expect(statistics.packetsReceived[type] == 1, "\(type)")
        }
        for type in [PacketType.connack, .suback, .pubrec, .pubrel, .pubcomp, .pingresp] {
            #expect(statistics.packetsSent[type] == 1, "\(type)")
        }
        #expect(statistics.publishSent == 1)
    }

    @Test(arguments: [1, 4]) func `the list of subscriptions names each, over several turns`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let many = broker.connected("many")
        for number in 0..<2500 { many.subscribe(TopicFilter(Array("a/\(number)".utf8))!, qos: .atLeastOnce) }
        let few = broker.connected("few")
        few.subscribe("+/#", qos: .exactlyOnce)
        few.subscribe("$share/group/b", qos: .atMostOnce)
        few.subscribe("gone")
        few.unsubscribe("gone")
        for core in broker.cores { core.listSubscriptions() }
        broker.settle()
        let listed = broker.logLines.filter { $0.hasPrefix("Subscription: ") }
        #expect(listed.count == 2502)
        let others = listed.filter { !$0.hasPrefix("Subscription: a/") }
        #expect(Set(others) == ["Subscription: +/# (few, 2)", "Subscription: $share/group/b (few, 0)"])
        #expect(Set(listed).count == 2502)
    }

    @Test(arguments: [1, 4]) func `a line of the log is published, and no line tells of it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.logTopics = .all })
        let watchers = (0..<8).map { broker.connected("watcher\($0)") }
        for watcher in watchers { watcher.subscribe("$SYS/broker/log/#", qos: .atMostOnce) }
        let before = broker.logLines.count
        broker.cores[0].publishLogLine(topic: "$SYS/broker/log/N", text: "1700000000: hello")
        broker.settle()
        for watcher in watchers { #expect(watcher.takeMessages().map(\.text) == ["1700000000: hello"]) }
        #expect(broker.logLines.count == before)
    }

    @Test func `connection_messages false silences coming and going`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.logsConnections = false })
        broker.connected("a").disconnect()
        broker.connected("b").send([0x00, 0x00])
        #expect(broker.logLines.isEmpty)
    }

    @Test func `comings and goings are told in mosquitto's words`() {
        let broker = SimulatedBroker()
        broker.connected("a").disconnect()
        let old = broker.connected("b", version: .v311)
        broker.connected("b", version: .v31).connection?.close()
        broker.settle()
        _ = old
        let lines = broker.logLines.map { $0.replacing(/192\.0\.2\.1:[0-9]+/, with: "PLACE") }
        for line in [
            "New client connected from PLACE as a (p5, c1, k0).", "Client a [PLACE] disconnected.",
            "New client connected from PLACE as b (p4, c1, k0).", "Client b [PLACE] disconnected: session taken over.",
            "New client connected from PLACE as b (p3, c1, k0).", "Client b [PLACE] disconnected: connection closed by client.",
        ] {
            #expect(lines.contains(line), "\(line) in \(lines)")
        }
    }

    @Test func `a refusal is told in mosquitto's words, then in our own`() {
        let broker = SimulatedBroker()
        broker.connected("a").send([0x00, 0x00])
        #expect(
            broker.logLines.contains { $0.hasPrefix("Client a [192.0.2.1:") && $0.hasSuffix("] disconnected: malformed packet.") })
        #expect(broker.logLines.contains { $0.hasPrefix("Protocol error from 192.0.2.1:") && $0.hasSuffix("reserved.") })
    }
}
