import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// Sessions that divide topics among them: those of bridges with several connections.
@Suite struct TopicPartTests {
    private static let members: [EncodedString] = ["bridge", "bridge-2", "bridge-3"]
    private static let topics = (0..<30).map { "t/\($0)" as EncodedString }

    private func broker(_ shards: Int, store: SimulatedStore? = nil, _ change: (inout BrokerSettings) -> Void = { _ in })
        -> SimulatedBroker
    {
        let settings = SimulatedBroker.testSettings {
            for (index, member) in Self.members.enumerated() {
                $0.topicParts[member] = TopicPart(index: index, count: Self.members.count, publisher: Self.members[0])
            }
            change(&$0)
        }
        return SimulatedBroker(shards: shards, settings: settings, store: store)
    }

    private func join(_ broker: SimulatedBroker, _ filters: [TopicFilter] = ["t/#"], noLocal: Bool = false) -> [TestClient] {
        Self.members.map { member in
            let client = broker.client(member)
            client.connect(expiry: 1000)
            for filter in filters { client.subscribe(filter, noLocal: noLocal) }
            return client
        }
    }

    private func comeBack(_ clients: [TestClient]) -> [[ReceivedMessage]] {
        clients.map {
            $0.connect(clean: false, expiry: 1000)
            return $0.takeMessages()
        }
    }

    private func index(_ topic: String, _ count: Int) -> Int {
        Array(topic.utf8).withUnsafeBytes { TopicPart.index(of: $0, among: count) }
    }

    @Test func `topics are dispatched as they were by any earlier version`() {
        #expect(["a", "a/b", "plant/1/temperature", "ä"].map { index($0, 4) } == [2, 1, 3, 3])
        #expect(index("", 64) < 64 && (0..<100).allSatisfy { index("t/\($0)", 1) == 0 })
    }

    @Test(arguments: [2, 3, 8, 64]) func `topics that differ in a number are dispatched evenly`(count: Int) {
        var counts = Array(repeating: 0, count: count)
        for number in 0..<count * 100 { counts[index("plant/line/\(number)/value", count)] += 1 }
        #expect(counts.allSatisfy { (50...160).contains($0) }, "\(counts)")
    }

    @Test(arguments: [1, 4], [false, true])
    func `each topic is one session's, whoever is connected, through crashes, and is kept once`(shards: Int, isStored: Bool) {
        var broker = broker(shards, store: isStored ? SimulatedStore() : nil)
        var members = join(broker, ["t/#", "t/+", "+/1"])
        var owners: [String: Set<Int>] = [:]
        for round in 0..<6 {
            // Some are away, others not.
            for (number, member) in members.enumerated() where (round + number) % 2 == 0 && member.isConnected { member.lose() }
            let publisher = broker.connected("publisher")
            for topic in Self.topics { publisher.publish(topic, "\(round)", qos: round % 2 == 0 ? .exactlyOnce : .atLeastOnce) }
            publisher.disconnect()
            if isStored, round % 3 == 2 {
                broker.commit()
                broker = broker.crashed(settings: broker.cores[0].settings)
                members = Self.members.map { broker.client($0) }
            }
            let came = comeBack(members)
            let texts = came.flatMap { $0 }.map { "\($0.topic) \($0.text)" }
            #expect(texts.count == Set(texts).count, "kept twice")
            for (number, messages) in came.enumerated() {
                for message in messages { owners[message.topic, default: []].insert(number) }
            }
        }
        #expect(owners.count == 30 && owners.values.allSatisfy { $0.count == 1 }, "\(owners)")
        #expect(Set(owners.values.flatMap { $0 }) == [0, 1, 2])
        broker.powerOff()
    }

    @Test(arguments: [1, 4]) func `retained messages are dispatched alike`(shards: Int) {
        let broker = broker(shards)
        let publisher = broker.connected("publisher")
        for topic in Self.topics { publisher.publish(topic, "x", qos: .atLeastOnce, retain: true) }
        let came = join(broker).map { $0.takeMessages().map(\.topic) }
        #expect(came.flatMap { $0 }.sorted() == Self.topics.map(\.description).sorted())
        #expect(came.enumerated().allSatisfy { number, topics in topics.allSatisfy { index($0, 3) == number } })
    }

    @Test(arguments: [1, 4]) func `no local means what any of them publishes by the first`(shards: Int) {
        let broker = broker(shards)
        let members = join(broker, noLocal: true)
        let other = broker.connected("other")
        other.subscribe("t/#")
        for topic in Self.topics { members[0].publish(topic, "own", qos: .atLeastOnce) }
        #expect(members.allSatisfy { $0.takeMessages().isEmpty } && other.takeMessages().count == 30)
    }

    @Test(arguments: [1, 4]) func `a full queue refuses its own topics alone`(shards: Int) {
        let broker = broker(shards) {
            for member in Self.members {
                $0.ownQueueBounds[member] = QueueBound(messagesMax: 2, bytesMax: 0, overflow: .refusesPublisher)
            }
        }
        for member in join(broker) { member.lose() }
        let publisher = broker.connected("publisher")
        let mine = Self.topics.first { index($0.description, 3) == 1 } ?? ""
        let answers = (0..<3).map { publisher.publish(mine, "\($0)", qos: .atLeastOnce)?.reasonCode }
        #expect(answers == [.success, .success, .quotaExceeded])
        let others = Self.topics.first { index($0.description, 3) == 2 } ?? ""
        #expect(publisher.publish(others, "x", qos: .atLeastOnce)?.reasonCode == .success)
    }
}
