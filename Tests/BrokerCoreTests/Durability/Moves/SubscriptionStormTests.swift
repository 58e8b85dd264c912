import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What a client has subscribed to and ended holds as it was acknowledged, whichever nodes its session was on.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct SubscriptionStormTests {
    @Test(.timeLimit(.minutes(60)), arguments: Seeds.parts(20, perPart: 10))
    func `subscriptions are as they were acknowledged, whichever nodes are lost, crash or lose their lease`(
        seeds: ClosedRange<UInt64>
    ) {
        var deeds = SubscriptionStorm.Deeds()
        for seed in seeds {
            var storm = SubscriptionStorm(seed: seed, deeds)
            storm.run()
            #expect(storm.objections.isEmpty, "\(storm.objections.prefix(3)): \(Seeds.replay(seed))")
            deeds = storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.acknowledged >= 2 * seeds.count && deeds.withoutRecord >= seeds.count, "\(deeds)")
        #expect(deeds.losses >= seeds.count / 2 && deeds.crashes >= seeds.count && deeds.cuts >= seeds.count / 3, "\(deeds)")
        #expect(deeds.hops >= 5 * seeds.count && deeds.owed >= seeds.count, "\(deeds)")
    }
}

/// A client that subscribes and unsubscribes on nodes that are lost with their disks, crash, or lose their lease for a
/// while, and goes from one to another; its record is not written most of the time. One seed is one run.
private struct SubscriptionStorm {
    struct Deeds {
        /// SUBACK and UNSUBACK that have come, and those that came while no record was written.
        var acknowledged = 0
        var withoutRecord = 0
        var losses = 0
        var crashes = 0
        var cuts = 0
        var hops = 0
        /// Messages that the client has a right to.
        var owed = 0
    }

    private static let speaking = 4
    private let cluster: MovingCluster
    private let publisher: TestClient
    private var client: TestClient
    private var random: SeededGenerator
    /// Where the client is, the nodes that cannot be reached for a while, and those that are gone for good.
    private var at = 0
    private var cut: Set<Int> = []
    private var lost: Set<Int> = []
    /// Whether the client has a subscription, as far as it was told; nil for what was not acknowledged.
    private var isSubscribed: [Bool?] = Array(repeating: false, count: 3)
    private var published = 0
    /// Messages that have to come, and those that must not.
    private var owed: Set<String> = []
    private var unwanted: [Set<String>] = Array(repeating: [], count: 3)
    private(set) var deeds: Deeds
    private(set) var objections: [String] = []

    init(seed: UInt64, _ deeds: Deeds) {
        self.deeds = deeds
        random = SeededGenerator(seed: seed)
        cluster = MovingCluster(nodes: 5, shards: seed % 3 == 0 ? 2 : 1, dispatches: true) {
            $0.wallClockOffsetMilliseconds = 1_600_000_000_000
        }
        cluster.remembersProgress = seed % 2 == 0
        client = cluster.lasting("client", on: 0)
        publisher = cluster.lasting("publisher", on: Self.speaking)
    }

    mutating func run() {
        for _ in 0..<4 {
            for _ in 0..<Int.random(in: 4...10, using: &random) { act() }
            fail()
        }
        for node in cut.sorted() { cluster.goOn(node) }
        cut = []
        hop()
        for index in isSubscribed.indices { publish(index) }
        cluster.run()
        let texts = Set(client.texts)
        for text in owed.subtracting(texts).sorted() { objections.append("\(text) has not come") }
        for text in unwanted.flatMap({ $0.intersection(texts) }).sorted() { objections.append("\(text) has come") }
        deeds.owed += owed.count
    }

    private mutating func act() {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<6: change(Int.random(in: 0..<isSubscribed.count, using: &random))
        case 6..<13: publish(Int.random(in: 0..<isSubscribed.count, using: &random))
        case 13..<16: cluster.saveLogPositions()
        case 16: if random.oneIn(2) { cluster.storesSaves = false } else { cluster.storeSaves() }
        case 17: client.lose()
        case 18: if let node = cut.sorted().first, random.oneIn(2) { comeBack(node) }
        default: hop()
        }
    }

    /// Subscribes, or ends a subscription; it is not always acknowledged.
    private mutating func change(_ index: Int) {
        guard client.isConnected else { return hop() }
        let subscribes = Bool.random(using: &random)
        isSubscribed[index] = nil
        // What was published before may come by a subscription that nobody has acknowledged.
        let before = unwanted[index]
        unwanted[index] = []
        let answers = client.subscriptionAnswers
        let filter = TopicFilter("t/\(index)/#")
        if subscribes { client.subscribe(filter, qos: .atLeastOnce) } else { client.unsubscribe(filter) }
        if random.oneIn(6) { return fail() }
        cluster.run()
        guard client.subscriptionAnswers != answers else { return }
        deeds.acknowledged += 1
        if !cluster.storesSaves { deeds.withoutRecord += 1 }
        (isSubscribed[index], unwanted[index]) = (subscribes, before)
    }

    private mutating func publish(_ index: Int) {
        let text = "\(index): \(published)"
        published += 1
        publisher.publish(EncodedString("t/\(index)/x"), text, qos: .atLeastOnce)
        cluster.run()
        switch isSubscribed[index] {
        case true?: owed.insert(text)
        case false?: unwanted[index].insert(text)
        case nil: break
        }
    }

    /// Something happens to the client's node, and it comes to another one, or to the same.
    private mutating func fail() {
        switch Int.random(in: 0..<3, using: &random) {
        case 0 where lost.count < 2:
            deeds.losses += 1
            cluster.lose(at, logsSome: random.oneIn(2))
            lost.insert(at)
        case 1 where cut.isEmpty:
            deeds.cuts += 1
            cluster.cut(at, logsSome: random.oneIn(2))
            // Its lease is over.
            for identifier in cluster.sessions.keys { cluster.sessions[identifier]?.owners.remove(at) }
            cut.insert(at)
        default:
            deeds.crashes += 1
            cluster.crash(at, committing: Int.random(in: 0...3, using: &random), logsSome: random.oneIn(2))
            // Its store may say that it has read less of the log than it had.
            unwanted = unwanted.map { _ in [] }
        }
        client.connectionIsGone()
        hop()
    }

    private mutating func comeBack(_ node: Int) {
        cluster.goOn(node)
        cut.remove(node)
        cluster.run()
    }

    /// The client comes to some node that is there.
    private mutating func hop() {
        let nodes = (0..<Self.speaking).filter { !lost.contains($0) && !cut.contains($0) }
        deeds.hops += 1
        if client.isConnected { client.lose() }
        at = nodes.randomElement(using: &random) ?? at
        cluster.connect(client, to: at)
        if client.connack == nil {
            // Its record has to be written first.
            cluster.storeSaves()
            cluster.saveLogPositions()
        }
        for _ in 0..<3 where !client.isConnected { cluster.connect(client, to: at) }
        if client.connack?.sessionPresent != true { objections.append("node \(at) has no session") }
        cluster.storesSaves = random.oneIn(4)
    }
}
