import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Sessions that go from node to node lose nothing that was acknowledged, get nothing of QoS 2 twice, and keep the
/// order of each publisher and topic.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct MoveStormTests {
    @Test(
        .statement("MQTT-4.3.3-10", .v5), .statement("MQTT-4.6.0-6", .v5), .timeLimit(.minutes(60)),
        arguments: Seeds.parts(40, perPart: 10))
    func `sessions that move lose nothing and repeat nothing, whatever crashes`(seeds: ClosedRange<UInt64>) {
        var deeds = MoveStorm.Deeds()
        for seed in seeds {
            var storm = MoveStorm(seed: seed, deeds)
            storm.run(actions: 150)
            #expect(storm.objections.isEmpty, "\(storm.objections.prefix(3)): \(Seeds.replay(seed))")
            deeds = storm.deeds
        }
        guard seeds.count >= 10 else { return }
        // A third of the seeds crash nothing, and the others two or three times.
        #expect(deeds.crashes >= seeds.count / 4 && deeds.hops >= 10 * seeds.count, "\(deeds)")
        #expect(deeds.resumed >= 4 * seeds.count && deeds.received >= 10 * seeds.count, "\(deeds)")
        #expect(deeds.replayed >= 2 * seeds.count && deeds.looks > 0 && deeds.begun > seeds.count, "\(deeds)")
    }
}

/// Clients that go from node to node of a cluster while they publish and receive, and nodes that crash meanwhile, whose
/// stores commit late, and which read the log at different times.
///
/// Beside them one client begins anew each time, is let in before the node is asked that it was connected to, and may
/// publish there as well until it is.
///
/// One seed is one run. In the end everybody comes back, and `objections` says what the cluster owes them.
private struct MoveStorm {
    struct Sent {
        let text: String
        let topic: String
        let publisher: Int
        let qos: QoS
    }

    struct Deeds {
        var crashes = 0
        var hops = 0
        var resumed = 0
        var received = 0
        var replayed = 0
        var looks = 0
        var begun = 0
    }

    private let cluster: MovingCluster
    private var publishers: [TestClient] = []
    private var subscribers: [TestClient] = []
    /// Subscribes once to what is retained, and acknowledges little of it before the calm.
    private let reader: TestClient
    private var sent: [Sent] = []
    private(set) var objections: [String] = []
    private(set) var deeds: Deeds
    private var random: SeededGenerator
    /// On which node a client is or tries to be.
    private var places: [Int]
    private let crashes: Bool
    /// The connections of the client that begins anew, and where they are.
    private var fresh: [(client: TestClient, node: Int)] = []
    private static let freshPublisher = 100

    private var clients: [TestClient] { publishers + subscribers + [reader] }
    private static let retainedCount = 90

    init(seed: UInt64, _ deeds: Deeds) {
        self.deeds = deeds
        random = SeededGenerator(seed: seed)
        crashes = seed % 3 != 0
        let shards = seed % 2 == 0 ? 1 : 2
        cluster = MovingCluster(nodes: 3, shards: shards) {
            $0.queuedMessagesMax = 0
            $0.wallClockOffsetMilliseconds = 1_600_000_000_000
            if seed % 4 >= 2 {
                $0.residentMessagesMax = Int(seed / 4 % 5) + 1
                $0.residentBytesMax = 1000
            }
        }
        places = []
        for number in 0..<Self.retainedCount { cluster.retain("shelf/\(number)", "\(number)") }
        reader = Self.client("reader", cluster, version: .v5)
        reader.acknowledgement = .manual
        for index in 0..<2 { publishers.append(Self.client("publisher \(index)", cluster, version: index == 0 ? .v5 : .v311)) }
        for index in 0..<3 {
            let client = Self.client("subscriber \(index)", cluster, version: index == 1 ? .v311 : .v5)
            client.subscribe("t/#", qos: index == 2 ? .atLeastOnce : .exactlyOnce)
            subscribers.append(client)
        }
        places = clients.map { _ in 0 }
        cluster.run()
        (cluster.logs, cluster.readers, cluster.replays, cluster.letsInEarly) = (false, [], true, true)
    }

    private static func client(_ name: String, _ cluster: MovingCluster, version: ProtocolVersion) -> TestClient {
        let client = cluster.nodes[0].client(EncodedString(name) ?? "client", version: version)
        client.resendsAtOnce = true
        client.connect(clean: false, expiry: version == .v5 ? .max : nil)
        cluster.run()
        return client
    }

