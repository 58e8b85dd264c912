import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Share groups whose members may not all read the same.
@Suite struct SharedAccessTests {
    /// Users who may read what is named, and everybody writes everything.
    private static func rules(_ users: [EncodedString: [String]]) -> AccessControl {
        func rule(_ permission: AccessPermission, _ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        return AccessControl(
            anonymous: [], users: users.mapValues { $0.compactMap { rule([.read], $0) } },
            patterns: [rule([.write], "#")].compactMap { $0 })
    }

    private static func settings(_ users: [EncodedString: [String]]) -> BrokerSettings {
        SimulatedBroker.testSettings {
            $0.listeners[0].accessControl = rules(users)
            $0.queuedMessagesMax = 0
        }
    }

    private func members(_ users: [EncodedString], of broker: SimulatedBroker) -> [TestClient] {
        users.enumerated().map { number, user in
            let client = broker.client("member \(number)")
            client.connect(clean: false, expiry: 1000, userName: user)
            client.subscribe("$share/g/t/#", qos: .exactlyOnce)
            return client
        }
    }

    private func publish(_ range: Range<Int>, _ topic: EncodedString = "t/a", to broker: SimulatedBroker) {
        for (position, identifier): (Int, EncodedString) in [(0, "p"), (1, "q"), (2, "r")] {
            let publisher = broker.client(identifier)
            publisher.connect(clean: false, expiry: 100)
            for number in range where number % 3 == position {
                publisher.publish(topic, "\(number)", qos: [.atMostOnce, .atLeastOnce, .exactlyOnce][number / 3 % 3])
            }
            #expect(publisher.unfinished.isEmpty)
            publisher.disconnect()
        }
    }

    @Test(arguments: [1, 4], [false, true])
    func `a member without the right to read gets nothing, and the others all of it`(shards: Int, isStored: Bool) {
        let broker = SimulatedBroker(
            shards: shards, settings: Self.settings(["reader": ["t/#"], "half": ["t/b"], "deaf": []]),
            store: isStored ? SimulatedStore() : nil)
        let members = members(["deaf", "reader", "half", "deaf", "reader", "deaf", "deaf"], of: broker)
        publish(0..<36, to: broker)
        #expect(Set(members.flatMap(\.texts)) == Set((0..<36).map { "\($0)" }))
        #expect(members.map(\.messages.count).reduce(0, +) == 36)
        #expect([0, 2, 3, 5, 6].allSatisfy { members[$0].messages.isEmpty })
        publish(36..<72, "t/b", to: broker)
        #expect(members.map(\.messages.count).reduce(0, +) == 72)
        #expect(!members[2].messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `a message that no member may read has no receiver in the group`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: Self.settings(["deaf": [], "reader": ["t/#"]]))
        let members = members(["deaf", "deaf", "deaf"], of: broker)
        let reader = broker.client("reader")
        reader.connect(userName: "reader")
        reader.subscribe("t/#")
        publish(0..<9, to: broker)
        #expect(members.allSatisfy { $0.messages.isEmpty })
        #expect(reader.messages.count == 9)
    }

    @Test(arguments: [1, 4]) func `the choice heeds other rules from the reload on`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: Self.settings(["a": ["t/#"], "b": []]))
        let members = members(["a", "a", "a", "b", "b", "b"], of: broker)
        publish(0..<18, to: broker)
        #expect(members.map(\.messages.count).prefix(3).reduce(0, +) == 18)
        for core in broker.cores { core.apply(Self.settings(["a": [], "b": ["t/#"]])) }
        publish(18..<36, to: broker)
        #expect(members.map(\.messages.count).prefix(3).reduce(0, +) == 18)
        #expect(members.map(\.messages.count).suffix(3).reduce(0, +) == 18)
    }

    @Test(arguments: [1, 4], [1, 4])
    func `rights outlive a crash with the memberships`(before: Int, after: Int) {
        let settings = Self.settings(["reader": ["t/#"], "deaf": []])
        let broker = SimulatedBroker(shards: before, settings: settings, store: SimulatedStore())
        let members = members(["deaf", "reader", "deaf", "deaf"], of: broker)
        let next = broker.crashed(shards: after)
        publish(0..<9, to: next)
        for (client, user): (TestClient, EncodedString) in zip(members, ["deaf", "reader", "deaf", "deaf"]) {
            client.broker = next
            client.connect(clean: false, expiry: 1000, userName: user)
        }
        #expect(members.map(\.messages.count) == [0, 6, 0, 0], "nobody waits for QoS 0")
    }

    @Test(arguments: [1, 4], [false, true])
    func `what a member leaves goes to nobody who may not read it`(shards: Int, ends: Bool) {
        let broker = SimulatedBroker(shards: shards, settings: Self.settings(["reader": ["t/#"], "deaf": []]))
        let members = members(["reader", "deaf", "deaf"], of: broker)
        members[0].acknowledgement = .manual
        // More than may be in flight.
        publish(0..<90, to: broker)
        if ends {
            let successor = broker.client("heir")
            successor.connect(clean: false, expiry: 1000, userName: "reader")
            successor.subscribe("$share/g/t/#", qos: .exactlyOnce)
            members[0].disconnect(expiry: 0)
            // The QoS 2 messages in flight stay with the session that is gone, and QoS 0 came at once.
            #expect(Set(members[0].texts + successor.texts).count == 90)
        } else {
            members[0].lose()
            members[0].acknowledgement = .automatic
            members[0].connect(clean: false, expiry: 1000, userName: "reader")
            #expect(Set(members[0].texts).count == 90, "it waits for the only one who may read it")
        }
        #expect(members[1...].allSatisfy { $0.messages.isEmpty })
    }
}
