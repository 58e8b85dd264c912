import BrokerModel
import BrokerSimulation
import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import Federation

/// Cuts and crashes at every step of a bridge: what was acknowledged on one side arrives on the other, in order; at QoS
/// 2 once.
@Suite struct BridgeStormTests {
    /// One storm: messages go both ways while the connection is cut and both brokers lose their power.
    private struct Storm {
        let both: SimulatedBridge
        /// The bridge's connections besides the first.
        let others: [SimulatedBridge]
        /// How many topics each QoS has in each direction.
        let topicCount: Int
        var random: SeededGenerator
        let version: ProtocolVersion
        private var sent: [String: [String]] = [:]

        init(seed: UInt64, version: ProtocolVersion, connections: Int) {
            random = SeededGenerator(seed: seed)
            self.version = version
            topicCount = connections == 1 ? 1 : 5
            let bridge = BridgeSettings.test(
                version, [BridgedTopic("out/#", .out, qos: 2), BridgedTopic("in/#", .in, qos: 2)]
            ) { $0.receiveMaximum = 5 }
            let all = (1...connections).map { bridge.connection($0, of: connections) }
            let settings = SimulatedBroker.testSettings {
                guard connections > 1 else { return }
                for (index, connection) in all.enumerated() {
                    $0.topicParts[connection.localClientIdentifier] = TopicPart(
                        index: index, count: connections, publisher: bridge.localClientIdentifier)
                }
            }
            let near = SimulatedBroker(
                shards: random.oneIn(2) ? 1 : connections > 1 ? 3 : 2, settings: settings, seed: seed,
                store: SimulatedStore(seed: seed))
            let far = SimulatedBroker(seed: seed &+ 1, store: SimulatedStore(seed: seed &+ 1))
            near.checksInvariants = false
            far.checksInvariants = false
            for broker in [near, far] {
                let collector = broker.client("collector")
                collector.connect(clean: false, expiry: .max)
                collector.subscribe(broker === near ? "in/#" : "out/#")
                broker.commit()
                collector.disconnect()
            }
            let bridges = all.map { SimulatedBridge($0, near: near, far: far, seed: seed) }
            (both, others) = (bridges[0], Array(bridges.dropFirst()))
            // From here on the other broker has a session for it.
            both.heal(with: others)
            near.commit()
            far.commit()
        }

        private mutating func anyConnection() -> SimulatedBridge {
            let number = others.isEmpty ? 0 : random.below(others.count + 1)
            return number == 0 ? both : others[number - 1]
        }

        /// Some steps of everybody, in an order that the seed decides.
        mutating func work() {
            for _ in 0..<random.below(12) {
                switch random.below(4) {
                case 0: both.near.stepOnce()
                case 1: both.far.stepOnce()
                default: _ = anyConnection().carry()
                }
            }
        }

        mutating func publish(_ number: Int) {
            let qos: QoS = random.oneIn(2) ? .exactlyOnce : .atLeastOnce
            let isOut = random.oneIn(2)
            let broker = isOut ? both.near : both.far
            let topic = "\(isOut ? "out" : "in")/\(qos.rawValue)/\(topicCount == 1 ? 0 : random.below(topicCount))"
            let publisher = broker.connected("publisher")
            publisher.publish(EncodedString(topic) ?? "", "\(number)", qos: qos)
            // What the bridge may acknowledge at once is written after a moment only.
            for _ in 0..<20 where !publisher.unfinished.isEmpty {
                broker.commit()
                broker.advance(milliseconds: 5)
            }
            precondition(publisher.unfinished.isEmpty, "the publisher has no answer")
            publisher.disconnect()
            sent[topic, default: []].append("\(number)")
        }

        mutating func trouble() {
            switch random.below(6) {
            case 0, 1: anyConnection().cut()
            case 2: both.crashNear(with: others)
            case 3: both.crashFar(with: others)
            case 4: both.advance(milliseconds: UInt64(random.below(40_000)), with: others)
            default: break
            }
        }

        /// What is wrong in the end; nil for nothing.
        mutating func verdict() -> String? {
            both.heal(with: others)
            both.settle(with: others)
            guard both.isConnected, others.allSatisfy(\.isConnected) else { return "not connected: \(both.lines.suffix(3))" }
            for broker in [both.near, both.far] {
                let collector = broker.client("collector")
                collector.connect(clean: false, expiry: .max)
                both.settle(with: others)
                let came = Dictionary(grouping: collector.takeMessages(), by: \.topic).mapValues { $0.map(\.text) }
                let direction = broker === both.near ? "in" : "out"
                for (qos, number) in (1...2).flatMap({ qos in (0..<topicCount).map { (qos, $0) } }) {
                    let topic = "\(direction)/\(qos)/\(number)"
                    let wanted = sent[topic] ?? []
                    var found = came[topic] ?? []
                    if qos == 1 {
                        // Again is allowed, lost and out of order is not: what comes first of each is in order.
                        var seen: Set<String> = []
                        found = found.filter { seen.insert($0).inserted }
                    }
                    if found != wanted {
                        return "\(topic): sent \(wanted), came \(came[topic] ?? [])"
                    }
                }
            }
            return nil
        }
    }

    private func run(seed: UInt64, connections: Int) -> String? {
        var storm = Storm(seed: seed, version: seed % 3 == 0 ? .v5 : .v311, connections: connections)
        for number in 0..<(connections == 1 ? 24 : 48) {
            storm.work()
            storm.publish(number)
            storm.work()
            if storm.random.oneIn(3) { storm.trouble() }
        }
        defer { storm.both.powerOff() }
        return storm.verdict()
    }

    @Test(arguments: Seeds.parts(100, perPart: 25))
    func `nothing is lost or out of order, and at QoS 2 nothing comes twice, whatever fails at whichever step`(
        seeds: ClosedRange<UInt64>
    ) {
        for seed in seeds {
            if let complaint = run(seed: seed, connections: 1) { Issue.record("\(complaint): \(Seeds.replay(seed))") }
        }
    }

    @Test(arguments: Seeds.parts(50, perPart: 25))
    func `the same holds of each topic for a bridge with three connections`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            if let complaint = run(seed: seed, connections: 3) { Issue.record("\(complaint): \(Seeds.replay(seed))") }
        }
    }
}