    mutating func run(actions: Int) {
        for _ in 0..<actions { act() }
        calm()
        judge()
        for client in clients + fresh.map(\.client) { client.connectionIsGone() }
    }

    // MARK: The storm

    private mutating func act() {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<32: publish()
        case 32..<36: beginAnew()
        case 36..<39: publishAnew()
        case 39: cluster.askLate()
        case 40..<65: for _ in 0..<Int.random(in: 1...6, using: &random) { cluster.step(using: &random) }
        case 65..<72: cluster.log(someOf: Int.random(in: 0..<3, using: &random), using: &random)
        case 72..<81: read()
        case 81..<88: hop(Int.random(in: 0..<clients.count, using: &random))
        case 88..<91: clients[Int.random(in: 0..<clients.count, using: &random)].lose()
        case 91..<95:
            let node = Int.random(in: 0..<3, using: &random)
            cluster.nodes[node].store?.mode = random.oneIn(2) ? .paused : .prompt
            cluster.nodes[node].settle()
        case 95:
            for node in cluster.nodes { node.advance(milliseconds: 50) }
            look()
        case 96: look()
        case 97: cluster.askAgain(runs: false)
        default: if crashes { crash(Int.random(in: 0..<3, using: &random)) }
        }
    }

    private mutating func publish() {
        let publisher = Int.random(in: 0..<publishers.count, using: &random)
        let client = publishers[publisher]
        guard client.isConnected, client.unfinished.count < 15 else { return }
        let topic = "t/\(Int.random(in: 0..<2, using: &random))"
        let qos: QoS = random.oneIn(2) ? .atLeastOnce : .exactlyOnce
        let text = "\(sent.count)"
        sent.append(Sent(text: text, topic: topic, publisher: publisher, qos: qos))
        let filler = random.oneIn(4) ? String(repeating: "x", count: 300) : ""
        client.publish(EncodedString(topic) ?? "t", text + " " + filler, qos: qos, until: .sent)
        if random.oneIn(2) { client.broker.settle() }
    }

    /// The client that begins anew comes to some node, while its older connections stand.
    private mutating func beginAnew() {
        guard fresh.count < 12 else { return }
        let node = Int.random(in: 0..<3, using: &random)
        let client = cluster.nodes[node].client("fresh")
        fresh.append((client, node))
        client.connect(clean: true, expiry: random.oneIn(2) ? .max : nil)
        for _ in 0..<Int.random(in: 0...6, using: &random) { cluster.step(using: &random) }
    }

    /// Any of its connections publishes.
    private mutating func publishAnew() {
        let open = fresh.indices.filter { fresh[$0].client.isConnected && fresh[$0].client.unfinished.count < 15 }
        guard let place = open.randomElement(using: &random) else { return }
        let qos: QoS = random.oneIn(2) ? .atLeastOnce : .exactlyOnce
        let topic = "t/\(Int.random(in: 0..<2, using: &random))"
        let text = "\(sent.count)"
        sent.append(Sent(text: text, topic: topic, publisher: Self.freshPublisher + place, qos: qos))
        fresh[place].client.publish(EncodedString(topic) ?? "t", text + " ", qos: qos, until: .sent)
        if random.oneIn(2) { fresh[place].client.broker.settle() }
    }

    private mutating func read() {
        let node = Int.random(in: 0..<3, using: &random)
        let last = random.oneIn(3) ? Int.max : Int.random(in: 0...max(1, cluster.records.count), using: &random)
        cluster.read(node, through: last)
    }

    /// A client comes to some node, while its older connection may stand.
    private mutating func hop(_ index: Int) {
        let client = clients[index]
        if random.oneIn(2) { client.lose() }
        places[index] = Int.random(in: 0..<3, using: &random)
        client.broker = cluster.nodes[places[index]]
        deeds.hops += 1
        client.connect(clean: false, expiry: client.version == .v5 ? .max : nil)
        for _ in 0..<Int.random(in: 0...6, using: &random) { cluster.step(using: &random) }
    }

    private mutating func crash(_ node: Int) {
        deeds.crashes += 1
        cluster.crash(node, committing: Int.random(in: 0...3, using: &random), logsSome: random.oneIn(2))
        for (index, client) in clients.enumerated() where places[index] == node {
            client.broker = cluster.nodes[node]
            client.connectionIsGone()
        }
        for (client, place) in fresh where place == node { client.connectionIsGone() }
    }

    /// The reader subscribes, or acknowledges some of what it has got.
    private mutating func look() {
        guard reader.isConnected, let node = places.last else { return }
        if !hasLooked {
            reader.beginSubscribe([Subscription(filter: "shelf/+", options: SubscriptionOptions(maximumQoS: .atLeastOnce))])
            cluster.nodes[node].settle()
            // SUBACK waits for the log.
            for _ in 0..<3 { cluster.log(someOf: node, using: &random) }
        }
        for packet in reader.publishesOfConnection.prefix(30) { reader.acknowledge(.puback, packet.packetIdentifier ?? 0) }
        cluster.nodes[node].settle()
    }

    /// Whether the reader has SUBACK.
    private var hasLooked: Bool {
        reader.packets.contains { if case .suback = $0 { true } else { false } }
    }

    // MARK: The calm

    private mutating func calm() {
        (cluster.logs, cluster.readers, cluster.replays) = (true, [0, 1, 2], true)
        reader.acknowledgement = .automatic
        for node in cluster.nodes {
            node.store?.mode = .prompt
            node.settle()
        }
        cluster.run()
        cluster.askAgain()
        for round in 0..<3 {
            for (index, client) in clients.enumerated() where round == 0 || !client.isConnected {
                hop(index)
                cluster.run()
                // A store waits a moment for what receivers may acknowledge.
                for node in cluster.nodes { node.advance(milliseconds: 50) }
                cluster.run()
                if client.isConnected {
                    deeds.resumed += 1
                } else if round == 2 {
                    objections.append("\(client.identifier) is not let in: \(client.connack.map { "\($0)" } ?? "no answer")")
                }
                if client.connack?.sessionPresent == false { objections.append("\(client.identifier) has lost its session") }
            }
        }
        while cluster.askLate() {}
        cluster.run()
        for node in cluster.nodes { node.advance(milliseconds: 1000) }
        cluster.run()
        deeds.begun += fresh.count
        deeds.replayed += cluster.replayedCount
    }

    private mutating func judge() {
        // What became of what it had not been told of, it does not know.
        let owed = sent.filter {
            let place = $0.publisher - Self.freshPublisher
            return place < 0 || !fresh[place].client.isUnfinished($0.text)
        }
        let open = fresh.indices.filter { fresh[$0].client.isConnected }
        if open.count > 1 { objections.append("the client that begins anew is connected \(open.count) times") }
        if hasLooked {
            deeds.looks += 1
            let lacking = Set((0..<Self.retainedCount).map { "\($0)" }).subtracting(reader.texts)
            if !lacking.isEmpty { objections.append("\(reader.identifier) lacks \(lacking.count) retained messages") }
        }
        for client in publishers where !client.unfinished.isEmpty {
            objections.append("\(client.identifier) waits for \(client.unfinished)")
        }
        for (index, client) in subscribers.enumerated() {
            let texts = client.messages.map { String($0.text.prefix { $0 != " " }) }
            deeds.received += texts.count
            var counts: [String: Int] = [:]
            for text in texts { counts[text, default: 0] += 1 }
            for message in owed {
                let count = counts[message.text] ?? 0
                if count == 0 { objections.append("\(client.identifier) lacks \(message)") }
                if count > 1, message.qos == .exactlyOnce, index != 2 {
                    objections.append("\(client.identifier) has \(message) \(count) times")
                }
            }
            judgeOrder(client, texts)
        }
    }

    /// Of each publisher, topic and QoS, what came first the first time was published first. [MQTT-4.6.0-5 v5] What was
    /// sent with QoS 2 and not acknowledged comes first when a session is restored from the log, which does not know of
    /// QoS 1.
    private mutating func judgeOrder(_ client: TestClient, _ texts: [String]) {
        var seen: Set<String> = []
        var last: [String: Int] = [:]
        for text in texts where seen.insert(text).inserted {
            guard let number = Int(text), number < sent.count else {
                objections.append("\(client.identifier) has \(text), which nobody has published")
                continue
            }
            let name = "\(sent[number].publisher) \(sent[number].topic) \(sent[number].qos)"
            if let before = last[name], before > number { objections.append("\(client.identifier) has \(number) after \(before)") }
            last[name] = number
        }
    }
}
