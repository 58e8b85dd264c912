import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore

/// Random clients on random networks, against what a broker promises.
@Suite struct SoakTests {
    @Test(.timeLimit(.minutes(10)), arguments: [1, 4], 0..<40 as Range<UInt64>)
    func `QoS 1 arrives at least once, QoS 2 exactly once, and each topic in order`(shards: Int, seed: UInt64) {
        var soak = Soak(shards: shards, seed: seed)
        for _ in 0..<300 { soak.act() }
        soak.finish()
        // A run in which nothing is published, or nobody's network ever fails, would find nothing.
        #expect(soak.number >= 30, "seed \(seed)")
        #expect(soak.interruptions >= 5, "seed \(seed)")
        #expect(soak.broker.statistics().messagesReceived >= 30, "seed \(seed)")
    }
}

/// A run: clients with sessions that never end, each subscribed to some of the topics, whose networks fail now and
/// then.
private struct Soak {
    static let clientCount = 6
    static let topicCount = 4

    let broker: SimulatedBroker
    let shards: Int
    let seed: UInt64
    var random: SeededGenerator
    var clients: [TestClient] = []
    /// The filters of each client.
    var filters: [[TopicFilter]] = []
    /// What was published, by topic, in order.
    var published: [String: [String]] = [:]
    var number = 0
    /// Connections that broke or were taken over while messages flowed.
    var interruptions = 0

    init(shards: Int, seed: UInt64) {
        self.shards = shards
        self.seed = seed
        let settings = SimulatedBroker.testSettings { $0.queuedMessagesMax = 0 }
        broker = SimulatedBroker(shards: shards, settings: settings, seed: seed)
        random = SeededGenerator(seed: seed &+ 1000)
        for position in 0..<Self.clientCount {
            let client = broker.client("client\(position)-\(seed)", version: position % 2 == 0 ? .v5 : .v311)
            client.resendsAtOnce = true
            clients.append(client)
            connect(client)
            broker.settle()
            // Each QoS has topics of its own: a client that granted both to one topic may get them in another order.
            let choices: [[TopicFilter]] = [["q1/#", "q2/#"], ["q1/+"], ["q2/+", "q2/1"], ["#"], []]
            filters.append(choices[Int.random(in: 0..<choices.count, using: &random)])
            for filter in filters[position] { client.subscribe(filter) }
        }
    }

    private mutating func connect(_ client: TestClient) {
        var properties = Properties()
        if client.version == .v5 {
            properties.sessionExpiryInterval = .max
            if random.oneIn(2) { properties.topicAliasMaximum = 2 }
            if random.oneIn(2) { properties.receiveMaximum = UInt16.random(in: 1..<5, using: &random) }
        }
        let delivery = random.oneIn(3) ? ByteDelivery.byteByByte : random.oneIn(2) ? .separate : .joined
        let flush = random.oneIn(3) ? Int.random(in: 1..<40, using: &random) : nil
        client.beginConnect(
            ConnectPacket(version: client.version, cleanStart: false, properties: properties, clientIdentifier: client.identifier)
        ) {
            $0.delivery = delivery
            $0.flushBytesMax = flush
        }
    }

    mutating func act() {
        let client = clients[Int.random(in: 0..<clients.count, using: &random)]
        switch Int.random(in: 0..<20, using: &random) {
        case 0:
            if client.isConnected { interruptions += 1 }
            client.connection?.close(dropsUnsent: random.oneIn(2))
        case 1, 2, 3: if client.connection?.isClosed == true || random.oneIn(10) { takeOver(client) }
        case 4: client.connection?.isReading.toggle()
        case 5: if client.isConnected { client.beginSubscribe([Subscription(filter: "other/\(number % 3)/+")]) }
        case 6: broker.settle()
        case 7: broker.advance(milliseconds: UInt64.random(in: 0..<500, using: &random))
        default: publish(client)
        }
        for _ in 0..<Int.random(in: 0..<10, using: &random) { broker.step() }
    }

    private mutating func takeOver(_ client: TestClient) {
        if client.isConnected { interruptions += 1 }
        client.connection?.close(dropsUnsent: random.oneIn(2))
        if random.oneIn(2) { broker.settle() }
        connect(client)
    }

    private mutating func publish(_ client: TestClient) {
        // Within the broker's Receive Maximum of 20, and one publisher for each topic so that it has an order.
        guard client.isConnected, client.unfinished.count < 10, let index = clients.firstIndex(where: { $0 === client }) else {
            return
        }
        let qos: QoS = random.oneIn(2) ? .atLeastOnce : .exactlyOnce
        let topic = "q\(qos.rawValue)/\(index * Self.topicCount + Int.random(in: 0..<Self.topicCount, using: &random))"
        let padding = String(repeating: "x", count: random.oneIn(5) ? Int.random(in: 0..<2000, using: &random) : 0)
        let payload = "\(number) \(padding)"
        number += 1
        published[topic, default: []].append(payload)
        client.publish("\(topic)", payload, qos: qos, until: .sent)
    }

    /// Everybody comes back with a good network; then everything must have arrived.
    mutating func finish() {
        for client in clients {
            client.connection?.close()
            broker.settle()
            client.connect(
                ConnectPacket(
                    version: client.version, cleanStart: false, properties: endless(client), clientIdentifier: client.identifier))
            #expect(client.connack?.sessionPresent == true, "seed \(seed)")
        }
        broker.settle()
        for client in clients { #expect(client.unfinished == [], "seed \(seed), \(client.identifier)") }
        for (client, filters) in zip(clients, filters) {
            for (topic, payloads) in published where filters.contains(where: { matches($0, topic) }) {
                check(client, topic, payloads)
            }
        }
        #expect(broker.statistics().storedMessages == 0, "seed \(seed)")
        #expect(broker.statistics().publishDropped == 0, "seed \(seed)")
        for client in clients { client.disconnect(expiry: client.version == .v5 ? 0 : nil) }
        for client in clients where client.version != .v5 {
            broker.connected(client.identifier, version: client.version).disconnect()
        }
        #expect(broker.cores.map(\.heldBytes) == Array(repeating: 0, count: shards), "seed \(seed)")
    }

    private func endless(_ client: TestClient) -> Properties {
        var properties = Properties()
        if client.version == .v5 { properties.sessionExpiryInterval = .max }
        return properties
    }

    private func matches(_ filter: TopicFilter, _ topic: String) -> Bool {
        TopicName(topic).map { filter.matches($0) } ?? false
    }

    private func check(_ client: TestClient, _ topic: String, _ payloads: [String]) {
        let received = client.messages.filter { $0.topic == topic }.map(\.text)
        let inOrder: [String]
        if topic.hasPrefix("q2") {
            inOrder = received
        } else {
            // Repeated ones may come anywhere; what counts is where each came first.
            var seen: Set<String> = []
            inOrder = received.filter { seen.insert($0).inserted }
        }
        guard inOrder != payloads else { return }
        Issue.record(
            "seed \(seed), \(shards) shards, \(client.identifier), \(topic): \(numbers(received)) instead of \(numbers(payloads))")
    }

    private func numbers(_ payloads: [String]) -> [Substring] { payloads.map { $0.prefix { $0 != " " } } }
}
