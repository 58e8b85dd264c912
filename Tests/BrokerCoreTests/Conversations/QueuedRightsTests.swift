import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What waits for a client is judged by the rules that are in force when it is delivered.
@Suite struct QueuedRightsTests {
    /// Rules by which users read what is named and everybody writes everything.
    private func rules(_ users: [EncodedString: [String]]) -> AccessControl {
        func rule(_ permission: AccessPermission, _ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        return AccessControl(
            anonymous: [], users: users.mapValues { $0.compactMap { rule([.read], $0) } },
            patterns: [rule([.write], "#")].compactMap { $0 })
    }

    /// One listener, which is called `inside`, or several.
    private func settings(_ listeners: [(name: String, users: [EncodedString: [String]])]) -> BrokerSettings {
        SimulatedBroker.testSettings {
            $0.listeners = listeners.map { listener in
                var policy = ListenerPolicy()
                policy.name = listener.name
                policy.accessControl = rules(listener.users)
                return policy
            }
        }
    }

    private func settings(_ users: [EncodedString: [String]]) -> BrokerSettings { settings([("inside", users)]) }

    private func apply(_ users: [EncodedString: [String]], to broker: SimulatedBroker) {
        for core in broker.cores { core.apply(settings(users)) }
        broker.settle()
    }

    /// Anna, who may read everything, is away; one message each waits for her below `a`, `b` and `c`.
    private func leaveMessages(_ broker: SimulatedBroker, qos: QoS = .atLeastOnce) -> TestClient {
        let anna = broker.client("anna")
        anna.connect(expiry: 3600, userName: "anna")
        anna.subscribe("#", qos: qos)
        anna.disconnect()
        publish(broker, qos: qos)
        return anna
    }

    private func publish(_ broker: SimulatedBroker, qos: QoS = .atLeastOnce) {
        let publisher = broker.connected("publisher")
        for topic: EncodedString in ["a/1", "b/1", "c/1"] { publisher.publish(topic, "\(topic)", qos: qos) }
    }

    private func come(_ client: TestClient, listener: Int = 0) -> [String] {
        #expect(client.connect(clean: false, expiry: 3600, userName: "anna", listener: listener)?.sessionPresent == true)
        return client.takeMessages().map(\.topic)
    }

    private func publishes(_ client: TestClient) -> [PublishPacket] {
        client.packetsOfConnection.compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
    }

    private func notAuthorised(_ broker: SimulatedBroker) -> UInt64 { broker.statistics().drops[.notAuthorised] }

    @Test(arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `what may not be read since a reload is not delivered, and counted`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards, settings: settings(["anna": ["#"]]))
        let anna = leaveMessages(broker, qos: qos)
        apply(["anna": ["a/#", "c/#"]], to: broker)
        #expect(come(anna) == ["a/1", "c/1"])
        #expect(notAuthorised(broker) == 1)
        publish(broker)
        #expect(anna.takeMessages().map(\.topic) == ["a/1", "c/1"])
        #expect(notAuthorised(broker) == 1, "what comes now is not queued for it at all")
    }

