import BrokerModel
import BrokerSimulation
import Bytes
import MQTTCodec
import MartletTestKit
import Testing

@testable import Federation

/// Two brokers and a bridge between them.
@Suite struct BridgeTests {
    private func joined(_ settings: BridgeSettings, far: BrokerSettings = SimulatedBroker.testSettings) -> SimulatedBridge {
        let bridge = SimulatedBridge(settings, near: SimulatedBroker(), far: SimulatedBroker(settings: far, seed: 2), seed: 1)
        bridge.settle()
        return bridge
    }

    private static let versions: [ProtocolVersion] = [.v31, .v311, .v5]

    @Test(arguments: versions) func `messages go out, in, and both ways under their names there`(_ version: ProtocolVersion) {
        let both = joined(
            .test(
                version,
                [
                    BridgedTopic("out/#", .out, qos: 2, localPrefix: "l/", remotePrefix: "r/"),
                    BridgedTopic("in/#", .in, qos: 2, localPrefix: "l/", remotePrefix: "r/"),
                    BridgedTopic("both/#", .both, qos: 1),
                ]))
        defer { both.powerOff() }
        #expect(both.isConnected)
        let (here, there) = (both.near.connected("here"), both.far.connected("there"))
        here.subscribe("#")
        there.subscribe("#")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            here.publish("l/out/\(qos.rawValue)", "o", qos: qos)
            there.publish("r/in/\(qos.rawValue)", "i", qos: qos)
            here.publish("both/\(qos.rawValue)", "h", qos: qos)
            there.publish("both/\(qos.rawValue)", "t", qos: qos)
            there.publish("r/out/no", "n", qos: qos)
        }
        both.settle()
        let atHere = here.takeMessages().filter { !$0.topic.hasPrefix("l/out") && $0.text != "h" }
        let atThere = there.takeMessages().filter { $0.text != "i" && $0.text != "n" && $0.text != "t" }
        #expect(atHere.map(\.topic) == ["l/in/0", "both/0", "l/in/1", "both/1", "l/in/2", "both/2"])
        #expect(atHere.map(\.qos.rawValue) == [0, 0, 1, 1, 2, 1])
        #expect(atThere.map(\.topic) == ["r/out/0", "both/0", "r/out/1", "both/1", "r/out/2", "both/2"])
        #expect(atThere.map(\.qos.rawValue) == [0, 0, 1, 1, 2, 1])
    }

    @Test(arguments: [true, false])
    func `another way to the other broker is taken at once, or with the next connection`(atOnce: Bool) {
        let both = joined(.test(.v311, [BridgedTopic("#", .both, qos: 1)]))
        defer { both.powerOff() }
        both.renew(isElsewhere: false, atOnce: true)
        both.settle()
        #expect(both.bridge.report.connectionCount == 1, "nothing is other than it was")
        both.renew(isElsewhere: true, atOnce: atOnce)
        both.settle()
        #expect(both.isConnected && both.bridge.report.connectionCount == (atOnce ? 2 : 1))
    }

    @Test func `a bridge of 5 point 0 carries the properties of messages`() {
        let both = joined(.test(.v5, [BridgedTopic("#", .both, qos: 1)]))
        defer { both.powerOff() }
        let there = both.far.connected("there")
        there.subscribe("a")
        var properties = Properties()
        properties.contentType = "text/plain"
        properties.messageExpiryInterval = 60
        properties.correlationData = [1, 2]
        properties.userProperties = [UserProperty(name: "n", value: "v")]
        both.near.connected("here").publish("a", "x", qos: .atLeastOnce, properties: properties)
        both.settle()
        #expect(there.takeMessages().map(\.properties) == [properties])
    }

    @Test(arguments: versions) func `retained messages of either side are there on the other one`(_ version: ProtocolVersion) {
        let (near, far) = (SimulatedBroker(), SimulatedBroker(seed: 2))
        near.connected("p").publish("out/a", "1", qos: .atLeastOnce, retain: true)
        far.connected("p").publish("in/a", "2", qos: .atLeastOnce, retain: true)
        let both = SimulatedBridge(
            .test(version, [BridgedTopic("out/#", .out, qos: 1), BridgedTopic("in/#", .in, qos: 1)]), near: near, far: far, seed: 1)
        defer { both.powerOff() }
        both.settle()
        let (here, there) = (near.connected("here"), far.connected("there"))
        here.subscribe("in/#")
        there.subscribe("out/#")
        #expect(here.takeMessages().map(\.text) == ["2"])
        #expect(there.takeMessages().map(\.text) == ["1"])
    }

    @Test func `both brokers are told with a retained message whether the bridge is connected`() {
        let both = joined(.test(.v311, [BridgedTopic("a", .out)]))
        defer { both.powerOff() }
        let topic: TopicFilter = "$SYS/broker/connection/host.b/state"
        let (here, there) = (both.near.connected("here"), both.far.connected("there"))
        here.subscribe(topic)
        there.subscribe(topic)
        both.cut()
        both.settle()
        both.heal()
        #expect(here.takeMessages().map(\.text) == ["1", "0", "1"])
        #expect(there.takeMessages().map(\.text) == ["1", "0", "1"])
        both.bridge.stop(now: both.near.now)
        both.advance(milliseconds: 1)
        both.settle()
        #expect(here.takeMessages().map(\.text) == ["0"])
        #expect(there.takeMessages().map(\.text) == ["0"])
    }

    @Test func `a broker that knows no bridges sends own messages back, and none is taken, whatever is cut`() {
        for seed in 1...5 as ClosedRange<UInt64> {
            var random = SeededGenerator(seed: seed)
            let (near, far) = (SimulatedBroker(seed: seed), SimulatedBroker(seed: seed + 100))
            let settings = BridgeSettings.test(.v311, [BridgedTopic("t", .both, qos: 2)]) { $0.announcesBridge = false }
            let both = SimulatedBridge(settings, near: near, far: far, seed: seed)
            both.heal()
            let watchers = [near, far].map { broker in
                let watcher = broker.connected("watcher")
                watcher.subscribe("t", qos: .exactlyOnce)
                return watcher
            }
            for number in 0..<40 {
                let broker = number % 2 == 0 ? near : far
                broker.connected("publisher").publish("t", "\(number)", qos: .exactlyOnce)
                for _ in 0..<random.below(30) {
                    near.stepOnce()
                    far.stepOnce()
                    _ = both.carry()
                }
                if random.oneIn(4) { both.cut() }
                if random.oneIn(4) { both.advance(milliseconds: 8000) }
            }
            both.heal()
            both.settle()
            for watcher in watchers {
                #expect(watcher.takeMessages().compactMap { Int($0.text) }.sorted() == Array(0..<40), "seed \(seed)")
            }
            #expect(both.bridge.report.echoes >= 20)
            both.powerOff()
        }
    }
}
