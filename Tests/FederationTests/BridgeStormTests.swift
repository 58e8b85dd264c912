import BrokerCore
import BrokerSimulation
import MQTTCodec
import MartletTestKit
import SeededRandom
import TestBasics
import Testing

@testable import Federation

/// Cuts and crashes at every step of a bridge: what was acknowledged on one side arrives on the other, in order; at QoS 2 once.
@Suite struct BridgeStormTests {
    /// One storm: messages go both ways while the connection is cut and both brokers lose their power.
    private struct Storm {
        let both: SimulatedBridge
        var random: SeededGenerator
        let version: ProtocolVersion
        private var sent: [String: [String]] = [:]

        init(seed: UInt64, version: ProtocolVersion) {
            random = SeededGenerator(seed: seed)
            self.version = version
            let near = SimulatedBroker(shards: random.oneIn(2) ? 1 : 2, seed: seed, store: SimulatedStore(seed: seed))
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
            both = SimulatedBridge(
                .test(version, [BridgedTopic("out/#", .out, qos: 2), BridgedTopic("in/#", .in, qos: 2)]) {
                    $0.receiveMaximum = 5
                }, near: near, far: far, seed: seed)
            // From here on the other broker has a session for it.
            both.heal()
            near.commit()
            far.commit()
        }

        /// Some steps of everybody, in an order that the seed decides.
        mutating func work() {
            for _ in 0..<random.below(12) {
                switch random.below(4) {
                case 0: both.near.stepOnce()
                case 1: both.far.stepOnce()
                default: _ = both.carry()
                }
            }
        }

        mutating func publish(_ number: Int) {
            let qos: QoS = random.oneIn(2) ? .exactlyOnce : .atLeastOnce
            let isOut = random.oneIn(2)
            let broker = isOut ? both.near : both.far
            let topic = "\(isOut ? "out" : "in")/\(qos.rawValue)"
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
            case 0, 1: both.cut()
            case 2: both.crashNear()
            case 3: both.crashFar()
            case 4: both.advance(milliseconds: UInt64(random.below(40_000)))
            default: break
            }
        }

        /// What is wrong in the end; nil for nothing.
        mutating func verdict() -> String? {
            both.heal()
            both.settle()
            guard both.isConnected else { return "not connected: \(both.lines.suffix(3))" }
            for broker in [both.near, both.far] {
                let collector = broker.client("collector")
                collector.connect(clean: false, expiry: .max)
                both.settle()
                let came = Dictionary(grouping: collector.takeMessages(), by: \.topic).mapValues { $0.map(\.text) }
                let direction = broker === both.near ? "in" : "out"
                for qos in 1...2 {
                    let wanted = sent["\(direction)/\(qos)"] ?? []
                    var found = came["\(direction)/\(qos)"] ?? []
                    if qos == 1 {
                        // Again is allowed, lost and out of order is not: what comes first of each is in order.
                        var seen: Set<String> = []
                        found = found.filter { seen.insert($0).inserted }
                    }
                    if found != wanted {
                        return "\(direction) at QoS \(qos): sent \(wanted), came \(came["\(direction)/\(qos)"] ?? [])"
                    }
                }
            }
            return nil
        }
    }

    private func run(seed: UInt64) -> String? {
        var storm = Storm(seed: seed, version: seed % 3 == 0 ? .v5 : .v311)
        for number in 0..<24 {
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
            if let complaint = run(seed: seed) { Issue.record("seed \(seed): \(complaint)") }
        }
    }
}
