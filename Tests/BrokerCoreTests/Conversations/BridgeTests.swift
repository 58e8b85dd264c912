import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// What mosquitto's bridges ask for with bit 7 of the protocol version.
@Suite struct BridgeTests {
    private static let earlier: [ProtocolVersion] = [.v31, .v311]

    private func bridge(_ broker: SimulatedBroker, _ version: ProtocolVersion) -> TestClient {
        let bridge = broker.client("bridge", version: version)
        bridge.connect(isBridge: true)
        return bridge
    }

    @Test(arguments: [1, 4], earlier) func `a bridge does not get what it has sent itself`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let bridge = bridge(broker, version)
        bridge.subscribe("#")
        let other = broker.connected("other")
        other.subscribe("#")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            bridge.publish("t", "from the bridge", qos: qos)
            other.publish("t", "from here", qos: qos)
        }
        #expect(bridge.texts == ["from here", "from here", "from here"])
        #expect(other.messages.count == 6)
    }

    @Test(arguments: [1, 4], earlier) func `a bridge gets RETAIN as it was published`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let bridge = bridge(broker, version)
        bridge.subscribe("t")
        bridge.subscribe("$share/group/s")
        let plain = broker.connected("plain", version: version)
        plain.subscribe("t")
        let publisher = broker.connected("publisher")
        for topic in ["t", "s"] as [EncodedString] {
            for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
                publisher.publish(topic, "x", qos: qos, retain: true)
                publisher.publish(topic, "x", qos: qos)
            }
        }
        #expect(bridge.messages.map(\.retain) == Array(repeating: [true, false], count: 6).flatMap { $0 })
        #expect(plain.messages.allSatisfy { !$0.retain } && plain.messages.count == 6)
    }

    @Test func `a bridge of 5.0 asks for both itself`() {
        let broker = SimulatedBroker()
        let bridge = bridge(broker, .v5)
        bridge.subscribe("plain")
        bridge.subscribe("asked", noLocal: true, retainAsPublished: true)
        let publisher = broker.connected("publisher")
        for client in [bridge, publisher] {
            for topic in ["plain", "asked"] as [EncodedString] { client.publish(topic, "x", qos: .atLeastOnce, retain: true) }
        }
        #expect(bridge.messages.map(\.topic) == ["plain", "plain", "asked"])
        #expect(bridge.messages.map(\.retain) == [false, false, true])
    }
}
