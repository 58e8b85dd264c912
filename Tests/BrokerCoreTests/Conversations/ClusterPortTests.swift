import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// A broker that is a node of a cluster, which the test plays.
@Suite struct ClusterPortTests {
    private func node(shards: Int = 1, change: (inout BrokerSettings) -> Void = { _ in }) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change))
        broker.joinCluster()
        return broker
    }

    /// What was told of interests, and the messages, each as a text.
    private func told(_ broker: SimulatedBroker) -> [String] {
        broker.clusterNotes.flatMap { _, note -> [String] in
            switch note {
            case .interest(let filter, let isWanted): return ["\(isWanted ? "+" : "-")\(String(decoding: filter, as: UTF8.self))"]
            // `ClusterGroupTests` look at them.
            case .group: return []
            case .fence: return ["fence"]
            case .messages(let batch):
                var messages: [String] = []
                batch.forEachMessage { message in
                    messages.append(
                        "\(String(decoding: message.topic, as: UTF8.self)) \(String(decoding: message.payload, as: UTF8.self))"
                            + " q\(message.qos.rawValue)\(message.retain ? " r" : "")"
                            + (message.expiresAt.map { " \($0 - broker.now) ms" } ?? ""))
                }
                return messages
            // `ClusterRetainedTests` look at them.
            case .retained, .swept, .staleChanges: return []
            case .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded, .saves, .will, .willEnds, .assumed,
                .wakes:
                return []
            }
        }
    }

    private func deliver(_ topic: String, _ payload: String, to broker: SimulatedBroker) -> Bool {
        defer { broker.settle() }
        return ClusterMessage.with(topic, payload) { broker.cores[0].received($0) }
    }

    private func isAcknowledged(_ client: TestClient) -> Bool {
        client.packetsOfConnection.contains { if case .suback = $0 { true } else { false } }
    }

    @Test(arguments: [1, 4]) func `a SUBACK waits until the cluster knows of the subscription`(shards: Int) {
        let broker = node(shards: shards)
        let client = broker.connected("client")
        client.subscribe("a/+")
        #expect(!isAcknowledged(client) && told(broker) == ["+a/+", "fence"])
        broker.passFences()
        #expect(isAcknowledged(client))
        // The second of the same filter on its shard says nothing new.
        client.unsubscribe("a/+")
        #expect(told(broker).last == "-a/+")
    }

    @Test func `share groups are interests too`() {
        let broker = node()
        let client = broker.connected("client")
        client.subscribe("$share/g/a")
        #expect(told(broker) == ["+a", "fence"] && !isAcknowledged(client))
        broker.passFences()
        client.disconnect()
        #expect(told(broker).last == "-a")
    }

    @Test func `a client that leaves takes its interests along`() {
        let broker = node()
        let client = broker.connected("client")
        client.subscribe("a")
        client.subscribe("b/#")
        broker.passFences()
        client.disconnect()
        #expect(told(broker).filter { $0.hasPrefix("-") }.sorted() == ["-a", "-b/#"])
    }

    @Test func `what clients publish goes to the other nodes, and wills do; $SYS does not`() {
        let broker = node { $0.presenceTopics = .connections }
        let client = broker.client("client")
        client.connect(will: Will(topic: "will", payload: Array("w".utf8), qos: .atLeastOnce))
        client.publish("a", "1")
        client.publish("b", "2", qos: .exactlyOnce, retain: true)
        client.publish("c", "3", properties: .having { $0.messageExpiryInterval = 5 })
        client.publish("$other/d", "4")
        client.lose()
        #expect(told(broker) == ["a 1 q0", "b 2 q2 r", "c 3 q0 5000 ms", "$other/d 4 q0", "will w q1"])
    }

    @Test func `nobody is told that there are no subscribers, who may be elsewhere`() {
        let client = node().connected("client")
        #expect(client.publish("a", "x", qos: .atLeastOnce)?.reasonCode == .success)
        let alone = SimulatedBroker().connected("client")
        #expect(alone.publish("a", "x", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
    }

    @Test(arguments: [1, 4]) func `what comes from other nodes reaches all shards once, and goes nowhere else`(shards: Int) {
        let broker = node(shards: shards)
        let clients = (0..<8).map { broker.connected("client \($0)") }
        let members = (0..<3).map { broker.connected("member \($0)") }
        for client in clients { client.subscribe("a/#", qos: .exactlyOnce) }
        for member in members { member.subscribe("$share/g/a/#", qos: .exactlyOnce) }
        broker.passFences()
        let before = told(broker).count
        for number in 0..<10 { #expect(deliver("a/b", "\(number)", to: broker)) }
        for client in clients {
            #expect(client.texts == texts(0..<10))
        }
        #expect(members.map(\.messages.count).reduce(0, +) == 10)
        #expect(told(broker).count == before)
    }

    @Test(arguments: ["", "a/+", "a/#", "a\u{0}b", "$SYS/broker/version", "$CONTROL/x"])
    func `what no client may send is not taken from other nodes`(topic: String) {
        #expect(!deliver(topic, "x", to: node()))
    }

    @Test func `newcomers are refused while the cluster is away, unless that is wanted otherwise`() {
        let broker = node()
        let early = broker.connected("early")
        broker.cores[0].received(.isAway(true))
        #expect(broker.client("late").connect()?.reasonCode == .serverUnavailable && early.isConnected)
        broker.cores[0].received(.isAway(false))
        #expect(broker.client("late").connect()?.reasonCode == .success)
        let alone = node { $0.refusesWithoutCluster = false }
        alone.cores[0].received(.isAway(true))
        #expect(alone.client("late").connect()?.reasonCode == .success)
    }

    // MARK: Clients that come while a node starts

    private func starting(shards: Int = 1, change: (inout BrokerSettings) -> Void = { _ in }) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change))
        for core in broker.cores { core.joinCluster(startMilliseconds: 8000) }
        return broker
    }

    private func reach(_ broker: SimulatedBroker) {
        for core in broker.cores { core.received(.isAway(false)) }
        broker.settle()
    }

    @Test(arguments: [1, 3]) func `clients that come while a node starts wait until it has found its cluster`(shards: Int) {
        let broker = starting(shards: shards)
        let early = (0..<8).map { broker.client("client \($0)", version: $0 % 2 == 0 ? .v5 : .v311) }
        for client in early { #expect(client.connect() == nil) }
        broker.advance(milliseconds: 7000)
        #expect(early.allSatisfy { $0.connack == nil })
        // One that has gone meanwhile is nobody's.
        early[7].lose()
        reach(broker)
        for client in early.dropLast() { #expect(client.connack?.reasonCode == .success && client.isConnected) }
        #expect(broker.statistics().clientsConnected == 7)
        early[0].subscribe("a")
        early[1].publish("a", "x")
        #expect(early[0].messages.count == 1)
        // That was its start. Whoever comes while it is away later is to try another node at once.
        for core in broker.cores { core.received(.isAway(true)) }
        #expect(broker.client("late").connect()?.reasonCode == .serverUnavailable)
    }

    @Test func `those who waited for the cluster are let in some in each turn, in their order, and who comes then behind them`() {
        let broker = starting()
        let early = (0..<300).map { broker.client("client \($0)") }
        for client in early { client.connect() }
        broker.cores[0].received(.isAway(false))
        // The last one comes once more, and has not told that its first connection is gone.
        let again = broker.client("client 299")
        again.beginConnect(ConnectPacket(version: .v5, clientIdentifier: "client 299"))
        var counts: [Int] = []
        repeat { counts.append(broker.cores[0].statistics.clientsConnected) } while broker.step()
        #expect(counts.count >= 3 && zip(counts, counts.dropFirst()).allSatisfy { $1 - $0 <= 128 }, "\(counts)")
        #expect(again.isConnected && again.connack?.reasonCode == .success && !early[299].isConnected)
        #expect(early.dropLast().allSatisfy { $0.isConnected && $0.connack?.reasonCode == .success })
        #expect(broker.statistics().clientsConnected == 300)
    }

    @Test func `who goes while the cluster is away is not remembered`() {
        let broker = starting()
        let early = (0..<3).map { broker.client("client \($0)") }
        for client in early { client.connect() }
        for client in early.prefix(2) { client.lose() }
        #expect(broker.cores[0].cluster?.start?.inOrder.count == 1)
    }

    @Test func `who has waited too long is told to come elsewhere, and so is who comes behind that`() {
        let broker = starting()
        let early = broker.client("early")
        #expect(early.connect() == nil)
        broker.advance(milliseconds: 9000)
        #expect(early.connack?.reasonCode == .serverUnavailable)
        #expect(broker.client("late").connect()?.reasonCode == .serverUnavailable)
        reach(broker)
        #expect(broker.client("later").connect()?.reasonCode == .success)
    }

    @Test func `nobody waits longer than martlet_connect_timeout`() {
        let broker = starting { $0.connectTimeoutMilliseconds = 2000 }
        let early = broker.client("early")
        #expect(early.connect() == nil)
        broker.advance(milliseconds: 3000)
        #expect(early.connack?.reasonCode == .serverUnavailable)
    }

    @Test func `nobody waits where clients are let in without the cluster, or are sent away`() {
        let alone = starting { $0.refusesWithoutCluster = false }
        #expect(alone.client("a").connect()?.reasonCode == .success)
        let draining = starting()
        draining.cores[0].drain(DrainNotice(serverReference: "elsewhere"))
        #expect(draining.client("a").connect()?.reasonCode.isError == true)
    }

    @Test func `what sessions of the store want is told when the cluster is joined`() {
        let store = SimulatedStore(seed: 1)
        let first = SimulatedBroker(store: store)
        let client = first.connected("client", expiry: 100)
        client.subscribe("a")
        client.subscribe("$share/g/b")
        let second = first.crashed(committing: 100)
        second.cores[0].joinCluster()
        second.settle()
        #expect(told(second).sorted() == ["+a", "+b"])
        second.powerOff()
    }
}
