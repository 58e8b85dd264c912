import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// `check_retain_source`: what becomes of retained messages when their publisher may not write there any more.
@Suite struct RetainedSourceTests {
    private static let topics: [EncodedString] = ["a/1", "a/2", "b/1", "b/2/3", "b/4"]

    /// Rules by which users write to what is named and everybody reads everything.
    private func rules(_ users: [EncodedString: [String]]) -> AccessControl {
        func rule(_ permission: AccessPermission, _ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        return AccessControl(
            anonymous: [], users: users.mapValues { $0.compactMap { rule([.write], $0) } },
            patterns: [rule([.read], "#")].compactMap { $0 })
    }

    private func broker(
        shards: Int, _ users: [EncodedString: [String]], store: SimulatedStore? = nil
    ) -> SimulatedBroker {
        SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.listeners[0].accessControl = rules(users) }, store: store)
    }

    private func apply(_ users: [EncodedString: [String]]?, to broker: SimulatedBroker, checks: Bool = true) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].accessControl = users.map { rules($0) }
            $0.checksRetainSource = checks
        }
        for core in broker.cores { core.apply(settings) }
        broker.settle()
    }

    /// What newcomers get, with a filter of several topics and with those that name one.
    private func kept(_ broker: SimulatedBroker) -> [String] {
        let walker = broker.connected("walker")
        walker.subscribe("#")
        let direct = broker.connected("direct")
        direct.subscribe(Self.topics.compactMap { TopicFilter($0.description) }.map { Subscription(filter: $0) })
        #expect(direct.messages.map(\.topic).sorted() == walker.messages.map(\.topic).sorted())
        return walker.messages.map(\.topic).sorted()
    }

    private func publishAll(_ client: TestClient) {
        for topic in Self.topics { client.publish(topic, "kept", qos: .atLeastOnce, retain: true) }
    }

    @Test(arguments: [1, 4]) func `a message goes to newcomers only while its publisher may write there`(shards: Int) {
        let broker = broker(shards: shards, ["u": ["a/#", "b/#"]])
        let publisher = broker.client("p")
        publisher.connect(userName: "u")
        publishAll(publisher)
        #expect(kept(broker) == Self.topics.map(\.description))
        apply(["u": ["b/+"]], to: broker)
        #expect(kept(broker) == ["b/1", "b/4"])
        apply(["u": ["b/+"]], to: broker, checks: false)
        #expect(kept(broker) == Self.topics.map(\.description))
        apply([:], to: broker)
        #expect(kept(broker) == [])
        apply(nil, to: broker)
        #expect(kept(broker) == Self.topics.map(\.description), "without rules everybody may everything")
    }

    @Test(arguments: [1, 4]) func `what counts is the login that published`(shards: Int) {
        let broker = broker(shards: shards, ["u": ["#"], "v": ["#"]])
        let client = broker.client("p")
        client.connect(userName: "u")
        publishAll(client)
        client.disconnect()
        client.connect(userName: "v")
        client.publish("a/1", "new", qos: .atLeastOnce, retain: true)
        apply(["v": ["#"]], to: broker)
        #expect(kept(broker) == ["a/1"])
        apply(["u": ["#"]], to: broker)
        #expect(kept(broker) == ["a/2", "b/1", "b/2/3", "b/4"])
    }

    @Test(arguments: [1, 4], [1, 4])
    func `what counts is the same after a crash`(before: Int, after: Int) {
        let broker = broker(shards: before, ["u": ["#"], "v": ["#"]], store: SimulatedStore())
        let client = broker.client("p")
        client.connect(userName: "u")
        publishAll(client)
        client.disconnect()
        client.connect(userName: "v")
        client.publish("a/1", "new", qos: .atLeastOnce, retain: true)
        client.disconnect()
        var next = broker.crashed(shards: after)
        #expect(kept(next) == Self.topics.map(\.description))
        apply(["v": ["#"]], to: next)
        #expect(kept(next) == ["a/1"])
        next = next.crashed(shards: before)
        apply(["u": ["#"]], to: next)
        #expect(kept(next) == ["a/2", "b/1", "b/2/3", "b/4"])
    }

    @Test func `a message whose origin the store did not keep is handed out`() {
        let store = SimulatedStore()
        let message = StoredMessage(topic: Array("a/1".utf8), payload: [1], qos: .atLeastOnce, retain: true)
        let batch = JournalBatch()
        message.encoded().withUnsafeBytes { batch.append(JournalRecord(.insert, .retained, key: 256, body: $0)) }
        store.write(batch)
        let broker = broker(shards: 1, [:], store: store)
        #expect(kept(broker) == ["a/1"])
    }

    @Test func `the origin's listener is the one by whose rules is decided, or all if it is no more`() {
        let store = SimulatedStore()
        let batch = JournalBatch()
        let origins: [StoredListener] = [.place(0), .place(1), .place(2), .name("gone"), .name("second")]
        for (key, listener) in origins.enumerated() {
            let message = StoredMessage(topic: Array("b/\(key)".utf8), payload: [1], qos: .atLeastOnce, retain: true)
            let origin = StoredOrigin(clientIdentifier: "p", userName: "u", listener: listener)
            StoredRetained(message: message, origin: origin).encoded().withUnsafeBytes {
                batch.append(JournalRecord(.insert, .retained, key: UInt64(key + 1) << 8, body: $0))
            }
        }
        store.write(batch)
        let settings = SimulatedBroker.testSettings {
            $0.listeners = [ListenerPolicy(), ListenerPolicy()]
            $0.listeners[0].accessControl = rules(["u": ["b/2", "b/3"]])
            $0.listeners[1].accessControl = rules(["u": ["b/1", "b/3", "b/4"]])
            $0.listeners[1].name = "second"
        }
        let broker = SimulatedBroker(shards: 1, settings: settings, store: store)
        let newcomer = broker.connected("newcomer")
        newcomer.subscribe("#")
        #expect(newcomer.messages.map(\.topic).sorted() == ["b/1", "b/3", "b/4"])
    }

    @Test(arguments: [1, 4]) func `a retained will is its client's`(shards: Int) {
        let broker = broker(shards: shards, ["u": ["a/#"]])
        let client = broker.client("p")
        client.connect(will: Will(topic: "a/1", payload: Array("gone".utf8), retain: true), userName: "u")
        client.connection?.close()
        broker.settle()
        #expect(kept(broker) == ["a/1"])
        apply(["u": []], to: broker)
        #expect(kept(broker) == [])
    }

    @Test func `what the broker says of itself is always handed out`() {
        let settings = SimulatedBroker.testSettings {
            $0.systemIntervalSeconds = 10
            $0.listeners[0].accessControl = AccessControl(
                anonymous: [], users: [:],
                patterns: [AccessFilter(Array("$SYS/#".utf8), isPattern: false)].compactMap { $0 }.map { AccessRule([.read], $0) })
        }
        let broker = SimulatedBroker(shards: 1, settings: settings)
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/broker/version")
        #expect(watcher.texts == ["martlet"])
    }
}
