import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What a client is sent with QoS 2 comes once and in its order, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct DeliveryStormTests {
    @Test(.statement("MQTT-4.3.3-1", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `no message of QoS 2 comes twice or is lost when nodes are lost with their disks`(seeds: ClosedRange<UInt64>) {
        var deeds = DeliveryStorm.Deeds()
        for seed in seeds {
            var storm = DeliveryStorm(seed: seed, deeds)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds = storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 2, "\(deeds)")
        #expect(deeds.held >= seeds.count && deeds.repeated >= seeds.count / 2, "\(deeds)")
    }
}

/// A client that is sent QoS 2 while its nodes are lost one after the other with their disks, or crash, whatever of its
/// flows has come into the log. One seed is one run.
private struct DeliveryStorm {
    struct Deeds {
        var losses = 0
        var crashes = 0
        /// Messages that the client had received, and whose packet identifiers it held, when a node was lost.
        var held = 0
        /// PUBLISH that came for one of these.
        var repeated = 0
    }

    private static let speaking = 3
    private let cluster: MovingCluster
    private let publisher: TestClient
    private let subscriber: TestClient
    private var random: SeededGenerator
    private var sent: [String] = []
    private(set) var deeds: Deeds
    private(set) var objections: [String] = []

    init(seed: UInt64, _ deeds: Deeds) {
        self.deeds = deeds
        random = SeededGenerator(seed: seed)
        cluster = MovingCluster(nodes: 4) {
            $0.wallClockOffsetMilliseconds = 1_600_000_000_000
            // A part of the queues is in the store alone.
            if seed % 2 == 0 { $0.residentMessagesMax = 2 }
        }
        subscriber = cluster.lasting("subscriber", on: 0, "t")
        publisher = cluster.lasting("publisher", on: Self.speaking)
    }

    mutating func run() {
        for node in 0..<3 {
            for _ in 0..<Int.random(in: 5...40, using: &random) { act(on: node) }
            guard node < 2 else { break }
            deeds.losses += 1
            deeds.held += subscriber.unreleased.count
            cluster.nodes[node].store?.mode = .prompt
            cluster.lose(node, logsSome: random.oneIn(2))
            subscriber.acknowledgement = random.oneIn(2) ? .automatic : .withoutPubcomp
            connect(to: node + 1)
            if subscriber.connack?.sessionPresent != true { objections.append("the session is lost with node \(node)") }
            deeds.repeated += subscriber.publishesOfConnection.count { $0.duplicate }
        }
        cluster.nodes[2].store?.mode = .prompt
        subscriber.acknowledgement = .automatic
        subscriber.lose()
        connect(to: 2)
        // What a node that is lost left behind does no harm later.
        for _ in 0..<8 { publish(readBy: 2) }
        cluster.run()
        if subscriber.texts != sent { objections.append("\(subscriber.texts) came of \(sent)") }
        if !subscriber.unreleased.isEmpty { objections.append("\(subscriber.unreleased) are held still") }
    }

    private mutating func act(on node: Int) {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35: publish(readBy: node)
        case 35..<45:
            subscriber.acknowledgement = [.automatic, .withoutPubcomp, .manual].randomElement(using: &random) ?? .automatic
        case 45..<60: acknowledge()
        case 60..<70: cluster.saveLogPositions()
        case 70..<80:
            subscriber.lose()
            if random.oneIn(2) { connect(to: node) }
        case 80..<85: connect(to: node)
        case 85..<88: cluster.nodes[node].store?.mode = random.oneIn(2) ? .paused : .prompt
        case 88..<91: crash(node)
        case 91..<95: cluster.logs.toggle()
        default: cluster.log(someOf: node, using: &random)
        }
        cluster.nodes[node].settle()
        if random.oneIn(3) { cluster.run() }
    }

    private func connect(to node: Int) {
        cluster.logs = true
        cluster.nodes[node].store?.mode = .prompt
        cluster.run()
        if !subscriber.isConnected { cluster.connect(subscriber, to: node) }
    }

    /// What is published comes into the log, also while nothing of the subscriber's node does.
    private mutating func publish(readBy node: Int) {
        sent.append("\(sent.count)")
        publisher.publish("t", sent[sent.count - 1], qos: .exactlyOnce)
        cluster.run()
        while !publisher.unfinished.isEmpty {
            cluster.log(someOf: Self.speaking, using: &random)
            cluster.nodes[Self.speaking].settle()
        }
        cluster.read(node)
    }

    /// Answers some of what came, in its order, and not all of it.
    private mutating func acknowledge() {
        guard subscriber.isConnected else { return }
        for last in subscriber.lastOfIdentifiers where random.oneIn(2) { subscriber.acknowledge(last.answer, last.identifier) }
    }

    private mutating func crash(_ node: Int) {
        deeds.crashes += 1
        cluster.nodes[node].store?.mode = .prompt
        cluster.crash(node, committing: Int.random(in: 0...3, using: &random), logsSome: random.oneIn(2))
        connect(to: node)
    }
}
