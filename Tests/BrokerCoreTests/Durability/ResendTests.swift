import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// A QoS 2 message that is sent again, and another one with its packet identifier before PUBREL, which is a message
/// like any other.
///
/// The publisher's session lasts and lives on the first of two shards, the subscriber's on the second.
@Suite struct ResendTests {
    private let store = SimulatedStore()
    private let settings: BrokerSettings

    init() {
        var rules: [AccessRule] = []
        for (permission, text): (AccessPermission, String) in [
            ([.read, .write], "#"), ([.read, .write], "$SYS/#"), ([.deny], "forbidden/#"),
        ] {
            if let filter = AccessFilter(Array(text.utf8), isPattern: false) { rules.append(AccessRule(permission, filter)) }
        }
        settings = SimulatedBroker.testSettings {
            $0.listeners = [ListenerPolicy(), ListenerPolicy(), ListenerPolicy()]
            $0.listeners[0].accessControl = AccessControl(anonymous: rules, users: [:], patterns: [])
            $0.listeners[1].mountPoint = MountPoint("mounted/")
        }
    }

    private func broker() -> SimulatedBroker { SimulatedBroker(shards: 2, settings: settings, store: store) }

    /// A client whose session lasts, on this shard.
    private func client(_ name: String, on shard: Int, of broker: SimulatedBroker, listener: Int) throws -> TestClient {
        let names = (0..<64).map { EncodedString("\(name) \($0)") }
        let client = broker.client(try #require(names.first { broker.shard(of: $0) == shard }))
        client.connect(clean: false, expiry: 1000, listener: listener)
        return client
    }

    private func subscriber(of broker: SimulatedBroker) throws -> TestClient {
        let subscriber = try client("subscriber", on: 1, of: broker, listener: 2)
        subscriber.subscribe("#", qos: .exactlyOnce)
        subscriber.subscribe("$SYS/#", qos: .exactlyOnce)
        return subscriber
    }

    /// PUBLISH with packet identifier 9, which is never released.
    private func send(
        _ topic: EncodedString, _ text: String, retain: Bool = false, duplicate: Bool = true, from client: TestClient
    ) {
        client.send(
            .publish(
                PublishPacket(
                    topic: topic, packetIdentifier: 9, qos: .exactlyOnce, retain: retain, duplicate: duplicate,
                    payload: Array(text.utf8))))
    }

    /// The broker after a crash in which the second shard has lost its part of message 9 to `t`, which had the text
    /// "first".
    private func crashed() throws -> (SimulatedBroker, publisher: TestClient, subscriber: TestClient) {
        let broker = broker()
        let subscriber = try subscriber(of: broker)
        let publisher = try client("publisher", on: 0, of: broker, listener: 0)
        store.mode = .paused
        send("t", "first", duplicate: false, from: publisher)
        #expect(publisher.acknowledgements(.pubrec).isEmpty)
        // The first batch is the publisher's shard's.
        let next = broker.crashed(committing: 1)
        store.mode = .prompt
        for client in [publisher, subscriber] {
            client.broker = next
            client.forgetSession()
        }
        #expect(subscriber.connect(clean: false, expiry: 1000, listener: 2)?.sessionPresent == true)
        #expect(publisher.connect(clean: false, expiry: 1000)?.sessionPresent == true)
        #expect(store.rows[.received]?.count == 1)
        #expect(subscriber.messages.isEmpty)
        return (next, publisher, subscriber)
    }

    @Test func `a packet identifier in use takes no message past the access rules`() throws {
        let broker = broker()
        let subscriber = try subscriber(of: broker)
        let publisher = try client("publisher", on: 0, of: broker, listener: 0)
        send("open", "first", duplicate: false, from: publisher)
        for topic: EncodedString in ["forbidden/x", "$SYS/broker/x"] {
            send(topic, "second", from: publisher)
            send(topic, "second", retain: true, from: publisher)
        }
        send("other", "third", from: publisher)
        #expect(subscriber.texts == ["first", "third"])
        #expect(
            publisher.acknowledgements(.pubrec).map(\.reasonCode)
                == [.success] + Array(repeating: .notAuthorized, count: 4) + [.success])
        #expect(publisher.isConnected)
        let late = try client("late", on: 1, of: broker, listener: 2)
        late.subscribe("#")
        #expect(late.messages.isEmpty)
    }

