import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Who has a SUBACK gets what was retained, whenever the broker is killed.
@Suite struct OwedRetainedTests {
    /// A broker with so many retained messages, and a client that lasts, has asked for them and acknowledges none.
    private func asked(
        _ count: Int, shards: Int = 1, _ options: SubscriptionOptions = SubscriptionOptions(maximumQoS: .atLeastOnce)
    ) -> (SimulatedBroker, TestClient) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let publisher = broker.connected("publisher")
        for number in 0..<count { publisher.publish("r/\(number)", "\(number)", qos: .atLeastOnce, retain: true) }
        let client = broker.client("client")
        client.acknowledgement = .manual
        client.connect(expiry: 1000)
        client.subscribe([Subscription(filter: "r/+", options: options)])
        // The store waits a moment for what receivers may acknowledge.
        broker.advance(milliseconds: 100)
        return (broker, client)
    }

    private func texts(_ count: Int) -> Set<String> { Set((0..<count).map { "\($0)" }) }

    private func owed(_ broker: SimulatedBroker) -> Int {
        (broker.store?.rows[.subscription] ?? [:]).values.count {
            $0.withUnsafeBytes { StoredSubscription(decoding: $0) }?.lacksRetained == true
        }
    }

    @Test(.statement("MQTT-3.3.1-9", .v5), .statement("MQTT-3.3.1-6", .v311), arguments: RecoveryTests.shardCounts)
    func `what was retained comes after a crash, whether it had been looked for or not`(before: Int, after: Int) {
        let (broker, client) = asked(500, shards: before)
        #expect(client.messages.count < 200 && owed(broker) == 1)
        let next = broker.crashed(shards: after)
        client.acknowledgement = .automatic
        client.comeBack(to: next)
        next.advance(milliseconds: 100)
        #expect(client.connack?.sessionPresent == true)
        #expect(Set(client.texts) == texts(500))
        #expect(client.messages.allSatisfy { $0.retain })
        #expect(owed(next) == 0)
    }

    @Test(arguments: [1, 4]) func `what all is in the queue is not looked for again`(shards: Int) {
        let (broker, client) = asked(30, shards: shards)
        #expect(owed(broker) == 0)
        let next = broker.crashed()
        client.acknowledgement = .automatic
        client.comeBack(to: next)
        next.advance(milliseconds: 100)
        #expect(client.connack?.sessionPresent == true)
        #expect(client.publishesOfConnection.count == 30)
        #expect(Set(client.texts) == texts(30))
    }

    @Test func `a client that comes back several times before it has all gets all`() {
        var (broker, client) = asked(300)
        for _ in 0..<3 {
            broker = broker.crashed()
            client.comeBack(to: broker)
            client.lose()
        }
        client.acknowledgement = .automatic
        client.connect(clean: false, expiry: 1000)
        broker.settle()
        #expect(Set(client.texts) == texts(300))
        #expect(owed(broker) == 0)
    }

    @Test func `what is asked for while something else is looked for is owed until it was looked for too`() {
        let store = SimulatedStore()
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 20 }, store: store)
        let publisher = broker.connected("publisher")
        for number in 0..<50 { publisher.publish("r/\(number)", "\(number)", qos: .atLeastOnce, retain: true) }
        publisher.publish("s/50", "50", qos: .atLeastOnce, retain: true)
        let client = broker.client("client")
        client.acknowledgement = .manual
        client.connect(expiry: 1000)
        client.subscribe("r/+", qos: .atLeastOnce)
        broker.advance(milliseconds: 100)
        // SUBACK waits for the store, and the first scan comes to its end meanwhile.
        store.mode = .paused
        client.beginSubscribe([Subscription(filter: "s/+", options: SubscriptionOptions(maximumQoS: .atLeastOnce))])
        broker.settle()
        client.acknowledgement = .automatic
        for packet in client.publishes { client.acknowledge(.puback, packet.packetIdentifier ?? 0) }
        broker.advance(milliseconds: 100)
        #expect(Set(client.texts) == texts(50))
        let next = broker.crashed(committing: 100)
        store.mode = .prompt
        client.comeBack(to: next)
        next.advance(milliseconds: 100)
        #expect(Set(client.texts) == texts(51))
    }

    @Test func `what is found at once says nothing of what is looked for behind it`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        let publisher = broker.connected("publisher")
        for number in 0..<300 { publisher.publish("r/\(number)", "\(number)", qos: .atLeastOnce, retain: true) }
        let client = broker.client("client")
        client.acknowledgement = .manual
        client.connect(expiry: 1000)
        for filter in ["r/0", "r/+"] as [TopicFilter] {
            client.beginSubscribe([Subscription(filter: filter, options: SubscriptionOptions(maximumQoS: .atLeastOnce))])
        }
        broker.advance(milliseconds: 100)
        // They are settled together, when nothing is looked for.
        #expect(owed(broker) == 2)
        let next = broker.crashed()
        client.acknowledgement = .automatic
        client.comeBack(to: next)
        next.advance(milliseconds: 100)
        #expect(Set(client.texts) == texts(300) && owed(next) == 0)
    }

    @Test func `who has unsubscribed, or does not want it, is owed nothing`() {
        let (broker, client) = asked(300)
        client.unsubscribe("r/+")
        client.subscribe([
            Subscription(filter: "r/#", options: SubscriptionOptions(maximumQoS: .atLeastOnce, retainHandling: .doNotSend))
        ])
        broker.settle()
        #expect(owed(broker) == 0)
    }

    @Test func `a session that ends with its connection is owed nothing behind that`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        broker.connected("publisher").publish("r/0", "0", qos: .atLeastOnce, retain: true)
        let client = broker.connected("client")
        client.subscribe("r/+", qos: .atLeastOnce)
        #expect(client.texts == ["0"])
        #expect(broker.store?.rows[.subscription]?.isEmpty ?? true)
    }
}
