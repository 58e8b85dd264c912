import BrokerCore
import BrokerModel
import BrokerSimulation
import MQTTCodec
import MartletTestKit
import Testing

@testable import Federation

/// Three brokers whose bridges lead from each to each.
@Suite struct LoopTests {
    private static let names: [EncodedString] = ["A", "B", "C"]

    /// Three brokers of which those named say who they are, and bridges of each to the next; in a full mesh to the one
    /// before too.
    private final class Ring {
        let brokers: [SimulatedBroker]
        let watchers: [TestClient]
        private(set) var bridges: [SimulatedBridge] = []

        init(_ direction: BridgedTopic.Direction, known: Set<EncodedString> = Set(LoopTests.names), isMesh: Bool = false) {
            brokers = LoopTests.names.enumerated().map { index, name in
                SimulatedBroker(
                    settings: SimulatedBroker.testSettings { $0.brokerIdentifier = known.contains(name) ? name : nil },
                    seed: UInt64(index + 1))
            }
            watchers = brokers.map { broker in
                let watcher = broker.connected("watcher")
                watcher.subscribe("#", qos: .atLeastOnce)
                return watcher
            }
            for index in 0..<3 {
                for step in isMesh ? [1, 2] : [1] {
                    let settings = BridgeSettings.test(.v5, [BridgedTopic("#", direction, qos: 1)]) {
                        let name = "\(LoopTests.names[index])\(step)"
                        $0.remote.clientIdentifier = "\(name)"
                        $0.localClientIdentifier = "local.\(name)"
                        $0.brokerIdentifier = known.contains(LoopTests.names[index]) ? LoopTests.names[index] : nil
                    }
                    bridges.append(
                        SimulatedBridge(settings, near: brokers[index], far: brokers[(index + step) % 3], seed: UInt64(index)))
                }
            }
            #expect(settle())
        }

        /// Returns false if there is no end of it.
        func settle() -> Bool {
            for _ in 0..<5000 {
                for broker in brokers { broker.settle() }
                let isMoving = bridges.map { $0.carry() }.contains(true)
                if !isMoving, !brokers.contains(where: \.hasWorkOrStore) { return true }
            }
            return false
        }

        /// How often each broker has a message that is published at the first.
        func publish() -> [Int] {
            brokers[0].connected("publisher").publish("t", "x", qos: .atLeastOnce)
            #expect(settle())
            return watchers.map { $0.takeMessages().count }
        }

        func powerOff() { for broker in brokers { broker.powerOff() } }
    }

    @Test(arguments: [BridgedTopic.Direction.out, .in])
    func `around a ring a message comes to each broker once`(_ direction: BridgedTopic.Direction) {
        let ring = Ring(direction)
        defer { ring.powerOff() }
        #expect(ring.bridges.allSatisfy { $0.isConnected })
        #expect(ring.publish() == [1, 1, 1])
    }

    @Test func `both ways around a ring it comes once each way, and not to where it began`() {
        let ring = Ring(.both)
        defer { ring.powerOff() }
        #expect(ring.publish() == [1, 2, 2])
    }

    @Test func `in a full mesh it comes as often as there are ways, and not to where it began`() {
        let ring = Ring(.both, isMesh: true)
        defer { ring.powerOff() }
        let counts = ring.publish()
        #expect(counts == [1, 6, 6])
    }

    @Test(arguments: [BridgedTopic.Direction.out, .in, .both])
    func `one broker that knows the property is enough for an end`(_ direction: BridgedTopic.Direction) {
        let ring = Ring(direction, known: ["B"])
        defer { ring.powerOff() }
        let counts = ring.publish()
        #expect(counts.allSatisfy { (1...6).contains($0) }, "\(counts)")
    }

    @Test func `a message of another topic may carry the properties of one that was received`() {
        let ring = Ring(.out)
        defer { ring.powerOff() }
        ring.brokers[0].connected("publisher").publish("request", "x", qos: .atLeastOnce)
        #expect(ring.settle())
        let received = ring.watchers[1].takeMessages()
        #expect(received.map(\.topic) == ["request"])
        for watcher in ring.watchers { _ = watcher.takeMessages() }
        let copied = received.first?.properties ?? Properties()
        #expect(!copied.userProperties.isEmpty)
        ring.brokers[1].connected("responder").publish("response", "y", qos: .atLeastOnce, properties: copied)
        #expect(ring.settle())
        #expect(ring.watchers.map { $0.takeMessages().map(\.topic) } == [["response"], ["response"], ["response"]])
    }

    @Test func `a message that has been in very many brokers goes no further`() throws {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out, qos: 1)]) {
                $0.notifies = false
                $0.brokerIdentifier = "A"
            })
        lone.join()
        _ = (try lone.sentThere(), try lone.sentHere())
        for count in [Limits.pathStationsMax - 1, Limits.pathStationsMax] {
            var packet = PublishPacket(topic: "a", packetIdentifier: UInt16(count), qos: .atLeastOnce, payload: [])
            packet.properties.userProperties = (0..<count).map { number in
                UserProperty(name: UserProperty.brokerName, value: "\(number)-00000000")
            }
            lone.here(.publish(packet))
        }
        let sent = try lone.sentThere().compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
        #expect(sent.map(\.properties.userProperties.count) == [Limits.pathStationsMax])
        #expect(try lone.sentHere().count == 1)
        #expect(lone.bridge.report.echoes == 1)
    }
}