    @Test(arguments: [1, 4]) func `a client that is there and slow gets nothing that was withdrawn meanwhile`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards, settings: settings(["anna": ["#"]]))
        let anna = broker.client("anna")
        anna.acknowledgement = .manual
        anna.connect(expiry: 3600, userName: "anna", properties: .having { $0.receiveMaximum = 1 })
        anna.subscribe("#", qos: .atLeastOnce)
        publish(broker)
        #expect(anna.takeMessages().map(\.topic) == ["a/1"])
        apply(["anna": ["c/#"]], to: broker)
        anna.acknowledge(.puback, try #require(publishes(anna).first?.packetIdentifier))
        #expect(anna.takeMessages().map(\.topic) == ["c/1"])
        #expect(notAuthorised(broker) == 1)
    }

    @Test(arguments: [1, 4]) func `a login at a listener with other rules finds what those let it`(shards: Int) {
        let broker = SimulatedBroker(
            shards: shards, settings: settings([("inside", ["anna": ["#"]]), ("outside", ["anna": ["b/#"]])]))
        let anna = leaveMessages(broker)
        #expect(come(anna, listener: 1) == ["b/1"])
        #expect(notAuthorised(broker) == 2)
    }

    @Test(.statement("MQTT-4.4.0-1", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `what was sent once is sent again, whatever the rules say now`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards, settings: settings(["anna": ["#"]]))
        let anna = broker.client("anna")
        anna.acknowledgement = .manual
        anna.connect(expiry: 3600, userName: "anna", properties: .having { $0.receiveMaximum = 1 })
        anna.subscribe("#", qos: qos)
        publish(broker, qos: qos)
        #expect(anna.takeMessages().map(\.topic) == ["a/1"])
        anna.lose()
        apply(["anna": []], to: broker)
        anna.acknowledgement = .automatic
        anna.connect(clean: false, expiry: 3600, userName: "anna")
        let resent = publishes(anna)
        #expect(resent.count == 1 && resent[0].topic == "a/1" && resent[0].duplicate)
        #expect(notAuthorised(broker) == 2)
        #expect(broker.cores.allSatisfy { core in core.sessions.all.allSatisfy { $0.queue.isEmpty } })
    }

    @Test(arguments: [(1, 1), (4, 4), (4, 1), (1, 3)]) func `what the store gives back is judged too`(before: Int, after: Int) {
        let broker = SimulatedBroker(shards: before, settings: settings(["anna": ["#"]]), store: SimulatedStore())
        let anna = leaveMessages(broker)
        let next = broker.crashed(shards: after, settings: settings(["anna": ["b/#"]]))
        anna.broker = next
        #expect(come(anna) == ["b/1"])
        #expect(notAuthorised(next) == 2)
        next.commit()
        #expect(next.store?.rows[.entry]?.isEmpty == true)
    }

    @Test func `a share group's message goes to another member when its first may not read it any more`() {
        let broker = SimulatedBroker(shards: 1, settings: settings(["anna": ["#"], "bob": ["#"]]))
        let anna = broker.client("anna")
        anna.connect(expiry: 3600, userName: "anna")
        anna.subscribe("$share/g/a/#", qos: .atLeastOnce)
        anna.disconnect()
        broker.connected("publisher").publish("a/1", "work", qos: .atLeastOnce)
        let bob = broker.client("bob")
        bob.connect(userName: "bob")
        bob.subscribe("$share/g/a/#", qos: .atLeastOnce)
        apply(["anna": [], "bob": ["#"]], to: broker)
        #expect(come(anna) == [])
        #expect(bob.texts == ["work"])
        #expect(notAuthorised(broker) == 0)
    }

    @Test(arguments: [1, 4]) func `a session is given the rules of its listener by its name`(shards: Int) {
        let names: [(name: String, users: [EncodedString: [String]])] = [("one", ["anna": ["a/#"]]), ("two", ["anna": ["#"]])]
        let broker = SimulatedBroker(shards: shards, settings: settings(names), store: SimulatedStore())
        let anna = broker.client("anna")
        anna.connect(expiry: 3600, userName: "anna")
        anna.subscribe("#", qos: .atLeastOnce)
        anna.disconnect()
        let next = broker.crashed(settings: settings(names.reversed()))
        anna.broker = next
        publish(next)
        #expect(come(anna, listener: 0) == ["a/1"], "nothing else was queued by the rules of the listener called one")
        #expect(notAuthorised(next) == 0)
    }

    @Test(arguments: [1, 4]) func `a session whose listener is gone keeps what comes until its client's rights are known`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards, settings: settings(["anna": ["#"]]), store: SimulatedStore())
        let anna = leaveMessages(broker)
        var next = broker.crashed(settings: settings([("elsewhere", ["anna": ["b/#"]])]))
        publish(next)
        next = next.crashed(settings: settings([("elsewhere", ["anna": ["b/#"]])]))
        publish(next)
        anna.broker = next
        #expect(come(anna) == ["b/1", "b/1", "b/1"])
        #expect(notAuthorised(next) == 6)
    }

    @Test(arguments: [true, false]) func `a will whose listener is gone is published if every listener would let it`(
        isAllowed: Bool
    ) {
        let broker = SimulatedBroker(settings: settings(["anna": ["#"]]), store: SimulatedStore())
        let anna = broker.client("anna")
        var will = Will(topic: "w", payload: [1], qos: .atLeastOnce)
        will.properties.willDelayInterval = 10
        anna.connect(expiry: 3600, will: will, userName: "anna")
        var other = settings([("one", ["witness": ["#"]]), ("two", [:])])
        if !isAllowed { other.listeners[1].accessControl = AccessControl(anonymous: [], users: [:], patterns: []) }
        let next = broker.crashed(settings: other)
        let witness = next.client("witness")
        witness.connect(userName: "witness")
        witness.subscribe("w")
        next.advance(seconds: 20)
        #expect(witness.messages.count == (isAllowed ? 1 : 0))
    }
}
