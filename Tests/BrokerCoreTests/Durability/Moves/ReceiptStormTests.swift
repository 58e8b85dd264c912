import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What a client has sent with QoS 2 is taken once and in its order, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct ReceiptStormTests {
    @Test(.statement("MQTT-4.3.3-10", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `no message of QoS 2 is taken twice or lost when nodes are lost with their disks`(seeds: ClosedRange<UInt64>) {
        var deeds = ReceiptStorm.Deeds()
        for seed in seeds {
            var storm = ReceiptStorm(seed: seed, deeds)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds = storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 2, "\(deeds)")
        #expect(deeds.open >= seeds.count && deeds.reused >= seeds.count, "\(deeds)")
    }
}

/// A client that publishes QoS 2 while its nodes are lost one after the other with their disks, or crash, whatever of
/// that has come into the log. One seed is one run.
private struct ReceiptStorm {
    struct Deeds {
        var losses = 0
        var crashes = 0
        /// Messages that were under way then.
        var open = 0
        /// Identifiers that were used more than once.
        var reused = 0
    }

    private static let listening = 3
    private let cluster = MovingCluster(nodes: 4) { $0.wallClockOffsetMilliseconds = 1_600_000_000_000 }
    private let publisher: TestClient
    private let subscriber: TestClient
    private var random: SeededGenerator
    /// Whether all messages are alike, so that no digest tells a message from one that had its identifier before.
    private let areAlike: Bool
    private var sent: [String] = []
    private var identifiers: [UInt16: Int] = [:]
    private(set) var deeds: Deeds
    private(set) var objections: [String] = []

    init(seed: UInt64, _ deeds: Deeds) {
        self.deeds = deeds
        random = SeededGenerator(seed: seed)
        areAlike = seed % 2 == 0
        subscriber = cluster.lasting("subscriber", on: Self.listening, "t")
        publisher = cluster.lasting("publisher", on: 0)
        publisher.resendsAtOnce = true
        publisher.packetIdentifierMax = 5
    }

    mutating func run() {
        for node in 0..<3 {
            (cluster.logs, cluster.readers) = (false, [])
            for _ in 0..<Int.random(in: 5...30, using: &random) { act(on: node) }
            guard node < 2 else { break }
            deeds.open += publisher.unfinished.count
            deeds.losses += 1
            cluster.nodes[node].store?.mode = .prompt
            cluster.lose(node, logsSome: random.oneIn(2))
            (cluster.logs, cluster.readers) = (true, [node + 1, Self.listening])
            cluster.connect(publisher, to: node + 1)
            if publisher.connack?.sessionPresent != true { objections.append("the session is lost with node \(node)") }
        }
        (cluster.logs, cluster.readers) = (true, [2, Self.listening])
        cluster.nodes[2].store?.mode = .prompt
        cluster.run()
        if !publisher.isConnected { cluster.connect(publisher, to: 2) }
        cluster.nodes[2].advance(milliseconds: 1000)
        cluster.run()
        judge()
    }

    private mutating func act(on node: Int) {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<40: publish()
        case 40..<60: cluster.log(someOf: node, using: &random)
        case 60..<75: cluster.read(node, through: Int.random(in: 0...max(1, cluster.records.count), using: &random))
        case 75..<85: cluster.saveLogPositions()
        case 85..<90:
            publisher.lose()
            cluster.connect(publisher, to: node)
        case 90..<95: cluster.nodes[node].store?.mode = random.oneIn(2) ? .paused : .prompt
        case 95..<98: crash(node)
        default: for node in cluster.nodes { node.advance(milliseconds: 50) }
        }
        cluster.nodes[node].settle()
    }

    private mutating func publish() {
        guard publisher.isConnected, publisher.unfinished.count < 4 else { return }
        sent.append(areAlike ? "again" : "\(sent.count)")
        publisher.publish("t", sent[sent.count - 1], qos: .exactlyOnce, until: .sent)
        if let identifier = publisher.unfinished.last { identifiers[identifier, default: 0] += 1 }
    }

    private mutating func crash(_ node: Int) {
        deeds.crashes += 1
        deeds.open += publisher.unfinished.count
        cluster.nodes[node].store?.mode = .prompt
        cluster.crash(node, committing: Int.random(in: 0...3, using: &random), logsSome: random.oneIn(2))
        cluster.connect(publisher, to: node)
    }

    private mutating func judge() {
        deeds.reused += identifiers.values.count { $0 > 1 }
        if !publisher.unfinished.isEmpty { objections.append("the publisher waits for \(publisher.unfinished)") }
        if subscriber.texts != sent { objections.append("\(subscriber.texts) came of \(sent)") }
    }
}