    @Test func `a packet identifier in use brings no topic that is too long behind its mount point`() throws {
        let broker = broker()
        let subscriber = try subscriber(of: broker)
        let publisher = try client("publisher", on: 0, of: broker, listener: 1)
        let long = try #require(EncodedString(String(repeating: "x", count: 65_535)))
        send("short", "first", duplicate: false, from: publisher)
        send(long, "second", from: publisher)
        #expect(publisher.acknowledgements(.pubrec).map(\.reasonCode) == [.success, .topicNameInvalid])
        #expect(publisher.publish(long, qos: .exactlyOnce)?.reasonCode == .topicNameInvalid)
        #expect(subscriber.messages.map(\.topic) == ["mounted/short"])
    }

    @Test(.statement("MQTT-4.3.3-10", .v5))
    func `in one life of the broker a message that is sent again goes to nobody again`() throws {
        let broker = broker()
        let publisher = try client("publisher", on: 0, of: broker, listener: 0)
        send("t", "first", duplicate: false, from: publisher)
        let subscriber = try subscriber(of: broker)
        send("t", "first", from: publisher)
        #expect(subscriber.messages.isEmpty, "it came before there was a subscription")
        #expect(publisher.acknowledgements(.pubrec).count == 2)
    }

    @Test(.statement("MQTT-4.3.3-10", .v5))
    func `what a crash has made uncertain is forwarded again once, and only if it is the same`() throws {
        let (_, publisher, subscriber) = try crashed()
        send("t", "first", from: publisher)
        send("t", "first", from: publisher)
        #expect(subscriber.messages.map(\.topic) == ["t"])
        send("t", "another", from: publisher)
        send("t", "another", from: publisher)
        send("other", "another", from: publisher)
        #expect(subscriber.messages.map(\.topic) == ["t", "t", "other"])
        #expect(subscriber.texts == ["first", "another", "another"])
        #expect(publisher.acknowledgements(.pubrec).map(\.reasonCode) == Array(repeating: .success, count: 5))
        publisher.acknowledge(.pubrel, 9)
        #expect(publisher.acknowledgements(.pubcomp).map(\.reasonCode) == [.success])
        #expect(store.rows[.received]?.isEmpty == true)
    }

    @Test func `what may not be published any more after a crash is not forwarded again, and gets its PUBREC`() throws {
        let (broker, publisher, subscriber) = try crashed()
        var strict = settings
        strict.listeners[0].accessControl = AccessControl(anonymous: [], users: [:], patterns: [])
        for core in broker.cores { core.apply(strict) }
        send("t", "first", from: publisher)
        #expect(subscriber.messages.isEmpty)
        #expect(publisher.acknowledgements(.pubrec).map(\.reasonCode) == [.success])
        for core in broker.cores { core.apply(settings) }
        send("t", "first", from: publisher)
        #expect(subscriber.texts == ["first"])
    }

    /// Such a row holds no digest.
    @Test func `what an earlier version received is forwarded again as it comes`() throws {
        let broker = broker()
        let subscriber = try subscriber(of: broker)
        let publisher = try client("publisher", on: 0, of: broker, listener: 0)
        store.mode = .paused
        send("t", "first", duplicate: false, from: publisher)
        store.crash(committing: 1)
        store.mode = .prompt
        let batch = JournalBatch()
        for key in (store.rows[.received] ?? [:]).keys {
            batch.append(JournalRecord(.update, .received, key: key, body: UnsafeRawBufferPointer(start: nil, count: 0)))
        }
        #expect(batch.liveCount == 1)
        store.write(batch)
        let next = SimulatedBroker(shards: 2, settings: settings, seed: 2, store: store, start: broker.now)
        publisher.broker = next
        subscriber.broker = next
        subscriber.connect(clean: false, expiry: 1000, listener: 2)
        publisher.connect(clean: false, expiry: 1000)
        send("t", "first", from: publisher)
        #expect(subscriber.texts == ["first"])
    }
}
