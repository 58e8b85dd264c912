import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What bridges of other brokers tell of themselves below `$SYS/broker/connection/`, and nobody else.
@Suite struct BridgeStateTests {
    private static let state: EncodedString = "$SYS/broker/connection/house/state"

    private func broker(shards: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in }) -> SimulatedBroker {
        SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change))
    }

    private func bridge(_ name: EncodedString, _ broker: SimulatedBroker) -> TestClient {
        let bridge = broker.client(name, version: .v311)
        bridge.connect(isBridge: true)
        return bridge
    }

    private func states(_ broker: SimulatedBroker) -> [String] {
        let reader = broker.connected("reader")
        reader.subscribe("$SYS/broker/connection/#")
        defer { reader.disconnect() }
        return reader.messages.map { "\($0.topic.dropFirst(23)) \($0.text)" }.sorted()
    }

    private func will(_ topic: EncodedString) -> Will {
        Will(topic: TopicName(topic.bytes) ?? "t", payload: Array("0".utf8), qos: .atLeastOnce, retain: true)
    }

    @Test(arguments: [1, 4]) func `only a bridge overwrites what a bridge tells of itself`(shards: Int) {
        let broker = broker(shards: shards)
        bridge("house", broker).publish(Self.state, "1", qos: .atLeastOnce, retain: true)
        let stranger = broker.connected("stranger")
        let answer = stranger.publish(Self.state, "forged", qos: .atLeastOnce, retain: true)
        #expect(answer?.reasonCode == .notAuthorized)
        #expect(answer?.properties.reasonString == "only a bridge tells of itself there")
        broker.connected("old", version: .v311).publish(Self.state, "forged", qos: .atLeastOnce, retain: true)
        #expect(states(broker) == ["house/state 1"])
        #expect(
            broker.logLines.contains { $0.hasPrefix("Denied PUBLISH") && $0.hasSuffix(": only a bridge tells of itself there.") })
        #expect(broker.statistics().drops[.notAuthorised] == 2)
    }

    /// Nothing but its Client Identifier shows that one is a bridge.
    @Test func `a bridge of 5 point 0 tells of itself, and of no other`() {
        let broker = broker()
        let house = broker.connected("house")
        #expect(house.publish(Self.state, "1", qos: .atLeastOnce, retain: true)?.reasonCode.isError == false)
        #expect(
            house.publish("$SYS/broker/connection/other/state", "1", qos: .atLeastOnce, retain: true)?.reasonCode == .notAuthorized)
        #expect(states(broker) == ["house/state 1"])
    }

    @Test(arguments: [1, 4]) func `nobody tells of the broker's own bridges, be it a bridge`(shards: Int) {
        let broker = broker(shards: shards) { $0.ownBridgeStates = [Self.state.bytes] }
        for core in broker.cores { core.publishSystemTopic("\(Self.state)", "1") }
        broker.settle()
        bridge("house", broker).publish(Self.state, "forged", qos: .atLeastOnce, retain: true)
        #expect(
            broker.connected("house").publish(Self.state, "forged", qos: .atLeastOnce, retain: true)?.reasonCode == .notAuthorized)
        let leaver = broker.client("house", version: .v311)
        leaver.connect(will: will(Self.state), isBridge: true)
        leaver.lose()
        #expect(states(broker) == ["house/state 1"])
    }

    @Test func `a rule of the access list lets others tell, and a default does not`() {
        func rule(_ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule([.read, .write], $0) }
        }
        let broker = broker {
            $0.listeners[0].accessControl = AccessControl(
                anonymous: [], users: ["who may": [rule("$SYS/broker/connection/#"), rule("#")].compactMap { $0 }],
                patterns: [rule("#"), rule("$SYS/x/#")].compactMap { $0 })
        }
        let (allowed, other) = (broker.client("a"), broker.client("b"))
        allowed.connect(userName: "who may")
        other.connect(userName: "other")
        #expect(allowed.publish(Self.state, "1", qos: .atLeastOnce, retain: true)?.reasonCode.isError == false)
        #expect(other.publish(Self.state, "0", qos: .atLeastOnce, retain: true)?.reasonCode == .notAuthorized)
    }

    @Test func `a will that tells of a bridge is a bridge's, and no other client's CONNECT is refused for one`() {
        let broker = broker()
        bridge("house", broker).publish(Self.state, "1", qos: .atLeastOnce, retain: true)
        let stranger = broker.client("stranger")
        #expect(stranger.connect(will: will(Self.state))?.reasonCode == .success)
        stranger.lose()
        #expect(states(broker) == ["house/state 1"])
        let house = broker.client("house", version: .v311)
        house.connect(will: will(Self.state), isBridge: true)
        house.lose()
        #expect(states(broker) == ["house/state 0"])
    }

    @Test(arguments: [1, 4]) func `bridges keep a bounded number of small messages, and those that are there go on`(shards: Int) {
        let broker = broker(shards: shards)
        let bridge = bridge("b", broker)
        for number in 0..<Limits.bridgeStatesMax * 2 {
            bridge.publish("$SYS/broker/connection/b\(number)/state", "1", retain: true)
        }
        let kept = states(broker).count
        #expect((Limits.bridgeStatesMax / 2...Limits.bridgeStatesMax).contains(kept))
        #expect(broker.statistics().drops[.noRoom] == UInt64(Limits.bridgeStatesMax * 2 - kept))
        bridge.publish("$SYS/broker/connection/b0/state", "0", retain: true)
        #expect(states(broker).contains("b0/state 0"))
        // One that goes makes room.
        broker.advance(seconds: 1)
        for number in 0..<Limits.bridgeStatesMax / 2 {
            bridge.publish("$SYS/broker/connection/b\(number)/state", "", retain: true)
        }
        for number in 0..<Limits.bridgeStatesMax / 4 {
            bridge.publish("$SYS/broker/connection/late\(number)/state", "1", retain: true)
        }
        #expect(states(broker).contains { $0.hasPrefix("late") })
        let large: EncodedString = "$SYS/broker/connection/\(String(repeating: "x", count: 60_000))/state"
        bridge.publish(large, "1", qos: .atLeastOnce, retain: true)
        bridge.publish("$SYS/broker/connection/b0/state", String(repeating: "1", count: 2000), qos: .atLeastOnce, retain: true)
        #expect(states(broker).allSatisfy { $0.utf8.count < 100 })
    }

    @Test(arguments: [1, 4]) func `names of bridges that have levels of their own count as the others do`(shards: Int) {
        let broker = broker(shards: shards)
        let bridge = bridge("b", broker)
        for number in 0..<Limits.bridgeStatesMax * 2 {
            bridge.publish("$SYS/broker/connection/a/\(number)/state", "1", retain: true)
            if number % 100 == 0 { broker.advance(seconds: 2) }
        }
        #expect((Limits.bridgeStatesMax / 2...Limits.bridgeStatesMax).contains(states(broker).count))
        // What goes makes room.
        broker.advance(seconds: 2)
        for number in 0..<Limits.bridgeStatesMax { bridge.publish("$SYS/broker/connection/a/\(number)/state", "", retain: true) }
        for number in 0..<100 { bridge.publish("$SYS/broker/connection/late/\(number)/state", "1", retain: true) }
        #expect(states(broker).contains { $0.hasPrefix("late") })
    }

    @Test func `a will that tells of a bridge is no larger than what it publishes`() {
        let broker = broker()
        let large = Array(repeating: UInt8(ascii: "0"), count: Limits.bridgeStateBytesMax)
        let house = broker.client("house", version: .v311)
        var will = will(Self.state)
        will.payload = large
        #expect(house.connect(will: will, isBridge: true)?.reasonCode == .success)
        house.lose()
        let named = broker.client("house")
        will.payload = [UInt8(ascii: "0")]
        will.properties.contentType = EncodedString(String(repeating: "x", count: Limits.bridgeStateBytesMax))
        #expect(named.connect(will: will)?.reasonCode == .success)
        named.lose()
        #expect(states(broker).isEmpty)
        #expect(broker.logLines.contains { $0.hasSuffix(": a bridge tells more than 1024 bytes of itself.") })
    }

    @Test(arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `behind a mount point nothing looks like a topic of the broker's, or has no name`(shards: Int, qos: QoS) {
        let broker = broker(shards: shards) {
            $0.listeners = [ListenerPolicy(), ListenerPolicy()]
            $0.listeners[1].mountPoint = MountPoint("m/")
        }
        let inside = broker.client("inside")
        inside.connect(listener: 1)
        for filter in ["#", "$SYS/#", "$CONTROL/#"] as [TopicFilter] { inside.subscribe(filter) }
        let outside = broker.connected("outside")
        for topic in ["m/$SYS/broker/version", "m/$CONTROL/x", "m/$share/g/x", "m/"] as [EncodedString] {
            outside.publish(topic, "x", qos: qos, retain: true)
        }
        outside.publish("m/a/$SYS", "x", qos: qos)
        #expect(inside.messages.map(\.topic) == ["a/$SYS"])
        #expect(broker.statistics().drops[.notAuthorised] == 4)
        let late = broker.client("late")
        late.connect(listener: 1)
        for filter in ["#", "$SYS/#"] as [TopicFilter] { late.subscribe(filter) }
        #expect(late.messages.isEmpty)
    }
}
